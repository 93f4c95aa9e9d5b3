// Locator: where pages are, asked of the shards that know: one lookup per owner, in parallel; or
// looked up in their memory, and asked only for the rest. Of several holders of a page it names the
// nearest (nearest.h).
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
  // nothing was found and a shard that was to be asked has not answered.
  std::vector<size_t> Lookup(const View& view, std::span<const Key> keys, std::span<Record> records,
                             TimePoint deadline, std::span<const uint64_t> failed = {});
  // Of keys of which Lookup has found nothing: those with a record all the same, of a node that it
  // leaves out (Peers::ToAvoid). Costs a lookup while there is such a node, else nothing.
  std::vector<size_t> LeftOut(const View& view, std::span<const Key> keys, TimePoint deadline);
  // What is still remembered of earlier lookups, and until when each may be used. Returns how many
  // were found.
  size_t Recall(std::span<const Key> keys, std::span<Record> records, std::span<TimePoint> until,
                TimePoint now);
  // The record has turned out to be outdated.
  void Forget(const Key& key) { cache_.Forget(key); }
  void ForgetAll() { cache_.Clear(); }

 private:
  // What is found: a record for each key, the records of its other holders, and the keys that a
  // shard has not answered.
  struct Found {
    std::span<Record> records;
    std::vector<OtherRecord> others;
    std::vector<size_t> unanswered;
  };
  enum class Holders : uint8_t { kReadable, kAll };
  size_t Recalled(size_t found);
  // Asks the owners in each ring of the view.
  void Search(const View& view, std::span<const Key> keys, Holders holders,
              std::span<const uint64_t> failed, TimePoint deadline, Found* found);
  // Looks for the keys of each group at its node; groups are used up.
  void LookupAt(NodeGroups* groups, std::span<const Key> keys, Holders holders,
                std::span<const uint64_t> failed, TimePoint deadline, Found* found);
  void LookAt(NodeGroups* groups, std::vector<PeerRef>* due, std::span<const Key> keys,
              Found* found, std::span<const uint64_t> exclude, TimePoint now, TimePoint deadline);
  void LookupHere(std::span<const NodeGroups::Item> items, std::span<const Key> keys,
                  std::span<const uint64_t> exclude, Found* found);
  // Also asks those that are `due` for grants.
  void Ask(NodeGroups* groups, std::span<const PeerRef> due, std::span<const Key> keys,
           Found* found, std::span<const uint64_t> exclude, TimePoint deadline);
  // Takes over what one shard has answered for `items`.
  static void Take(std::span<const NodeGroups::Item> items, std::span<const Record> records,
                   std::span<const OtherRecord> others, Found* found);
  // Puts the nearest of all holders into records.
  void ChooseNearest(std::span<const Key> keys, Found* found) const;
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
