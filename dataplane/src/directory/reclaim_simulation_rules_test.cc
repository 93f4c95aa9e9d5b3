// No slot is reused under a reader: random histories of owners, shards and readers, and the proof
// of each rule by its absence.
#include <gtest/gtest.h>

#include "base/one_thread_testing.h"
#include "directory/reclaim_simulation.h"

namespace peercache {
namespace {

[[maybe_unused]] const bool kOneThread = testing::OneThread::In(__FILE__);

constexpr uint64_t kSeeds = 400;

class SafeHistories : public ::testing::TestWithParam<uint64_t> {};

TEST_P(SafeHistories, NoReaderMeetsAReusedSlotAndAllPagesAreServedAfterwards) {
  uint64_t uses = 0, looks = 0, reuses = 0, early = 0;
  for (uint64_t seed = GetParam(); seed < GetParam() + 30; ++seed) {
    ReclaimSimulation simulation(seed, Guards{});
    simulation.Run();
    ASSERT_EQ(simulation.violation(), "") << "seed " << seed;
    ASSERT_EQ(simulation.unserved(), "") << "seed " << seed;
    uses += simulation.uses();
    looks += simulation.looks();
    reuses += simulation.reuses();
    early += simulation.early();
  }
  // The histories are about something.
  EXPECT_GT(uses, 3000u);
  EXPECT_GT(looks, 1000u);
  EXPECT_GT(reuses, 300u);
  EXPECT_GT(early, 100u);
}
INSTANTIATE_TEST_SUITE_P(Seeds, SafeHistories, ::testing::Values(1, 31, 61, 91));

struct Absence {
  const char* name;
  bool Guards::*guard;
  Setting setting{};
};
Absence In(const Setting& setting, Absence absence) {
  absence.setting = setting;
  return absence;
}
constexpr Setting kAllPause{.shards_pause = true, .readers_pause = true, .headers = true};
constexpr Setting kReadersPause{.readers_pause = true, .headers = true};
constexpr Setting kShardsPause{.shards_pause = true, .headers = true};
// Nothing but reads by request, while all clocks run.
constexpr Setting kOneMachine{.one_sided = false};
constexpr Setting kByRequest{.shards_pause = true, .readers_pause = true, .one_sided = false};
constexpr Setting kFiles{.one_sided = false, .files = true};

class WithoutGuard : public ::testing::TestWithParam<Absence> {};

TEST_P(WithoutGuard, SomeReaderMeetsAReusedSlot) {
  Guards guards;
  guards.*GetParam().guard = false;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    ReclaimSimulation simulation(seed, guards, GetParam().setting);
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
    ::testing::Values(
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
        PEERCACHE_GUARD(same_era), PEERCACHE_GUARD(rewrite_first), PEERCACHE_GUARD(time_last),
        PEERCACHE_GUARD(new_name), PEERCACHE_GUARD(raw_clock), PEERCACHE_GUARD(served_elsewhere),
        PEERCACHE_GUARD(served_stamp), PEERCACHE_GUARD(served_unknown),
        PEERCACHE_GUARD(served_by_grant), In(kOneMachine, PEERCACHE_GUARD(served_directly)),
        In(kByRequest, PEERCACHE_GUARD(pin_till_acked)), In(kFiles, PEERCACHE_GUARD(rest_adopted)),
        In(kFiles, PEERCACHE_GUARD(rest_longest)), In(kFiles, PEERCACHE_GUARD(rest_kept)),
        In(kReadersPause, PEERCACHE_GUARD(header_last)),
        In(kReadersPause, PEERCACHE_GUARD(void_first))),
    [](const auto& test) { return test.param.name; });
INSTANTIATE_TEST_SUITE_P(ShardsPause, WithoutGuard,
                         ::testing::Values(In(kShardsPause, PEERCACHE_GUARD(header_last)),
                                           In(kShardsPause, PEERCACHE_GUARD(void_first))),
                         [](const auto& test) { return test.param.name; });
#undef PEERCACHE_GUARD

// Pauses that hide time from the paused machine: its clock stands still. docs/dev/protocol.md,
// "Clocks that stand still".
bool SomeReaderIsGivenWrongBytes(const Setting& setting) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    ReclaimSimulation simulation(seed, Guards{}, setting);
    simulation.Run();
    if (!simulation.violation().empty()) return true;
  }
  return false;
}

struct Pauses {
  const char* name;
  Setting setting;
};
class PausedMachines : public ::testing::TestWithParam<Pauses> {};

TEST_P(PausedMachines, NoReaderIsGivenWrongBytes) {
  uint64_t uses = 0, reuses = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    ReclaimSimulation simulation(seed, Guards{}, GetParam().setting);
    simulation.Run();
    ASSERT_EQ(simulation.violation(), "") << "seed " << seed;
    uses += simulation.uses();
    reuses += simulation.reuses();
  }
  EXPECT_GT(uses, 3000u);
  EXPECT_GT(reuses, 300u);
}
INSTANTIATE_TEST_SUITE_P(Settings, PausedMachines,
                         ::testing::Values(Pauses{"All", kAllPause},
                                           Pauses{"Readers", kReadersPause},
                                           Pauses{"Shards", kShardsPause},
                                           Pauses{"AllWhenReadsAreByRequest", kByRequest},
                                           Pauses{"OwnersOfFiles", kFiles}),
                         [](const auto& test) { return test.param.name; });

class PausesWithoutHeaders : public ::testing::TestWithParam<Pauses> {};

TEST_P(PausesWithoutHeaders, SomeReaderIsGivenWrongBytes) {
  EXPECT_TRUE(SomeReaderIsGivenWrongBytes(GetParam().setting));
}
INSTANTIATE_TEST_SUITE_P(Settings, PausesWithoutHeaders,
                         ::testing::Values(Pauses{"Readers", {.readers_pause = true}},
                                           Pauses{"Shards", {.shards_pause = true}}),
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
