// Peers as members come and go.
#include "node/peer/peers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace peercache {
namespace {

constexpr OwnerTimes kTimes{.lease = milliseconds(50), .owner_ttl = milliseconds(400)};

class PeersTest : public testing::Test {
 protected:
  // The view of these members.
  void See(const std::vector<std::string>& ids) {
    View view;
    for (const std::string& id : ids) {
      Member m;
      m.id = id;
      m.incarnation = 1;
      m.host = "127.0.0.1";
      m.peer_port = 1;
      view.by_node[NodeHash(id)] = view.members.size();
      view.members.push_back(m);
    }
    peers_.Update(view);
  }

  // When every shard has long been silent about what was published so far.
  static TimePoint Later() { return Clock::now() + std::chrono::minutes(2); }

  std::unique_ptr<Secret> secret_ = Secret::None();
  Peers peers_{Hello{"test", "", NodeHash("self"), 1}, secret_.get(), kTimes};
};

TEST_F(PeersTest, MembersThatComeAndGoForEverLeaveNothingBehind) {
  See({"stays", "self"});
  const uint16_t stays = peers_.Find(NodeHash("stays"))->index();
  std::set<uint16_t> indexes;
  for (int i = 0; i < 70'000; ++i) {
    const std::string id = "host." + std::to_string(i);
    See({"stays", "self", id});
    const PeerRef peer = peers_.Find(NodeHash(id));
    ASSERT_NE(peer, nullptr) << id;
    ASSERT_EQ(peers_.At(peer->index()), peer) << id;
    ASSERT_NE(peer->index(), stays) << id;
    ASSERT_NE(peer->index(), Peers::kSelf) << id;
    ASSERT_TRUE(peer->needs_resync()) << "whatever is noted under this index is another's";
    indexes.insert(peer->index());
    See({"stays", "self"});
    peers_.ForgetGone(Later());
  }
  // The last one of each round is still held when it is forgotten, the one before it is not.
  EXPECT_LE(indexes.size(), 2u);
  EXPECT_LE(peers_.All().size(), 2u);
  EXPECT_EQ(peers_.Find(NodeHash("stays"))->index(), stays);
}

TEST_F(PeersTest, AMemberThatIsGoneIsKeptUntilItsShardIsSilent) {
  See({"a"});
  const uint16_t index = peers_.Find(NodeHash("a"))->index();
  (void)peers_.Find(NodeHash("a"))->BeginOwnerMessage();
  See({});
  peers_.ForgetGone(Clock::now());
  ASSERT_NE(peers_.Find(NodeHash("a")), nullptr);
  {
    const PeerRef in_use = peers_.At(index);
    peers_.ForgetGone(Later());
    ASSERT_EQ(peers_.At(index), in_use) << "a message may be on its way";
  }
  peers_.ForgetGone(Later());
  EXPECT_EQ(peers_.Find(NodeHash("a")), nullptr);
  EXPECT_EQ(peers_.At(index), nullptr);
}

// Its shard may have run on all the time, and would refuse what it has heard before.
TEST_F(PeersTest, AMemberThatIsBackIsSpokenToInAnEpochOfItsOwn) {
  See({"a"});
  uint64_t spoken = 0;
  {
    const PeerRef peer = peers_.Find(NodeHash("a"));
    for (int i = 0; i < 5; ++i) {
      const OwnerStamp stamp = peer->BeginOwnerMessage();
      spoken = stamp.epoch;
      (void)peer->EndOwnerMessage(stamp, nullptr, Clock::now());
    }
  }
  See({});
  peers_.ForgetGone(Later());
  ASSERT_EQ(peers_.Find(NodeHash("a")), nullptr);
  See({"a"});
  EXPECT_GT(peers_.Find(NodeHash("a"))->BeginOwnerMessage().epoch, spoken);
}

TEST_F(PeersTest, AllMembersOfARackThatDoNotAnswerAreNamed) {
  std::vector<std::string> ids;
  std::vector<uint64_t> rack;
  for (int i = 0; i < 200; ++i) ids.push_back("host." + std::to_string(i));
  See(ids);
  for (int i = 0; i < 128; ++i) rack.push_back(NodeHash(ids[static_cast<size_t>(i)]));
  const TimePoint now = Clock::now();
  for (const uint64_t node : rack) peers_.Find(node)->health().Failed(now);
  std::ranges::sort(rack);
  EXPECT_EQ(peers_.Suspects(now), rack);
}

}  // namespace
}  // namespace peercache
