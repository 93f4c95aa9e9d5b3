// Links: connections for RDMA reads. A link is a channel of queue pairs to one peer together with
// the peer connection over which it was set up, and which it lives and dies with. Links are made
// when they are first needed, kept for the next call, and closed when they have been idle.
//
//   auto link = links.Take(peer, deadline);            // null: read over TCP instead
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
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "node/header_memory.h"
#include "node/peers.h"
#include "transport/peer_health.h"
#include "transport/rdma/read_channel.h"
#include "transport/tcp/channel.h"

namespace peercache {

struct Link {
  Peer* peer = nullptr;
  uint64_t incarnation = 0;  // of the peer
  std::unique_ptr<rdma::ReadChannel> channel;
  std::unique_ptr<Channel> control;
  uint32_t blamed = 0;  // a bit for each rail whose loss was counted
  TimePoint made{}, returned{};
};

struct LinkOptions {
  Duration connect{};           // longest that setting up a link may take
  uint32_t max_queues = 16384;  // queue pairs of all links
  Duration idle = std::chrono::minutes(1);
};

struct LinkStats {
  uint64_t links = 0, queues = 0;  // now
  uint64_t made = 0, failed = 0, refused = 0;
};

class Links {
 public:
  // All outlive this.
  Links(LinkOptions options, const rdma::Rails* rails, const Peers* peers, HeaderMemory* headers);
  ~Links();

  // Null when the peer cannot be read from by RDMA now.
  std::unique_ptr<Link> Take(Peer* peer, TimePoint now);
  void Return(std::unique_ptr<Link> link);
  LinkStats stats() const;

 private:
  struct Known {
    std::vector<std::unique_ptr<Link>> idle;
    PeerHealth health;                        // of setting up links
    std::array<PeerHealth, kMaxRails> rails;  // towards this peer
  };
  Known* Of(uint64_t node);
  bool Usable(const Known& known, const Link& link, TimePoint now) const;
  // Of the rails that are up, those that may be tried towards the peer; a bit each.
  uint32_t Candidates(const Known& known, TimePoint now) const;
  Result<std::unique_ptr<Link>> Open(Peer* peer, Known* known, TimePoint now);
  void Count(int64_t links);
  void SweepIdle();

  const LinkOptions options_;
  const rdma::Rails* const rails_;
  const Peers* const peers_;
  HeaderMemory* const headers_;
  mutable std::mutex mutex_;
  std::condition_variable stopping_;
  bool stop_ = false;
  std::unordered_map<uint64_t, std::unique_ptr<Known>> known_;
  LinkStats stats_;
  std::thread sweeper_;
};

}  // namespace peercache
