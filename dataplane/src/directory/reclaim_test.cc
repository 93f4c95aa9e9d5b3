// No slot is reused under a reader: random histories of owners, shards and readers, and the proof
// of each rule by its absence.
#include <gtest/gtest.h>

#include "directory/reclaim_simulation.h"

namespace peercache {
namespace {

constexpr uint64_t kSeeds = 400;

class SafeHistories : public testing::TestWithParam<uint64_t> {};

TEST_P(SafeHistories, NoReaderMeetsAReusedSlotAndAllPagesAreServedAfterwards) {
  uint64_t uses = 0, looks = 0, reuses = 0;
  for (uint64_t seed = GetParam(); seed < GetParam() + 30; ++seed) {
    ReclaimSimulation simulation(seed, Guards{});
    simulation.Run();
    ASSERT_EQ(simulation.violation(), "") << "seed " << seed;
    ASSERT_EQ(simulation.unserved(), "") << "seed " << seed;
    uses += simulation.uses();
    looks += simulation.looks();
    reuses += simulation.reuses();
  }
  // The histories are about something.
  EXPECT_GT(uses, 3000u);
  EXPECT_GT(looks, 1000u);
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
#define PEERCACHE_GUARD(name) \
  Absence { #name, &Guards::name }
INSTANTIATE_TEST_SUITE_P(
    Rules, WithoutGuard,
    testing::Values(
        PEERCACHE_GUARD(lease_from_ask), PEERCACHE_GUARD(check_lease), PEERCACHE_GUARD(same_life),
        PEERCACHE_GUARD(owners_times), PEERCACHE_GUARD(read_in_time), PEERCACHE_GUARD(check_slot),
        PEERCACHE_GUARD(wait_lease), PEERCACHE_GUARD(wait_silence), PEERCACHE_GUARD(pad_waits),
        PEERCACHE_GUARD(raise_epoch), PEERCACHE_GUARD(raise_on_restart),
        PEERCACHE_GUARD(count_from_hearing), PEERCACHE_GUARD(former_life),
        PEERCACHE_GUARD(settle_publish), PEERCACHE_GUARD(note_first),
        PEERCACHE_GUARD(keep_note_in_flight), PEERCACHE_GUARD(keep_note_till_silent),
        PEERCACHE_GUARD(gone_gives_up), PEERCACHE_GUARD(check_fresh), PEERCACHE_GUARD(own_echo),
        PEERCACHE_GUARD(own_stamps), PEERCACHE_GUARD(drop_copies), PEERCACHE_GUARD(refuse_lower),
        PEERCACHE_GUARD(void_lower), PEERCACHE_GUARD(check_grant), PEERCACHE_GUARD(grant_from_ask),
        PEERCACHE_GUARD(same_era), PEERCACHE_GUARD(rewrite_first)),
    [](const auto& test) { return test.param.name; });
#undef PEERCACHE_GUARD

TEST(ReclaimSimulation, SameSeedSameHistory) {
  ReclaimSimulation a(7, Guards{}), b(7, Guards{});
  a.Run();
  b.Run();
  EXPECT_EQ(a.uses(), b.uses());
  EXPECT_EQ(a.reuses(), b.reuses());
}

}  // namespace
}  // namespace peercache
