// Spiller: writes pages of the pool to disk, the oldest first, as fast as the drives take them and
// the write budget allows. Sets never wait for it: a page that is evicted before its turn has come
// is not written, and counted. What the pool has is offered again when a drive that was off is
// back.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <span>
#include <thread>

#include "base/key.h"
#include "base/status.h"
#include "disk/disk_tier.h"
#include "pool/pool.h"

namespace peercache {

class Spiller {
 public:
  Spiller(disk::DiskTier* tier, Pool* pool) : tier_(tier), pool_(pool) {}
  ~Spiller();
  // Before it nothing is written. Fails where the system gives no thread.
  Status Start();

  // Pages of one set of `tenant` that were not here before. `continues_hit`: others of it were, so
  // its prefix is asked for again.
  void Add(std::span<const PageAt> pages, bool continues_hit, TenantNumber tenant);
  // Pages that the pool has from the process before, once it is known which of them are on disk.
  // They are looked for in the pool run by run: nothing is kept of them before.
  void AddAll();

  // Without those that are yet to be looked for.
  size_t waiting() const;
  // Pages that were evicted before their turn had come.
  uint64_t overtaken() const { return overtaken_.load(std::memory_order_relaxed); }

 private:
  struct Fresh {
    PageAt at;
    uint64_t batch = 0;
    bool continues_hit = false;
    TenantNumber tenant = 0;
  };
  // 64 bytes each. Beyond that the oldest go, as if they had been evicted.
  static constexpr size_t kMostWaiting = size_t{4} << 20;

  void Run();
  // Under the lock: all that the pool has now is looked for.
  void AdoptAll();
  void TakeAdopted();
  // False: the drive does not keep up, the page has to wait.
  bool Write(const Fresh& page);

  disk::DiskTier* const tier_;
  Pool* const pool_;
  std::atomic<uint64_t> overtaken_{0};
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Fresh> fresh_;
  std::deque<Fresh> adopted_;  // those of one run
  bool adopts_ = false;        // there are more
  uint64_t adopts_at_ = 0;     // Pool::NextReady
  uint64_t adopts_until_ = 0;  // pages that are set later have higher generations
  uint64_t rejoins_ = 0;       // of the tier
  uint64_t batch_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace peercache
