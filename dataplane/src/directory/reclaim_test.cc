// No slot is reused under a reader: random histories of owners, shards and readers, and the proof
// of each rule by its absence.
#include <gtest/gtest.h>

#include "directory/reclaim_simulation.h"

namespace peercache {
namespace {

constexpr uint64_t kSeeds = 400;

class SafeHistories : public testing::TestWithParam<uint64_t> {};

TEST_P(SafeHistories, NoReaderMeetsAReusedSlotAndAllPagesAreServedAfterwards) {
  uint64_t uses = 0, reuses = 0;
  for (uint64_t seed = GetParam(); seed < GetParam() + 30; ++seed) {
    ReclaimSimulation simulation(seed, Guards{});
    simulation.Run();
    ASSERT_EQ(simulation.violation(), "") << "seed " << seed;
    ASSERT_EQ(simulation.unserved(), "") << "seed " << seed;
    uses += simulation.uses();
    reuses += simulation.reuses();
  }
  // The histories are about something.
  EXPECT_GT(uses, 3000u);
  EXPECT_GT(reuses, 300u);
}
INSTANTIATE_TEST_SUITE_P(Seeds, SafeHistories, testing::Values(1, 31, 61, 91));

struct Absence {
  const char* name;
  bool Guards::*guard;
};
class WithoutGuard : public testing::TestWithParam<Absence> {};

TEST_P(WithoutGuard, SomeReaderMeetsAReusedSlot) {
  Guards guards;
  guards.*GetParam().guard = false;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    ReclaimSimulation simulation(seed, guards);
    simulation.Run();
    if (!simulation.violation().empty()) {
      RecordProperty("seed", static_cast<int>(seed));
      return;
    }
  }
  FAIL() << kSeeds
         << " histories without this rule and no violation: is the rule needed, or are the "
            "histories too tame?";
}
INSTANTIATE_TEST_SUITE_P(Rules, WithoutGuard,
                         testing::Values(Absence{"Lease", &Guards::wait_lease},
                                         Absence{"Silence", &Guards::wait_silence},
                                         Absence{"Epoch", &Guards::raise_epoch},
                                         Absence{"Freshness", &Guards::check_fresh},
                                         Absence{"Echo", &Guards::own_echo},
                                         Absence{"Numbers", &Guards::drop_copies},
                                         Absence{"SettledPublish", &Guards::settle_publish}),
                         [](const auto& test) { return test.param.name; });

TEST(ReclaimSimulation, SameSeedSameHistory) {
  ReclaimSimulation a(7, Guards{}), b(7, Guards{});
  a.Run();
  b.Run();
  EXPECT_EQ(a.uses(), b.uses());
  EXPECT_EQ(a.reuses(), b.reuses());
}

}  // namespace
}  // namespace peercache
