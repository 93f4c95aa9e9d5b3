// MemberAgent: this node's part in the membership. It heartbeats to every address behind
// discovery_addr, merges their answers into the current View, and walks this node through its
// states:
//
//   joining --(everyone has prepared for it)--> active --(Leave)--> draining --> gone
//
// With an empty discovery_addr the node is alone and active at once.
//
// Thread-safe.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "membership/view.h"
#include "node/count/counters.h"
#include "node/peer/peers.h"
#include "node/peer/views.h"
#include "transport/tcp/socket.h"
#include "wire/heartbeat.h"

namespace peercache {

struct MemberAgentOptions {
  std::vector<HostPort> discovery;
  Duration heartbeat{};
  Duration member_ttl{};
  Duration stall{};
  uint32_t vnodes = 160;
  // A member that never announces its preparation cannot keep others from joining longer than this.
  Duration longest_join = std::chrono::seconds(15);
};

class MemberAgent {
 public:
  // `health` is asked before every heartbeat, from another thread.
  MemberAgent(MemberAgentOptions options, Member self, Views* views, Peers* peers,
              Counters* counters, std::function<MemberHealth()> health);
  ~MemberAgent();

  // Every record is where `view` wants it: announce that.
  void Synced(const View& view);
  // Says to others that this node is about to leave, so that they prepare for it.
  void Drain();
  // Drains, at most for `limit`; then tells every host that this node is gone. True when all others
  // had taken over.
  bool Leave(Duration limit);
  MemberState state() const;
  // Addresses that discovery_addr stands for now, and how many answered or refused the last
  // heartbeat.
  struct Hosts {
    std::vector<std::string> addresses;
    size_t answering = 0;
    size_t refusing = 0;  // for the token, the certificate or the cluster's name
  };
  Hosts hosts() const;

 private:
  void RunHeartbeats();
  void RunResolver();
  void Beat();
  bool Hurried(TimePoint now) const;
  // Writes the body of a request to hosts that take `host` (Heartbeat::Encode).
  using Request = std::function<void(uint16_t host, FrameWriter* w)>;
  std::vector<MemberList> Ask(MessageType type, const Request& request);
  bool WaitUntil(TimePoint deadline, const std::function<bool()>& done);

  const MemberAgentOptions options_;
  Views* const views_;
  Peers* const peers_;
  Counters* const counters_;
  const std::function<MemberHealth()> health_;
  const TimePoint started_;

  mutable std::mutex mutex_;  // self_, addresses_, answering_, refusing_, flags
  std::condition_variable wake_;
  Member self_;
  std::vector<PeerAddress> addresses_;
  size_t answering_ = 0, refusing_ = 0;
  bool beat_now_ = false;
  bool stop_ = false;

  std::mutex beat_mutex_;  // one beat at a time: known_, channels_
  KnownMembers known_;
  std::map<std::string, std::unique_ptr<Channel>> channels_;  // by host:port
  bool failing_ = false;
  std::vector<uint64_t> reported_;  // as unreachable; written by the heartbeat thread alone
  TimePoint reported_at_{};         // when that changed
  std::thread resolver_, heartbeats_;
};

}  // namespace peercache
