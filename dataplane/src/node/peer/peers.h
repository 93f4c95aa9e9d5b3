// Peers: the nodes this node talks to, and groups of calls to them.
//
// A Peer is made when its member first appears. It outlives its membership, so that its index (used
// in PublishedTo) and its fence stay meaningful while its shard may still serve records. Then it is
// dropped and the index is given to another (ForgetGone), so that members may come and go for ever.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "directory/fence.h"
#include "membership/view.h"
#include "node/peer/nearest.h"
#include "node/peer/read_cost.h"
#include "node/peer/secret.h"
#include "transport/peer_health.h"
#include "transport/tcp/channel.h"
#include "wire/messages.h"

namespace peercache {

class Peers;
class Peer;

// Whoever holds one keeps the peer, its index and its fence.
using PeerRef = std::shared_ptr<Peer>;

class Peer {
 public:
  Peer(uint64_t node, uint16_t index, Fence fence) : node_(node), index_(index), fence_(fence) {}

  uint64_t node() const { return node_; }
  uint16_t index() const { return index_; }
  PeerHealth& health() { return health_; }
  const PeerHealth& health() const { return health_; }
  bool in_view() const;
  // Of the member in the view; 0: it is in none.
  uint64_t incarnation() const;
  PeerAddress address() const;
  // All but the preference; `rdma` is for the caller to say. Lock-free.
  Way way(uint32_t own_machine) const;
  RoundTrip& round_trip() { return round_trip_; }
  UnderWay Reading(uint64_t bytes) { return {&under_way_, bytes}; }
  uint64_t under_way() const { return under_way_.load(std::memory_order_relaxed); }
  ReadCost& cost(Tier tier) { return tier == Tier::kDisk ? disk_cost_ : memory_cost_; }
  const ReadCost& cost(Tier tier) const { return tier == Tier::kDisk ? disk_cost_ : memory_cost_; }
  // Pages of it that engines of this node got.
  void CountRead(uint64_t bytes) { read_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  uint64_t read_bytes() const { return read_bytes_.load(std::memory_order_relaxed); }

  // ---- clears: what the peer has told of those it knows (clears.h); -1: nothing yet
  int64_t word() const { return word_.load(std::memory_order_acquire); }

  // ---- the fence: what this node, as an owner, knows of the peer's shard (thread-safe)
  OwnerStamp BeginOwnerMessage();
  // Takes the answer (null: none came) to an owner message. True when it was accepted and still
  // counts, i.e. belongs to the current epoch. `now`: read after the answer was received.
  bool EndOwnerMessage(const OwnerStamp& sent, const ShardAnswer* answer, TimePoint now);
  // Nothing begun so far is of the current epoch afterwards.
  void GiveUp();
  // When a slot withdrawn from this peer may be reused: the fence as it is now, for many of them.
  Fence fence() const;
  // The peer's shard serves nothing of what was published in earlier epochs after this time.
  TimePoint SilentAfter() const;
  // Nor does a reader hold any of it after this one.
  TimePoint UnheldAfter() const;
  // What was published belongs to a former epoch: all of the peer's part must be published again.
  bool needs_resync() const;
  uint64_t epoch() const;
  // Everything was published again in `epoch`.
  void Resynced(uint64_t epoch);

 private:
  friend class Peers;
  friend class CallGroup;
  std::unique_ptr<Channel> TakeChannel(const Peers& peers);
  void ReturnChannel(std::unique_ptr<Channel> channel, const PeerAddress& address);

  static constexpr size_t kMaxIdleChannels = 16;

  const uint64_t node_;
  const uint16_t index_;
  PeerHealth health_;
  RoundTrip round_trip_;
  ReadCost memory_cost_, disk_cost_;
  std::atomic<uint64_t> under_way_{0};
  std::atomic<uint64_t> read_bytes_{0};
  std::atomic<uint32_t> machine_{0};  // 0: it has not said
  std::atomic<int64_t> word_{-1};
  mutable std::mutex mutex_;
  std::string id_;
  bool left_ = false;    // it said so, when it was last in the view
  TimePoint lost_at_{};  // when it was not in the view any more
  PeerAddress address_;
  uint64_t member_incarnation_ = 0;
  std::vector<std::unique_ptr<Channel>> idle_;
  Fence fence_;
  uint64_t synced_epoch_ = 0;  // fence epochs start at 1: a new peer needs a first sync
  bool in_view_ = false;
};

// Memory or drives of a node that are slower than computing.
struct SlowPlace {
  uint64_t node;  // Peers::self() too
  Tier tier;
  uint64_t bytes_per_second;
};

class Peers {
 public:
  static constexpr uint16_t kSelf = 0;  // index of this node itself

  // New connections prove that they know `secret`. With `tls`, they are encrypted. `memory`: of
  // their large answers.
  Peers(Hello self, const Secret* secret, OwnerTimes times, const Tls* tls = nullptr,
        FrameMemory* memory = nullptr);

