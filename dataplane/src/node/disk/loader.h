// Loader: brings pages from disk back into the pool, where engines and peers find them.
//
//   Load    the calling thread waits for the drive: a get of this node's engines
//   Want    nobody waits: a peer's fetch, which asks again, and an exists, which a get follows
//
// A page goes straight from the drive into its slot, and is verified there. It is put into service
// only if it is still on disk then, under a lock that a clear takes: so nothing comes back that was
// cleared while it was on its way (see Barrier).
//
// A page counts for a tenant's share of the pool (pool/shares.h). Engines name only pages of their
// own tenant, so a page that an engine asks for is of that tenant. A page that a peer asks for
// counts for whoever set it here. Of pages of the process before that is not known: they count for
// tenant 0.
//
// A drive may keep a read for longer than anybody waits. Then the slot stays the drive's until it
// lets go (disk/reads.h).
//
// Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/key.h"
#include "base/seeded_hash.h"
#include "base/status.h"
#include "disk/disk_tier.h"
#include "node/owner/room.h"
#include "pool/pool.h"

namespace peercache {

class Loader {
 public:
  static constexpr size_t kMostLoaded = size_t{64} << 10;

  Loader(disk::DiskTier* tier, Pool* pool, Room* room, Duration patience);
  ~Loader();
  // Before it nothing that was wanted comes. Fails where the system gives no thread.
  Status Start();

  // Fills pins[i], where it is empty and keys[i] is on disk, as far as that can be done by the
  // deadline. Pages that were asked for are hot: they may take the room of others. They count for
  // `tenant`.
  void Load(std::span<const Key> keys, std::span<PagePin> pins, TimePoint deadline,
            TenantNumber tenant);
  // coming[i] = 1: keys[i] is on disk. It is on its way into the pool, or will be when it is asked
  // for again, if too many are on their way. Empty: nobody wants to know. No `tenant`: a peer asks.
  void Want(std::span<const Key> keys, std::optional<TenantNumber> tenant,
            std::span<uint8_t> coming = {});
  // Pages that came since the last call, to be published if they are still there; not all if they
  // are kMostLoaded.
  std::vector<PageAt> TakeLoaded();

  // Returns when no page can be put into service any more that was not on disk when this was
  // called.
  void Barrier() { const std::unique_lock lock(committing_); }

  uint64_t loaded_pages() const { return loaded_pages_.load(std::memory_order_relaxed); }

 private:
  struct Loading;
  // Pages that Load and Want read at a time.
  static constexpr size_t kBatch = 64;
  // Bytes on their way for those who do not wait: a quarter of a second of a fast drive.
  static constexpr uint64_t kMostWanted = uint64_t{256} << 20;

  // As Load; tenants[i] is that of keys[i].
  void Bring(std::span<const Key> keys, std::span<const TenantNumber> tenants,
             std::span<PagePin> pins, TimePoint deadline);
  // found[i].owner is whom the page counts for.
  void LoadBatch(std::span<const Key> keys, std::span<const disk::DiskPage> found,
                 std::span<PagePin> pins, TimePoint deadline);
  PagePin PutIntoService(Loading* loading, TenantNumber tenant);
  void Run();

  disk::DiskTier* const tier_;
  Pool* const pool_;
  Room* const room_;
  const Duration patience_;
  std::shared_mutex committing_;
  std::atomic<uint64_t> loaded_pages_{0};

  std::mutex mutex_;
  std::condition_variable wake_;
  struct Wanted {
    Key key;
    TenantNumber tenant = 0;
  };
  std::deque<Wanted> queue_;
  // Lengths of queue_, and of those that Run is reading.
  std::unordered_map<Key, uint32_t, SeededHash> wanted_;
  uint64_t wanted_bytes_ = 0;
  std::vector<PageAt> loaded_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace peercache
