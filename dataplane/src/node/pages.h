// Pages: the three things engines ask of a node, over batches: set, get, exists.
//
//   Set     copy into own slots, then publish: answered when every owner of a record has
//   acknowledged Get     own pool, then one lookup per owner in parallel, then one read per peer in
//   parallel;
//           bytes go straight to the engine's segments
//   Exists  own pool, then lookups
//
// Each call runs in the calling thread and is bounded in time by its size and the peer time-out. A
// fault anywhere is a miss (get, exists) or a refusal (set) of the pages concerned, with a counted
// reason, never an error.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <span>

#include "base/clock.h"
#include "base/copy.h"
#include "base/key.h"
#include "node/counters.h"
#include "node/peers.h"
#include "node/publisher.h"
#include "node/upkeep.h"
#include "node/views.h"
#include "pool/pool.h"

namespace peercache {

struct PagesOptions {
  Duration lease{};
  Duration peer_timeout{};  // longest a call may stall on others
  Duration stall{};         // longest without progress of one exchange
};

class Pages {
 public:
  Pages(PagesOptions options, Pool* pool, Shard* shard, Peers* peers, const Views* views,
        Publisher* publisher, Room* room, Counters* counters);

  // Page i is made of segments [i * per_page, (i + 1) * per_page). ok[i] = 1: stored and visible.
  void Set(std::span<const Key> keys, std::span<const ConstBytes> segments, size_t per_page,
           uint64_t tag, std::span<uint8_t> ok);
  // ok[i] = 1: all bytes are in place. The segments of other pages are undefined afterwards.
  void Get(std::span<const Key> keys, std::span<const Bytes> segments, size_t per_page,
           std::span<uint8_t> ok);
  // Length of the leading run of keys that can be read.
  size_t Exists(std::span<const Key> keys);

 private:
  // records[i].node = 0 where nothing was found. Asks the owners in `current`, then for what is
  // missing those in `next` and `previous`.
  void Lookup(const View& view, std::span<const Key> keys, std::span<Record> records,
              TimePoint deadline);
  void LookupIn(const Ring& ring, std::span<const Key> keys, std::span<const size_t> which,
                std::span<Record> records, TimePoint deadline);
  void ReadRemote(std::span<const Key> keys, std::span<const Record> records,
                  std::span<const size_t> which, std::span<const Bytes> segments, size_t per_page,
                  std::span<uint8_t> ok, TimePoint deadline);
  Result<Reservation> ReserveWaiting(size_t length, TimePoint deadline);

  const PagesOptions options_;
  Pool* const pool_;
  Shard* const shard_;
  Peers* const peers_;
  const Views* const views_;
  Publisher* const publisher_;
  Room* const room_;
  Counters* const counters_;
};

}  // namespace peercache