  // Takes over addresses and incarnations of a new view; peers that left it are abandoned.
  void Update(const View& view);
  // Drops the peers that have left the view, that nobody holds, that were not lost within
  // remember(), and of whose shards nobody holds a record of this node's any more. What is still
  // noted under their indexes is void: whoever gets such an index is told of all pages anyway
  // (Peer::needs_resync). Call about once a second.
  void ForgetGone(TimePoint now);
  // Who was lost longer ago, without saying that it leaves, is taken for gone.
  Duration remember() const {
    return std::max<Duration>(std::chrono::minutes(1), 4 * times_.owner_ttl);
  }
  // Null for unknown nodes and for this node itself.
  PeerRef Find(uint64_t node) const;
  // Null for indexes that nobody has.
  PeerRef At(uint16_t index) const;
  std::vector<PeerRef> InView() const;
  std::vector<PeerRef> All() const;
  // Those that have been in the view within `limit` and are not any more, without having said that
  // they leave.
  std::vector<PeerRef> Lost(TimePoint now, Duration limit) const;
  // For people.
  std::string NameOf(const Peer& peer) const;
  // The members of the view, by the state of their breaker.
  struct Breakers {
    size_t closed = 0, open = 0, half_open = 0;
    uint64_t trips = 0;   // also of peers that have left the view
    size_t unsynced = 0;  // members whose shard needs this node's records again
  };
  Breakers breakers(TimePoint now) const;
  // Members of the view that this node gets no answers from; sorted, at most kMostListed.
  std::vector<uint64_t> Suspects(TimePoint now) const;
  // Nodes whose breaker is open.
  std::vector<uint64_t> Unhealthy(TimePoint now) const;
  // Of the members of the view, ordered by node.
  std::vector<SlowPlace> SlowPlaces() const;

  // ---- clears. Versions of what this node knows of them count from 0: none is known.
  // Only peers that know as much as this node does now are read from, and asked where pages are.
  // The peer, in this incarnation, has said that it knows all of `version`.
  void Vouch(const PeerRef& peer, uint64_t incarnation, int64_t version);
  // What makes `version` has been heard of: who knows of it as well has yet to say so.
  // model clears: fresh_word
  void Learned(int64_t version) { needed_.store(version, std::memory_order_release); }
  // The clear that made `version` is known to all members of the view but `unheard`.
  // model clears: name_unheard
  void Cleared(int64_t version, std::span<const uint64_t> unheard);
  // model clears: vouched_only
  bool Vouched(const Peer& peer) const {
    return peer.word() >= needed_.load(std::memory_order_acquire) ||
           needed_.load(std::memory_order_acquire) == 0;
  }
  // Nodes whose breaker is open, or that are not vouched for.
  std::vector<uint64_t> ToAvoid(TimePoint now) const;
  bool AllVouched() const { return needed_.load(std::memory_order_acquire) == 0; }
  size_t UnvouchedInView() const;

  uint64_t self() const { return self_.node; }
  uint64_t incarnation() const { return self_.incarnation; }
  uint32_t machine() const { return self_.machine; }
  // A new connection to a member, as its address is known.
  std::unique_ptr<Channel> NewChannel(uint64_t node, const PeerAddress& address) const;
  // To an address of discovery, whoever answers there. Good for membership only.
  std::unique_ptr<Channel> NewDiscoveryChannel(const PeerAddress& address) const;
  // Whether new connections are made in the same way.
  bool Current(const Channel& channel) const;

 private:
  // Null when all indexes are taken.
  PeerRef FindOrAdd(uint64_t node);

  const Hello self_;
  const Secret* const secret_;
  const Tls* const tls_;
  FrameMemory* const memory_;
  const OwnerTimes times_;
  const TimePoint started_;
  std::atomic<int64_t> needed_{0};
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, PeerRef> peers_;
  std::vector<PeerRef> by_index_;  // null: this node ([0]), or nobody has the index now
  std::vector<uint16_t> free_;     // indexes that nobody has, but those beyond by_index_
  uint64_t first_epoch_ = 1;       // of new fences: above those of all peers that were dropped
  uint64_t dropped_trips_ = 0;
};

// One request to one peer.
struct PeerCall {
  PeerRef peer;
  FrameWriter request;  // finished by CallGroup
  PayloadSink* sink = nullptr;
  // Of a good answer; nothing: as the group's others.
  std::optional<MessageType> wanted;
  // Result. `answer` is valid when status is ok, until the group is gone.
  Status status;
  MessageType answer_type = MessageType::kError;
  uint16_t can = 0;  // of the answer
  FrameReader answer{{}};
  bool refused = false;      // nobody listens at the peer's address
  uint64_t answered_by = 0;  // incarnation of the peer
  TimePoint began{};
  TimePoint finished{};  // when the last byte of the answer was here
};

// Calls to several peers at once, in the calling thread. Each channel goes back to its peer when
// the group is destroyed; a failed one is closed.
class CallGroup {
 public:
  enum class Breaker : uint8_t { kRespect, kIgnore };

  CallGroup(const Peers& peers, Breaker breaker) : peers_(peers), breaker_(breaker) {}
  ~CallGroup();
  CallGroup(const CallGroup&) = delete;
  CallGroup& operator=(const CallGroup&) = delete;

  // The call is owned by the group; fill its request (start it with `type`).
  PeerCall& Add(PeerRef peer, MessageType type);
  // Begins the calls that were added since: their peers work while the caller prepares others.
  void Start();
  // Runs all added calls; each ends with its own status. `expected` is the type of a good answer.
  // `ended(i)` is told of calls()[i] once, as soon as it has ended.
  void Run(MessageType expected, const GroupLimits& limits,
           const std::function<void(size_t)>& ended = nullptr);
  std::span<const std::unique_ptr<PeerCall>> calls() const { return calls_; }
  bool empty() const { return calls_.empty(); }

 private:
  struct Running {
    std::unique_ptr<Channel> channel;  // null: the call was not begun
    PeerAddress address{};
    bool ended = false;
  };
  void Begin(size_t i, TimePoint now);
  void Advance(std::span<const size_t> begun, MessageType expected, const GroupLimits& limits,
               const std::function<void(size_t)>& ended);
  void End(size_t i, MessageType expected, const GroupLimits& limits,
           const std::function<void(size_t)>& ended);
  void Blame(size_t i, const GroupLimits& limits);
  const Peers& peers_;
  const Breaker breaker_;
  std::vector<std::unique_ptr<PeerCall>> calls_;
  std::vector<Running> running_;  // of the calls that were begun, or refused by the breaker
};

}  // namespace peercache
