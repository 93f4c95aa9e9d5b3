#include "node/report/events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace peercache {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class EventsTest : public ::testing::Test {
 protected:
  EventsTest() {
    Put("a");
    Put("b");
  }
  Member& Put(const std::string& id) {
    Member& member = view_.members.emplace_back();
    member.id = id;
    member.incarnation = 1;
    member.state = MemberState::kActive;
    return member;
  }
  // What is new, the oldest first.
  std::vector<std::string> Look() {
    now_ += std::chrono::seconds(1);
    const size_t before = events_.Past(now_).size();
    events_.Look(now_, observed_);
    const auto past = events_.Past(now_);
    std::vector<std::string> texts;
    for (size_t i = past.size() - before; i-- > 0;)
      texts.push_back(past[i].whom + " " + past[i].what);
    return texts;
  }

  View view_;
  Observation observed_{&view_, {}, {}, {}};
  Events events_;
  TimePoint now_{};
};

TEST_F(EventsTest, WhoIsThereAtFirstIsNoNews) {
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_THAT(Look(), IsEmpty());
}

TEST_F(EventsTest, MembersComeRestartDrainAndGo) {
  (void)Look();
  Put("c");
  EXPECT_THAT(Look(), ElementsAre("c joined"));
  view_.members[0].incarnation = 2;
  view_.members[1].state = MemberState::kDraining;
  EXPECT_THAT(Look(), ElementsAre("a restarted", "b drains"));
  view_.members = {view_.members[0]};
  EXPECT_THAT(Look(), ElementsAre("b left", "c lost"));
}

TEST_F(EventsTest, BreakersOpenAndMembersAreOutOfReach) {
  (void)Look();
  observed_.breakers = {NodeHash("b")};
  view_.unreachable = {NodeHash("b")};
  EXPECT_THAT(Look(), ElementsAre("b unreachable", "b breaker opened"));
  observed_.breakers.clear();
  view_.unreachable.clear();
  EXPECT_THAT(Look(), ElementsAre("b reachable again", "b breaker closed"));
}

TEST_F(EventsTest, RailsGoDownAndUp) {
  observed_.rails_up = {"mlx5_0:1"};
  (void)Look();
  std::swap(observed_.rails_up, observed_.rails_down);
  EXPECT_THAT(Look(), ElementsAre("mlx5_0:1 rail down"));
  std::swap(observed_.rails_up, observed_.rails_down);
  EXPECT_THAT(Look(), ElementsAre("mlx5_0:1 rail up"));
}

TEST_F(EventsTest, AreBoundedAndTheNewestComesFirst) {
  (void)Look();
  for (int i = 0; i < 1000; ++i) {
    ++view_.members[0].incarnation;
    (void)Look();
  }
  const auto past = events_.Past(now_);
  ASSERT_EQ(past.size(), Events::kMost);
  EXPECT_EQ(past.front().age, Duration::zero());
  EXPECT_EQ(past.back().age, std::chrono::seconds(Events::kMost - 1));
}

}  // namespace
}  // namespace peercache
