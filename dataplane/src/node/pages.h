// Pages: what engines ask of a node, over batches: set, get, exists, presence.
//
//   Set     copy into own slots, then publish: answered when every owner of a record has
//           acknowledged
//   Get     own pool; then what another call is already bringing (flights.h); then one lookup per
//           owner in parallel, one read per holder in parallel. Bytes go straight to the engine's
//           segments
//   Exists  own pool, then lookups; Presence answers for each key
//
// Each call runs in the calling thread and is bounded in time by its size and the peer time-out. A
// fault anywhere is a miss (get, exists, presence) or a refusal (set) of the pages concerned, with
// a counted reason, never an error.
//
// With a permit (base/permit.h), the engine can take its pages back while a call is at work: from
// then on nothing is written there, and what was read there is not stored.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/copy.h"
#include "base/crew.h"
#include "base/key.h"
#include "node/checksum_policy.h"
#include "node/clears.h"
#include "node/counters.h"
#include "node/destinations.h"
#include "node/flights.h"
#include "node/locator.h"
#include "node/peers.h"
#include "node/publisher.h"
#include "node/remote_reader.h"
#include "node/replicas.h"
#include "node/stage_time.h"
#include "node/upkeep.h"
#include "node/views.h"
#include "pool/pool.h"

namespace peercache {

struct PagesOptions {
  Duration lease{};
  Duration peer_timeout{};  // longest a call may stall on others
  Duration stall{};         // longest without progress of one exchange
  ChecksumPolicy checksums = ChecksumPolicy::kSampled;
  uint32_t copy_threads = 1;  // that move the pages of one call, the calling one included
};

class Pages {
 public:
  Pages(PagesOptions options, Pool* pool, Peers* peers, const Views* views, Publisher* publisher,
        Locator* locator, Replicas* replicas, Room* room, Fabric* fabric, Clears* clears,
        Counters* counters);

  // Page i is made of segments [i * per_page, (i + 1) * per_page). ok[i] = 1: stored and visible.
  void Set(std::span<const Key> keys, std::span<const ConstBytes> segments, size_t per_page,
           uint64_t tag, std::span<uint8_t> ok, const Permit* permit = nullptr);
  // ok[i]: the PageSource whose bytes are in place. The segments of pages from nowhere, 0, are
  // undefined afterwards. `unmapped`: as of Destinations.
  void Get(std::span<const Key> keys, std::span<const Bytes> segments, size_t per_page,
           std::span<uint8_t> ok, const Permit* permit = nullptr, bool unmapped = false);
  // Length of the leading run of keys that can be read.
  size_t Exists(std::span<const Key> keys);
  // there[i] = 1: keys[i] can be read. Returns how many can.
  size_t Presence(std::span<const Key> keys, std::span<uint8_t> there);

 private:
  // Sets there[i] to 1 where keys[i] can be read. `there` is all 0.
  void Find(std::span<const Key> keys, std::span<uint8_t> there, LatencyHistogram* lookup_time);
  // Sets ok for the pages that are here and returns the others.
  std::vector<size_t> GetLocal(std::span<const Key> keys, const Destinations& to,
                               std::span<uint8_t> ok, TimePoint start, StageTime* stage);
  // The same by READs of the rails, into memory that only these reach.
  std::vector<size_t> ReadLocal(std::span<const Key> keys, const Destinations& to,
                                std::span<uint8_t> ok, TimePoint start, StageTime* stage);
  // A page that is wanted from another node, and why it has not come yet.
  struct Wanted {
    size_t page = 0;
    enum Why : uint8_t { kAbsent, kUnanswered, kStale, kUnreachable } why = kAbsent;
  };
  // Brings pages from other nodes. checksums[page]: by the record that it was read with.
  void Fetch(std::span<const Key> keys, std::span<const size_t> pages, const Destinations& to,
             std::span<uint8_t> ok, std::span<uint64_t> checksums, TimePoint start);
  // Reads pages at `records`, each of which may be used until `until`. `wanted` becomes those that
  // another place may have; nodes that did not give theirs are added to `failed`.
  void Read(std::span<const Key> keys, std::vector<Wanted>* wanted, std::span<const Record> records,
            std::span<const TimePoint> until, const Destinations& to, std::span<uint8_t> ok,
            std::span<uint64_t> checksums, TimePoint deadline, StageTime* stage,
            std::vector<uint64_t>* failed);
  // Sets ok for the pages that have a replica here and removes them from `wanted`; returns how
  // many. With `pool`, also those that have come into the pool.
  size_t GetReplicas(std::span<const Key> keys, const Destinations& to, std::span<uint8_t> ok,
                     std::vector<size_t>* wanted, Pool* pool, StageTime* stage);
  // False: this node may have missed a clear, so it gives no page now.
  bool MayServe(TimePoint start);
  // Where the page was. Nowhere: the bytes are wrong, or the engine's memory is gone or taken back.
  PageSource CopyOut(const PagePin& pin, const Destinations& to, size_t page);
  // work(i) for i in [0, count), with help when `bytes` are worth it.
  template <typename Work>
  void ForEach(size_t count, uint64_t bytes, const Work& work);
  TimePoint DeadlineFor(uint64_t bytes, TimePoint start) const;

  const PagesOptions options_;
  Pool* const pool_;
  const Views* const views_;
  Publisher* const publisher_;
  Locator* const locator_;
  Replicas* const replicas_;
  Room* const room_;
  Clears* const clears_;
  Counters* const counters_;
  Crew crew_;
  RemoteReader reader_;
  Flights flights_;
};

}  // namespace peercache
