// Links: connections for RDMA reads. A link is a channel of queue pairs to one peer together with
// the peer connection over which it was set up, and which it lives and dies with. Links are made
// when they are first needed, in threads of their own, kept for the next call, and closed when
// they have been idle. So there are as many as calls have had at once within that time. Where there
// is no room for one more, the link that has been idle for longest makes room. A call waits for a
// new one for a moment at most, and a link that lacks a rail is used until there is one that has
// it.
//
//   auto link = links.Take(peer, now);                 // null: read over TCP instead
//   ... link->channel ...
//   links.Return(std::move(link));
//
// A peer that cannot be reached by RDMA, and a rail that failed towards it, are left alone for a
// while that grows with each failure, as everywhere (transport/peer_health.h).
//
// Thread-safe.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "node/peer/peers.h"
#include "node/rails/header_memory.h"
#include "transport/peer_health.h"
#include "transport/rdma/acceptor.h"
#include "transport/rdma/read_channel.h"
#include "transport/tcp/channel.h"

namespace peercache {

struct Link {
  PeerRef peer;              // null: this node itself
  uint64_t incarnation = 0;  // of the peer
  std::unique_ptr<rdma::ReadChannel> channel;
  std::unique_ptr<Channel> control;
  rdma::Acceptor::Queues own;  // the other ends, of a link from this node to itself
  uint32_t blamed = 0;         // a bit for each rail whose loss was counted
  TimePoint made{}, returned{};
};

struct LinkOptions {
  Duration connect{};           // longest without an answer of a peer while a link is set up
  uint32_t max_queues = 16384;  // queue pairs of all links
  Duration idle = std::chrono::minutes(1);
};

struct LinkStats {
  uint64_t links = 0, queues = 0;  // now
  uint64_t made = 0, failed = 0, refused = 0;
};

// Which of the idle links, the longest idle first, a call takes: the last one that is not outdated,
// else the last. So those behind it are all outdated, and it takes the place of one of them. Asks
// of each place at most once: rails come and go meanwhile, and a second answer may be another one.
template <typename Outdated>
size_t PlaceToTake(size_t count, const Outdated& outdated) {
  for (size_t i = count; i-- > 0;)
    if (!outdated(i)) return i;
  return count - 1;
}

class Links {
 public:
  // All outlive this.
  Links(LinkOptions options, const rdma::Rails* rails, const Peers* peers, HeaderMemory* headers,
        const rdma::RegisteredMemory* registered);
  ~Links();

  // Null when the peer cannot be read from by RDMA now.
  std::unique_ptr<Link> Take(const PeerRef& peer, TimePoint now);
  void Return(std::unique_ptr<Link> link);
  // As far as is known: the last link that was set up worked, or none was tried yet.
  bool Reaches(uint64_t node, TimePoint now) const;
  LinkStats stats() const;

 private:
  struct Known {
    explicit Known(PeerRef of) : peer(std::move(of)) {}
    const PeerRef peer;
    std::vector<std::unique_ptr<Link>> idle;
    bool opening = false;                     // or about to be: in to_open_
    TimePoint asked{};                        // when that began
    PeerHealth health;                        // of setting up links
    std::array<PeerHealth, kMaxRails> rails;  // towards this peer
  };
  // Whoever uses it without the lock holds it.
  std::shared_ptr<Known> Of(const PeerRef& peer);
  // The best of those that are idle; what is of no use any more goes into `useless`.
  std::unique_ptr<Link> TakeIdle(Known* known, TimePoint now,
                                 std::vector<std::unique_ptr<Link>>* useless);
  // There are rails by now that it lacks, or another secret.
  bool Outdated(const Known& known, const Link& link, TimePoint now) const;
  // Has a link made, unless one is being made. False when none can be had now. What makes room goes
  // into `useless`.
  bool AskFor(const std::shared_ptr<Known>& known, bool urgent, TimePoint now,
              std::vector<std::unique_ptr<Link>>* useless);
  // The one that has been idle for longest; null: none is.
  std::unique_ptr<Link> TakeLongestIdle();
  // Of the rails that are up, those that may be tried towards the peer; a bit each.
  uint32_t Candidates(const Known& known, TimePoint now) const;
  void OpenAsked();
  Result<std::unique_ptr<Link>> Open(Known* known);
  Result<ConnectOk> Ask(Link* link) const;
  void Count(int64_t links);
  void SweepIdle();

  const LinkOptions options_;
  const rdma::Rails* const rails_;
  const Peers* const peers_;
  HeaderMemory* const headers_;
  const rdma::RegisteredMemory* const registered_;
  mutable std::mutex mutex_;
  std::condition_variable stopping_, asked_, opened_;
  bool stop_ = false;
  std::deque<std::shared_ptr<Known>> to_open_;
  std::unordered_map<uint64_t, std::shared_ptr<Known>> known_;
  LinkStats stats_;
  // Setting up a link to a peer that is silent takes as long as it may take to answer: so many such
  // peers hold up nobody.
  std::array<std::thread, 8> openers_;
  std::thread sweeper_;
};

}  // namespace peercache
