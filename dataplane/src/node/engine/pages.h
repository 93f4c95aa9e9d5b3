// Pages: what engines ask of a node, over batches: set, get, exists, presence.
//
//   Set     copy into own slots, then publish: answered when every owner of a record has
//           acknowledged
//   Get     from one source after another, each of which is asked for what those before it have not
//           brought: own pool, replicas, own disk (node/disk/loader.h), other nodes (fetcher.h),
//           other calls that bring the same pages (flights.h). Bytes go straight to the engine's
//           segments
//   Exists  own pool and disk, then lookups; Presence answers for each key
//
// Each call runs in the calling thread and is bounded in time by its size and the peer time-out. A
// fault anywhere is a miss (get, exists, presence) or a refusal (set) of the pages concerned, with
// a counted reason, never an error.
//
// With a permit (base/permit.h), the engine can take its pages back while a call is at work: from
// then on nothing is written there, and what was read there is not stored.
//
// Costs: Set copies each byte once, and sends one message to each owner of records of the call. Get
// copies each byte once from the own pool, and not at all beyond what its reader does from another
// node. The pool's lock is taken once for 256 pages. Presence and Exists touch no page. Worse:
// calls of few pages, which pay for a message and a wake-up all the same.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/copy.h"
#include "base/crew.h"
#include "base/key.h"
#include "node/batch/checksum_policy.h"
#include "node/batch/destinations.h"
#include "node/batch/get_batch.h"
#include "node/batch/node_groups.h"
#include "node/clear/clears.h"
#include "node/count/counters.h"
#include "node/count/stage_time.h"
#include "node/disk/disk_pages.h"
#include "node/engine/bypass.h"
#include "node/owner/publisher.h"
#include "node/owner/upkeep.h"
#include "node/peer/read_cost.h"
#include "node/peer/views.h"
#include "node/read/fetcher.h"
#include "node/read/flights.h"
#include "node/read/locator.h"
#include "node/read/remote_reader.h"
#include "node/read/replicas.h"
#include "node/read/warmer.h"
#include "pool/pool.h"

namespace peercache {

struct PagesOptions {
  Duration lease{};
  Duration peer_timeout{};  // longest a call may stall on others
  Duration stall{};         // longest without progress of one exchange
  ChecksumPolicy checksums = ChecksumPolicy::kSampled;
  uint32_t copy_threads = 1;       // that move the pages of one call, the calling one included
  const Bypass* bypass = nullptr;  // outlives the Pages; null: never on
};

class Pages {
 public:
  // `readers`: as of RemoteReader. `disk`: null without.
  Pages(PagesOptions options, Pool* pool, const Views* views, const Peers* peers,
        Publisher* publisher, Locator* locator, Replicas* replicas, Room* room,
        std::vector<PageReader*> readers, Clears* clears, Counters* counters,
        DiskPages* disk = nullptr);

  // Page i is made of segments [i * per_page, (i + 1) * per_page). ok[i] = 1: stored and visible.
  // `tenant`, here and below: whose engine asks.
  void Set(std::span<const Key> keys, std::span<const ConstBytes> segments, size_t per_page,
           uint64_t tag, std::span<uint8_t> ok, const Permit* permit = nullptr,
           TenantNumber tenant = 0);
  // ok[i]: the PageSource whose bytes are in place. The segments of pages from nowhere, 0, are
  // undefined afterwards. `unmapped`: as of Destinations.
  void Get(std::span<const Key> keys, std::span<const Bytes> segments, size_t per_page,
           std::span<uint8_t> ok, const Permit* permit = nullptr, bool unmapped = false,
           TenantNumber tenant = 0, Duration recompute = {});
  // Length of the leading run of keys that can be read. `recompute`, here as for Get and Presence:
  // what it costs the engine to compute one of the pages, zero where it has not said. What takes
  // longer than that counts as not there.
  size_t Exists(std::span<const Key> keys, TenantNumber tenant = 0, Duration recompute = {});
  // there[i] = 1: keys[i] can be read. Returns how many can.
  size_t Presence(std::span<const Key> keys, std::span<uint8_t> there, Duration recompute = {});
  // What engines get nothing of for now, as it is slower than computing.
  std::vector<SlowPlace> SlowPlaces() const;

 private:
  // Sets there[i] to 1 where keys[i] can be read, and to kSlow where bringing the page takes longer
  // than it is worth. `there` is all 0. Returns the indexes of pages that only disks of other nodes
  // have, each with a node that has it.
  static constexpr uint8_t kSlow = 2;
  std::vector<NodeGroups::Item> Find(std::span<const Key> keys, std::span<uint8_t> there,
                                     Duration recompute, LatencyHistogram* lookup_time);
  // The same of the own disk. What it has, and brings too slowly, is returned.
  std::vector<size_t> FindOnOwnDisk(std::span<const Key> keys, std::span<uint8_t> there,
                                    Duration recompute);
  // Begins to bring those that are on disk, of this node or of others: a get follows an exists.
  void Warm(std::span<const Key> keys, std::span<const NodeGroups::Item> on_disks,
            TenantNumber tenant);
  // ---- the sources of a get, in the order in which they are asked
  void FromOwnPool(GetBatch* batch, StageTime* stage);
  // The same by READs of the rails, into memory that only these reach; what the disk has comes
  // through the pool.
  void ReadOwnPool(GetBatch* batch, StageTime* stage, TenantNumber tenant);
  // pins[i] is of page first + i, or empty. Adds to `wanted` what it has not brought.
  void ReadPinned(GetBatch* batch, size_t first, std::span<const PagePin> pins, TimePoint deadline);
  // Returns how many pages it has brought. With `pool`, also those that have come into the pool.
  size_t FromReplicas(GetBatch* batch, Pool* pool, StageTime* stage);
  void FromOwnDisk(GetBatch* batch, TenantNumber tenant);
  // The wanted pages that are to come from the own disk: all, where no page's worth is known; else
  // those that it has, or one of them as a trial of a slow one, or none.
  std::vector<size_t> WorthOfOwnDisk(GetBatch* batch);
  // What the drive did not bring in time is there when it is asked for again.
  void WantLate(const GetBatch& batch, TenantNumber tenant);
  // Other nodes: fetcher_.
  void FromOtherCalls(GetBatch* batch, std::span<const Flights::Followed> followed);

  bool Bypassed() const { return options_.bypass != nullptr && options_.bypass->on(); }
  // False: this node may have missed a clear, so it gives no page now.
  bool MayServe(TimePoint start);
  // Where the page was. Nowhere: the bytes are wrong, or the engine's memory is gone or taken back.
  PageSource CopyOut(const PagePin& pin, PageSource source, const Destinations& to, size_t page);

  const PagesOptions options_;
  const Peers* const peers_;
  Pool* const pool_;
  const Views* const views_;
  Publisher* const publisher_;
  Locator* const locator_;
  Replicas* const replicas_;
  Room* const room_;
  Clears* const clears_;
  Counters* const counters_;
  DiskPages* const disk_;
  ReadCost own_disk_;
  std::atomic<uint64_t> disk_page_bytes_{0};  // of the last get from there, on average
  Crew crew_;
  RemoteReader reader_;
  Fetcher fetcher_;
  Flights flights_;
  Warmer warmer_;
};

}  // namespace peercache
