// OneSidedLookups: looking keys up in the memory of other nodes' shards
// (directory/bucket_lookup.h), where rails reach them and they have granted it. Their threads take
// no part, but for a grant about once a second: the call that finds it is due asks the shard for
// it, and for its own keys as well.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/key.h"
#include "directory/bucket_lookup.h"
#include "node/count/counters.h"
#include "node/peer/peers.h"
#include "node/rails/fabric.h"

namespace peercache {

class OneSidedLookups {
 public:
  // `owner_ttl`: the longest that a grant can last. All outlive this.
  OneSidedLookups(Duration owner_ttl, Fabric* fabric, Peers* peers, Counters* counters);

  // What may be used at this shard now; null: it has to be asked. *due: and for a grant, by this
  // caller.
  std::shared_ptr<const Grant> Use(const Peer& peer, TimePoint now, bool* due);
  // Takes the end of a call of kDirectory. `asked`: read before it was sent.
  void Take(const PeerCall& call, TimePoint asked);

  struct Look {
    size_t index = 0;  // of key and record
    uint64_t node = 0;
    std::shared_ptr<const Grant> grant;
  };
  // Fills in records, and adds to `others`. `now`: when this began. Returns the looks that have
  // brought no answer.
  std::vector<Look> LookUp(std::span<const Look> looks, std::span<const Key> keys,
                           std::span<Record> records, std::vector<OtherRecord>* others,
                           std::span<const uint64_t> exclude, TimePoint now, TimePoint deadline);

 private:
  struct Known {
    std::shared_ptr<const Grant> grant;
    TimePoint due{};
  };

  void DropOld(TimePoint now);

  const Duration owner_ttl_;
  Fabric* const fabric_;
  Peers* const peers_;
  Counters* const counters_;
  std::mutex mutex_;
  std::unordered_map<uint64_t, Known> known_;
  TimePoint drop_at_{};
};

}  // namespace peercache
