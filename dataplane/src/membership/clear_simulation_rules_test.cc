// Nobody is given a page that was cleared: random histories of members, engines and clears, and the
// proof of each rule by its absence.
#include <gtest/gtest.h>

#include "base/one_thread_testing.h"
#include "membership/clear_simulation.h"

namespace peercache {
namespace {

[[maybe_unused]] const bool kOneThread = testing::OneThread::In(__FILE__);

constexpr ClearWeather kAll{};
// Members are stopped and restart, and nothing else goes wrong: then no member at all gives a page
// once the clear has ended, whether it has heard of the clear or not.
constexpr ClearWeather kStops{.network = false, .clocks_stand = false};
constexpr ClearWeather kApart{.network = false, .clocks_stand = false, .clocks_apart = true};
constexpr uint64_t kSeeds = 200;

struct Case {
  const char* name;
  ClearWeather weather;
  bool ClearGuards::*guard = nullptr;
};
class TrueClears : public ::testing::TestWithParam<Case> {};

TEST_P(TrueClears, NoPageThatWasClearedIsGiven) {
  uint64_t given = 0, read = 0, cleared = 0, unheard = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    ClearSimulation simulation(seed, ClearGuards{}, GetParam().weather);
    simulation.Run();
    ASSERT_EQ(simulation.violation(), "") << "seed " << seed;
    given += simulation.given();
    read += simulation.read();
    cleared += simulation.cleared();
    unheard += simulation.unheard();
  }
  // The histories are about something.
  EXPECT_GT(given, 100'000u);
  EXPECT_GT(read, 3000u);
  EXPECT_GT(cleared, 300u);
  EXPECT_GT(unheard, 30u);
}
INSTANTIATE_TEST_SUITE_P(Weather, TrueClears,
                         ::testing::Values(Case{"All", kAll}, Case{"Stops", kStops},
                                           Case{"ClocksApart", kApart}),
                         [](const auto& test) { return test.param.name; });

class ClearsWithout : public ::testing::TestWithParam<Case> {};

TEST_P(ClearsWithout, SomebodyIsGivenAClearedPage) {
  ClearGuards guards;
  guards.*GetParam().guard = false;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    ClearSimulation simulation(seed, guards, GetParam().weather);
    simulation.Run();
    if (!simulation.violation().empty()) {
      RecordProperty("seed", static_cast<int>(seed));
      return;
    }
  }
  FAIL() << kSeeds << " histories without this rule and no violation: is the rule needed, or are "
         << "the histories too tame?";
}
#define PEERCACHE_GUARD(name, weather) \
  Case { #name, weather, &ClearGuards::name }
INSTANTIATE_TEST_SUITE_P(
    Rules, ClearsWithout,
    ::testing::Values(PEERCACHE_GUARD(vouched_only, kAll), PEERCACHE_GUARD(fresh_word, kAll),
                      PEERCACHE_GUARD(name_unheard, kAll), PEERCACHE_GUARD(drop_first, kAll),
                      PEERCACHE_GUARD(end_flights, kAll), PEERCACHE_GUARD(end_shares, kAll),
                      PEERCACHE_GUARD(pass_later, kStops), PEERCACHE_GUARD(ask_gone, kStops),
                      PEERCACHE_GUARD(wait_long, kStops), PEERCACHE_GUARD(notice_stop, kStops),
                      PEERCACHE_GUARD(ask_current, kStops), PEERCACHE_GUARD(wait_last, kStops)),
    [](const auto& test) { return test.param.name; });
#undef PEERCACHE_GUARD

}  // namespace
}  // namespace peercache
