// LookupRound: one round of questions about many keys, to the shards that own them in one ring.
//
//   LookupRound round(...);
//   for (...) round.Add(owner, index);
//   round.Finish();
//
// A shard is asked as soon as kBatch of its keys are there. It works on them while the caller finds
// the owners of the next ones, and answers are taken as they come. So of a large call neither side
// waits for all of the other's work, and what one message takes stays in the caches of both.
//
// Costs: a message for each shard and each kBatch of its keys, each over a connection of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/key.h"
#include "directory/shard.h"
#include "node/count/counters.h"
#include "node/peer/peers.h"
#include "node/read/one_sided.h"
#include "wire/record.h"

namespace peercache {

// A record for each key, the records of its other holders, and the keys that a shard has not
// answered.
struct LookupFound {
  std::span<Record> records;
  std::vector<OtherRecord> others{};
  std::vector<size_t> unanswered{};
};

// Those that this node reads from (Peers::ToAvoid), or all.
enum class HoldersNamed : uint8_t { kReadable, kAll };

class LookupRound {
 public:
  static constexpr size_t kBatch = 4096;

  struct Parts {
    Shard* shard;
    Peers* peers;
    OneSidedLookups* one_sided;  // null: no grants are asked for
    Counters* counters;
    Duration stall;        // longest without an answer of one shard
    bool hurried = false;  // GroupLimits
  };

  // No holder that is in `failed` is named.
  LookupRound(Parts parts, std::span<const Key> keys, HoldersNamed holders,
              std::span<const uint64_t> failed, TimePoint deadline, LookupFound* found)
      : parts_(parts),
        keys_(keys),
        holders_(holders),
        failed_(failed),
        deadline_(deadline),
        found_(found),
        calls_(*parts.peers, CallGroup::Breaker::kRespect) {}

  // keys[index] is looked for at this shard.
  void Add(uint64_t owner, size_t index);
  // This shard is asked for a grant, too.
  void Renew(PeerRef peer) { due_.push_back(std::move(peer)); }
  // Everything has been added: returns when all has been answered, or nothing more is waited for.
  void Finish();

  // Holders that are not to be named.
  std::span<const uint64_t> exclude();

 private:
  using Items = std::vector<uint32_t>;  // indexes of keys
  // Those of one shard that it has not been asked for.
  struct Waiting {
    uint64_t owner = 0;
    Items items;
  };
  void Send(Waiting* waiting);
  void LookupHere(std::span<const uint32_t> items);
  // The answer to calls_[call], if that is a lookup.
  void Take(size_t call);
  // records_ and others_ are what one shard has said of these.
  void Place(std::span<const uint32_t> items);
  void Unanswered(std::span<const uint32_t> items);

  const Parts parts_;
  const std::span<const Key> keys_;
  const HoldersNamed holders_;
  const std::span<const uint64_t> failed_;
  const TimePoint deadline_;
  LookupFound* const found_;
  std::optional<std::vector<uint64_t>> exclude_;   // as it is when the first shard is asked
  std::unordered_map<uint64_t, Waiting> waiting_;  // by shard
  Waiting* latest_ = nullptr;
  CallGroup calls_;
  std::vector<Items> sent_;  // of the first calls; the others ask for grants
  std::vector<PeerRef> due_;
  // Of one message.
  std::vector<Key> asked_;
  std::vector<Record> records_;
  std::vector<OtherRecord> others_;
};

}  // namespace peercache
