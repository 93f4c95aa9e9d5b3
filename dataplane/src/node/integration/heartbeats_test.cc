// Heartbeats and their answers between releases: how long the lists are that each of them gets.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <vector>

#include "node/integration/node_testing.h"
#include "node/peer/member_agent.h"
#include "transport/tcp/server.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;
using testing::Eventually;

// More than older releases read.
constexpr size_t kMany = 100;
constexpr uint64_t kLookedUp = 7;

std::vector<uint64_t> From1(size_t count) {
  std::vector<uint64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), uint64_t{1});
  return numbers;
}

Member MakeMember(const std::string& id) {
  Member member;
  member.id = id;
  member.incarnation = 1;
  member.state = MemberState::kActive;
  member.host = "127.0.0.1";
  member.peer_port = 1;
  member.capacity_bytes = 1;
  member.synced = From1(kMany);
  return member;
}

// A discovery host that takes `can`, and that lists one member, `lists`.
class Host : public PeerService {
 public:
  struct Heard {
    bool takes_crowds;  // the member
    size_t synced;
    uint64_t looked_up;
  };

  Host(uint16_t can, std::string lists) : can_(can), lists_(std::move(lists)) {
    auto listener = Listen("127.0.0.1", 0);
    EXPECT_TRUE(listener.ok()) << listener.status().ToString();
    server_ = std::make_unique<TcpServer>(std::move(*listener), this, TcpServerOptions{});
    port_ = server_->port();
  }
  HostPort address() const { return {"127.0.0.1", port_}; }
  std::vector<Heard> heard() const {
    std::lock_guard lock(mutex_);
    return heard_;
  }
  bool HasHeard(size_t times) const { return heard().size() >= times; }
  // Whether the latest heartbeat named so many.
  bool HearsOf(size_t synced) const {
    const auto all = heard();
    return !all.empty() && all.back().synced == synced;
  }
  void End() { server_.reset(); }

  Status OnHello(const Hello&, Greeting* answer) override {
    *answer = {{99, 1}};
    return {};
  }
  Status OnRequest(const FrameHeader& header, FrameReader body, PeerAnswer* answer) override {
    Heartbeat beat;
    if (header.type != MessageType::kHeartbeat || !beat.Decode(&body)) return Corrupt("heartbeat");
    const bool crowds = (header.can & FrameHeader::kHearsCrowds) != 0;
    {
      std::lock_guard lock(mutex_);
      heard_.push_back({crowds, beat.member.synced.size(), beat.health.latest_looked_up});
    }
    const MemberListMessage list{0, {{MakeMember(lists_), 0}}};
    answer->Start(MessageType::kHeartbeatOk, header.request_id);
    answer->frame.Can(can_);
    if ((can_ & FrameHeader::kHearsCrowds) != 0) {
      list.EncodeOnce(&answer->frame);
    } else {
      list.Encode(&answer->frame);
    }
    return {};
  }

 private:
  const uint16_t can_;
  const std::string lists_;
  mutable std::mutex mutex_;
  std::vector<Heard> heard_;
  uint16_t port_ = 0;
  std::unique_ptr<TcpServer> server_;
};

class Heartbeats : public ::testing::Test {
 protected:
  // The member goes on until the test's end.
  void Start(std::vector<HostPort> hosts) {
    MemberAgentOptions options;
    options.discovery = std::move(hosts);
    options.heartbeat = 20ms;
    options.member_ttl = 10s;
    options.stall = 5s;
    MemberHealth health;
    health.recent_looked_up = health.latest_looked_up = kLookedUp;
    agent_.emplace(options, MakeMember("self"), &views_, &peers_, &counters_,
                   [health] { return health; });
  }
  // How many changes `id` has prepared for, as the member has heard.
  size_t SyncedBy(const std::string& id) const {
    const auto view = views_.Get();
    const Member* member = view == nullptr ? nullptr : view->Find(NodeHash(id));
    return member == nullptr ? 0 : member->synced.size();
  }

