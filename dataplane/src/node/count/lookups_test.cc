// The hit ratio: what engines look up and what they get of it (docs/hit-ratio.md).
#include "node/count/lookups.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "node/integration/node_testing.h"

namespace peercache {
namespace {

using testing::Eventually;
using testing::TestCluster;
using testing::TestEngine;

nlohmann::json LookupsOf(const Node& node) {
  return nlohmann::json::parse(node.StatusJson())["lookups"];
}

// As many pages from the own pool, from nowhere.
std::vector<uint8_t> Sources(size_t local, size_t nowhere = 0) {
  std::vector<uint8_t> sources(local, static_cast<uint8_t>(PageSource::kLocal));
  sources.resize(local + nowhere, 0);
  return sources;
}

TEST(Lookups, APageIsLookedUpOnce) {
  struct Call {
    enum { kExists, kGet } what;
    uint64_t pages, found;  // or delivered
  };
  struct {
    const char* name;
    std::vector<Call> calls;
    uint64_t looked_up, delivered;
  } const cases[] = {
      {"exists, then gets of what was found",
       {{Call::kExists, 100, 50}, {Call::kGet, 32, 32}, {Call::kGet, 18, 18}},
       100,
       50},
      {"nothing found, nothing got", {{Call::kExists, 100, 0}}, 100, 0},
      {"gets alone", {{Call::kGet, 16, 12}}, 16, 12},
      {"found, and not got", {{Call::kExists, 100, 100}}, 100, 0},
      {"found, and gone at the get", {{Call::kExists, 100, 100}, {Call::kGet, 100, 40}}, 100, 40},
      {"two prompts at once",
       {{Call::kExists, 100, 50},
        {Call::kExists, 10, 10},
        {Call::kGet, 50, 50},
        {Call::kGet, 10, 9}},
       110,
       59},
      {"asked again after a time-out",
       {{Call::kExists, 100, 50}, {Call::kExists, 100, 50}, {Call::kGet, 50, 50}},
       200,
       50},
      {"got more than was found", {{Call::kExists, 10, 4}, {Call::kGet, 10, 4}}, 16, 4},
      {"nothing", {{Call::kExists, 0, 0}, {Call::kGet, 0, 0}}, 0, 0},
  };
  for (const auto& c : cases) {
    Counters counters;
    Lookups lookups;
    for (const Call& call : c.calls) {
      if (call.what == Call::kExists) {
        lookups.Asked({}, call.pages, call.found, &counters);
      } else {
        lookups.Got({}, Sources(call.found, call.pages - call.found), &counters);
      }
      EXPECT_LE(counters.delivered_pages(), counters.looked_up_pages()) << c.name;
    }
    EXPECT_EQ(counters.looked_up_pages(), c.looked_up) << c.name;
    EXPECT_EQ(counters.delivered_pages(), c.delivered) << c.name;
  }
}

TEST(Lookups, TokensAreThoseThatAreTold) {
  Counters counters;
  Lookups lookups;
  lookups.Asked({64, true}, 100, 50, &counters);
  lookups.Got({64, true}, Sources(50), &counters);
  lookups.Got({0, true}, Sources(7), &counters);
  EXPECT_EQ(counters.lookup_exists.tokens, 6400u);
  EXPECT_EQ(counters.found.tokens, 3200u);
  EXPECT_EQ(counters.lookup_get.pages, 7u);
  EXPECT_EQ(counters.lookup_get.tokens, 0u);
  EXPECT_EQ(counters.delivered[static_cast<size_t>(PageSource::kLocal)].tokens, 3200u);
  lookups.Asked({UINT32_MAX, true}, 65'536, 0, &counters);
  EXPECT_LE(counters.lookup_exists.tokens, (uint64_t{65'636} << 20)) << "a lie is bounded";
}

// Side pools, and the other heads of a page that is split: their pages are counted already.
TEST(Lookups, PartsOfCountedPagesAreNot) {
  Counters counters;
  Lookups lookups;
  lookups.Asked({64, true}, 100, 50, &counters);
  lookups.Asked({64, false}, 50, 50, &counters);
  lookups.Got({64, true}, Sources(50), &counters);
  lookups.Got({64, false}, Sources(50), &counters);
  EXPECT_EQ(counters.looked_up_pages(), 100u);
  EXPECT_EQ(counters.delivered_pages(), 50u);
}

// Half of a prompt of 100 pages is stored: before, 50 of 50 were found.
TEST(Lookups, AHalfEmptyCacheHasARatioOfAHalf) {
  constexpr size_t kPage = 8192;
  TestCluster cluster;
  auto host = cluster.Start("a"), other = cluster.Start("b");
  TestEngine writer(host->socket(), 50, kPage), reader(other->socket(), 100, kPage);
  ASSERT_TRUE(Eventually(std::chrono::seconds(10), [&] { return writer.Set(0, 50) == 50; }));
  const auto before = LookupsOf(*other);
  const Counting counting{16, true};
  ASSERT_EQ(reader.Exists(0, 100, counting), 50u);
  const auto got = reader.Get(0, 50, counting);
  ASSERT_EQ(got.hits, 50u);
  ASSERT_EQ(got.wrong, 0u);
  const auto now = LookupsOf(*other);
  EXPECT_EQ(before["looked_up_pages"], 0);
  EXPECT_EQ(now["looked_up_pages"], 100) << now.dump(2);
  EXPECT_EQ(now["delivered_pages"], 50);
  EXPECT_EQ(now["looked_up"]["exists"]["tokens"], 1600);
  EXPECT_EQ(now["looked_up"]["get"]["pages"], 0);
  EXPECT_EQ(now["found"]["pages"], 50);
  EXPECT_EQ(now["delivered"]["tcp"]["pages"], 50);
  EXPECT_EQ(now["delivered"]["tcp"]["tokens"], 800);
  // Its own pool, and what the reader kept of the pages that it got.
  ASSERT_EQ(writer.Get(0, 50).hits, 50u);
  EXPECT_EQ(LookupsOf(*host)["delivered"]["local"]["pages"], 50);
  EXPECT_EQ(LookupsOf(*host)["looked_up"]["get"]["pages"], 50);
  // The discovery host hears the same within two heartbeats.
  nlohmann::json fleet;
  EXPECT_TRUE(Eventually(std::chrono::seconds(10), [&] {
    fleet = nlohmann::json::parse(host->StatusJson())["fleet"];
    return fleet["recent_looked_up"] == 150 && fleet["recent_delivered"] == 100;
  })) << fleet.dump(2);
}

// Nothing is found, so nothing is got: the ratio is 0, where it was not known before.
TEST(Lookups, OfAnEmptyCacheAreLookups) {
  TestCluster cluster;
  auto node = cluster.Start("a");
  TestEngine reader(node->socket(), 4, 8192);
  EXPECT_EQ(reader.Exists(0, 4), 0u);
  EXPECT_EQ(LookupsOf(*node)["looked_up_pages"], 4);
  EXPECT_EQ(LookupsOf(*node)["delivered_pages"], 0);
}

}  // namespace
}  // namespace peercache
