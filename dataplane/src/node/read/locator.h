// Locator: where pages are, asked of the shards that know, all at the same time (lookup_round.h);
// or looked up in their memory, and asked only for the rest. Of several holders of a page it names
// the nearest (nearest.h).
//
// Costs: Lookup takes one message to each shard that owns a key, and waits for the slowest of them.
// Keys of the own shard take none. Recall takes the lock of a stripe once for 256 keys. Worse: keys
// of many shards: a call of 128 keys asks most members of a cluster of up to 128.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/key.h"
#include "directory/location_cache.h"
#include "directory/shard.h"
#include "membership/view.h"
#include "node/batch/node_groups.h"
#include "node/count/counters.h"
#include "node/peer/nearest.h"
#include "node/peer/peers.h"
#include "node/rails/fabric.h"
#include "node/read/lookup_round.h"
#include "node/read/one_sided.h"

namespace peercache {

struct LocatorOptions {
  Duration stall{};      // longest without an answer of one shard
  Duration lease{};      // the longest that a record may be used after it was asked for
  Duration cache_ttl{};  // how long locations are remembered; a longer one than the lease is cut
  size_t cache_entries = 64 << 10;
};

class Locator {
 public:
  // `fabric`: null without RDMA. `one_sided`: null where all shards are asked.
  Locator(LocatorOptions options, Shard* shard, Peers* peers, Fabric* fabric,
          OneSidedLookups* one_sided, Counters* counters);

  // Asks the shards, and remembers what they say. records[i].node = 0 where nothing was found but
  // at nodes that are `failed` or whose breaker is open. The records may be used for a lease from
  // when this was called (record.lease_ms, and at most ours). Returns the keys, in order, of which
  // nothing was found and a shard that was to be asked has not answered. `hurried`: GroupLimits.
  std::vector<size_t> Lookup(const View& view, std::span<const Key> keys, std::span<Record> records,
                             TimePoint deadline, std::span<const uint64_t> failed = {},
                             bool hurried = false);
  // Of keys of which Lookup has found nothing: those with a record all the same, of a node that it
  // leaves out (Peers::ToAvoid). Costs a lookup while there is such a node, else nothing.
  std::vector<size_t> LeftOut(const View& view, std::span<const Key> keys, TimePoint deadline);
  // What is still remembered of earlier lookups, and until when each may be used: for the rest of
  // its lease. Returns how many were found.
  size_t Recall(std::span<const Key> keys, std::span<Record> records, std::span<TimePoint> until,
                TimePoint now);
  // The record has turned out to be outdated.
  void Forget(const Key& key) { cache_.Forget(key); }
  void ForgetAll() { cache_.Clear(); }

 private:
  size_t Recalled(size_t found);
  // Asks the owners in each ring of the view.
  void Search(const View& view, std::span<const Key> keys, HoldersNamed holders,
              std::span<const uint64_t> failed, TimePoint deadline, bool hurried,
              LookupFound* found);
  // Looks the keys of each group up in the memory of its shard; groups are used up. Leaves to the
  // round what has to be asked for.
  void LookAt(NodeGroups* groups, std::span<const Key> keys, LookupFound* found, TimePoint deadline,
              LookupRound* round);
  // Puts the nearest of all holders into records.
  void ChooseNearest(std::span<const Key> keys, LookupFound* found) const;
  // All but the preference.
  Way WayTo(uint64_t node, TimePoint now) const;

  const LocatorOptions options_;
  Shard* const shard_;
  Peers* const peers_;
  Fabric* const fabric_;
  OneSidedLookups* const one_sided_;
  Counters* const counters_;
  LocationCache cache_;
};

}  // namespace peercache
