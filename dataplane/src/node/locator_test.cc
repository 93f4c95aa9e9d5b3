// Locator: whom it asks, and whom it blames. Nobody listens where the peer is said to be.
#include "node/locator.h"

#include <gtest/gtest.h>

#include "membership/view.h"
#include "node/node_testing.h"
#include "wire/record.h"

namespace peercache {
namespace {

using std::chrono::seconds;
using testing::KeyOf;
using testing::TestCluster;

constexpr size_t kKeys = 3;

class LocatorTest : public ::testing::Test {
 protected:
  LocatorTest() {
    Member member;
    member.id = "peer";
    member.incarnation = 1;
    member.state = MemberState::kActive;
    member.host = "127.0.0.1";
    member.peer_port = TestCluster::FreePort();
    view_.members.push_back(member);
    view_.by_node[kPeer] = 0;
    const RingMember ring[] = {{kPeer, 1}};
    view_.current = Ring(ring, 8);
    peers_.Update(view_);
    for (size_t i = 0; i < kKeys; ++i) keys_.push_back(KeyOf(i));
  }

  uint64_t Blamed() { return peers_.Find(kPeer)->health().trips(); }
  void Lookup(TimePoint deadline) {
    std::vector<Record> records(kKeys);
    locator_.Lookup(view_, keys_, records, deadline);
  }

  const uint64_t kPeer = NodeHash("peer"), kSelf = NodeHash("self");
  View view_;
  std::unique_ptr<Secret> secret_ = Secret::None();
  Peers peers_{Hello{"test", "", kSelf, 1}, secret_.get(), OwnerTimes{}};
  Shard shard_{ShardOptions{.self = kSelf}};
  Counters counters_;
  Locator locator_{{.stall = seconds(5)}, &shard_, &peers_, nullptr, &counters_};
  std::vector<Key> keys_;
};

TEST_F(LocatorTest, APeerThatHadNoTimeToAnswerIsNotBlamed) {
  Lookup(Clock::now());
  EXPECT_EQ(Blamed(), 0u);
  EXPECT_EQ(counters_.asked_for, 0u);
  Lookup(Clock::now() + seconds(20));
  EXPECT_EQ(Blamed(), 1u) << "it had time";
  EXPECT_EQ(counters_.asked_for, kKeys);
}

TEST_F(LocatorTest, WhoseBreakerIsOpenIsNotAsked) {
  peers_.Find(kPeer)->health().Failed(Clock::now() + seconds(60));  // for longer than this takes
  Lookup(Clock::now() + seconds(20));
  EXPECT_EQ(counters_.asked_for, 0u);
}

}  // namespace
}  // namespace peercache