  const std::unique_ptr<Secret> secret_ = Secret::None();
  Views views_;
  Counters counters_;
  Peers peers_{Hello{"test", "", NodeHash("self"), 1}, secret_.get(), OwnerTimes{}};
  std::optional<MemberAgent> agent_;
};

TEST_F(Heartbeats, HostsOfThisReleaseHearOfAllFromTheSecondOn) {
  Host a(Heartbeat::kHearsAll, "a"), b(Heartbeat::kHearsAll, "b");
  Start({a.address(), b.address()});
  ASSERT_TRUE(Eventually(20s, [&] { return a.HasHeard(3) && b.HasHeard(3); }));
  for (const Host* host : {&a, &b}) {
    const auto heard = host->heard();
    EXPECT_EQ(heard[0].synced, kMostListedBefore) << "what every release takes";
    EXPECT_EQ(heard[0].looked_up, 0u);
    for (size_t i = 1; i < heard.size(); ++i) {
      EXPECT_EQ(heard[i].synced, kMany);
      EXPECT_EQ(heard[i].looked_up, kLookedUp);
    }
    for (const auto& beat : heard) EXPECT_TRUE(beat.takes_crowds);
  }
  EXPECT_TRUE(Eventually(20s, [&] { return SyncedBy("a") == kMany && SyncedBy("b") == kMany; }));
}

class BesideOlder : public Heartbeats, public ::testing::WithParamInterface<uint16_t> {};

TEST_P(BesideOlder, AllHostsHearOfTheSmallestUntilItIsGone) {
  Host older(GetParam(), "older"), newer(Heartbeat::kHearsAll, "newer");
  Start({older.address(), newer.address()});
  ASSERT_TRUE(Eventually(20s, [&] { return older.HasHeard(5) && newer.HasHeard(5); }));
  for (const Host* host : {&older, &newer})
    for (const auto& beat : host->heard()) EXPECT_EQ(beat.synced, kMostListedBefore);
  EXPECT_EQ(older.heard().front().looked_up, 0u) << "what every release takes";
  EXPECT_EQ(older.heard().back().looked_up, GetParam() == 0 ? 0 : kLookedUp);
  EXPECT_EQ(newer.heard().back().looked_up, kLookedUp);
  EXPECT_TRUE(Eventually(20s, [&] {
    return SyncedBy("older") == kMostListedBefore && SyncedBy("newer") == kMany;
  })) << "each answer is read in the form that the host gave it";
  older.End();
  EXPECT_TRUE(Eventually(20s, [&] { return newer.HearsOf(kMany); }));
}

INSTANTIATE_TEST_SUITE_P(Releases, BesideOlder,
                         ::testing::Values(uint16_t{0}, FrameHeader::kHearsLookups));

// What a node answers as a host: the member's name, and how many it has prepared for.
TEST(HeartbeatAnswers, AreInTheFormThatTheMemberReads) {
  testing::TestCluster cluster;
  const auto node = cluster.Start("a");
  Channel channel({"127.0.0.1", node->peer_port()}, Hello{"test", "", 1, 1});
  for (const uint16_t can : {uint16_t{0}, FrameHeader::kHearsCrowds}) {
    FrameWriter request;
    request.Start(MessageType::kHeartbeat, 1);
    request.Can(can);
    Heartbeat{MakeMember("self"), {}}.Encode(&request);
    channel.Begin(request.Finish(), nullptr, Clock::now());
    Channel* const channels[] = {&channel};
    RunAll(channels, {5s, Clock::now() + 10s});
    ASSERT_TRUE(channel.status().ok()) << channel.status().ToString();
    EXPECT_EQ(channel.answer().can, Heartbeat::kHearsAll);
    FrameReader body = channel.body();
    MemberListMessage list;
    ASSERT_TRUE(can == 0 ? list.Decode(&body) : list.DecodeOnce(&body));
    const auto own = std::ranges::find(list.members, "self",
                                       [](const auto& listed) { return listed.member.id; });
    ASSERT_NE(own, list.members.end());
    EXPECT_EQ(own->member.synced.size(), can == 0 ? kMostListedBefore : kMany);
  }
}

}  // namespace
}  // namespace peercache
