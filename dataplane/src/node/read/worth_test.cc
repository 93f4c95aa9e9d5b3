// NotWorth: which of the pages that a lookup has found an engine computes sooner.
#include "node/read/worth.h"

#include <gtest/gtest.h>

#include "membership/view.h"

namespace peercache {
namespace {

using std::chrono::seconds;

constexpr uint64_t kMiB = 1 << 20, kGiB = 1 << 30;

class WorthTest : public testing::Test {
 protected:
  WorthTest() {
    View view;
    for (const char* id : {"near", "far"}) {
      Member member;
      member.id = id;
      member.incarnation = 1;
      member.state = MemberState::kActive;
      view.by_node[NodeHash(id)] = static_cast<uint32_t>(view.members.size());
      view.members.push_back(member);
    }
    peers_.Update(view);
    peers_.Find(kNear)->cost(Tier::kMemory).Took(kGiB, 0, seconds(1));
    peers_.Find(kFar)->cost(Tier::kMemory).Lost(kMiB, seconds(1), kNow);
  }
  static Record Of(uint64_t node, Tier tier = Tier::kMemory) {
    return {.node = node, .length = static_cast<uint32_t>(kMiB), .tier = tier};
  }
  std::vector<size_t> Dropped(std::vector<Record> records, Duration worth,
                              Purpose purpose = Purpose::kGet, TimePoint now = kNow) {
    return NotWorth(peers_, records, worth, purpose, now);
  }

  static constexpr TimePoint kNow{seconds(1000)};
  const uint64_t kNear = NodeHash("near"), kFar = NodeHash("far");
  std::unique_ptr<Secret> secret_ = Secret::None();
  Peers peers_{Hello{"test", "", NodeHash("self"), 1}, secret_.get(), OwnerTimes{}};
};

using Indexes = std::vector<size_t>;

TEST_F(WorthTest, EachPlaceIsComparedWithAllThatIsThere) {
  const std::vector<Record> both{Of(kNear), Of(kFar), {}, Of(kNear), Of(kFar)};
  EXPECT_EQ(Dropped(both, seconds(1)), (Indexes{1, 4}));
  EXPECT_EQ(Dropped(both, seconds(3)), Indexes{}) << "what is worth 3 s may take 2";
  EXPECT_EQ(Dropped({Of(kNear), {}, Of(NodeHash("unknown"))}, milliseconds(1)), Indexes{});
  EXPECT_EQ(Dropped({}, seconds(1)), Indexes{});
}

TEST_F(WorthTest, DrivesOfAHolderAreAPlaceOfTheirOwn) {
  peers_.Find(kNear)->cost(Tier::kDisk).Lost(kMiB, seconds(1), kNow);
  EXPECT_EQ(Dropped({Of(kNear, Tier::kDisk), Of(kNear)}, seconds(1)), Indexes{0});
}

TEST_F(WorthTest, ADueTrialBringsOnePageAndAnExistsLetsItCome) {
  const std::vector<Record> far{Of(kFar), Of(kFar), Of(kFar)};
  const TimePoint due = kNow + ReadCost::kPauseShare * seconds(1);
  EXPECT_EQ(Dropped(far, seconds(1), Purpose::kExists), (Indexes{0, 1, 2}));
  EXPECT_EQ(Dropped(far, seconds(1), Purpose::kExists, due), Indexes{});
  EXPECT_EQ(Dropped(far, seconds(1), Purpose::kGet, due), (Indexes{1, 2}));
  EXPECT_EQ(Dropped(far, seconds(1), Purpose::kGet, due), (Indexes{0, 1, 2})) << "one in a while";
}

}  // namespace
}  // namespace peercache
