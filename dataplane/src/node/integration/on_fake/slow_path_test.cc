// A path that is slow and healthy: a get that takes longer than a queue pair may be silent keeps
// its queue pairs, its links, and the holder out of it.
#include <gtest/gtest.h>

#include "node/integration/node_fabric_testing.h"
#include "node/report/scraped_testing.h"
#include "transport/rdma/fake/fake_verbs.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;
using testing::CounterOf;
using testing::Eventually;
using testing::OfRails;
using testing::RailBytes;
using testing::Scraped;
using testing::TestCluster;
using testing::TestEngine;
using testing::UseRails;

constexpr size_t kPages = 64, kPage = 1 << 20;

// So slow are all queue pairs, while this lives.
class Slowed {
 public:
  explicit Slowed(uint64_t bytes_per_second) {
    rdma::FakeVerbs::Get().bytes_per_second = bytes_per_second;
  }
  ~Slowed() { rdma::FakeVerbs::Get().bytes_per_second = 0; }
};

double LinksMade(const Node& node) {
  return Scraped(node)["peercache_rdma_link_attempts_total{result=\"made\"}"];
}

TEST(SlowPathTest, ALongGetKeepsItsLinks) {
  TestCluster cluster([](NodeConfig* c) {
    UseRails(c);
    c->pool_bytes = size_t{160} << 20;
    // A queue pair is given up after 2 s without progress, and READs begin in the first 6 s.
    c->peer_timeout = 15s;
    c->lease = 40s;
    c->member_ttl = 60s;
  });
  auto a = cluster.Start("a"), b = cluster.Start("b");
  ASSERT_TRUE(a && b);
  TestEngine writer(a->socket(), kPages, kPage), reader(b->socket(), kPages, kPage);
  ASSERT_EQ(writer.Set(0, kPages), kPages);
  ASSERT_TRUE(Eventually([&] {
    const uint64_t before = RailBytes(*b);
    return reader.Get(0, kPages).hits == kPages && RailBytes(*b) >= before + kPages * kPage;
  }));
  const double links = LinksMade(*b);
  const uint64_t served = CounterOf(*a, "served_pages");
  const Slowed slowed(10 << 20);  // 20 MiB/s over both rails: 3 s for a get
  for (int i = 0; i < 2; ++i) {
    const TimePoint start = Clock::now();
    EXPECT_EQ(reader.Get(0, kPages).hits, kPages);
    EXPECT_GT(Clock::now() - start, 2500ms) << "it was not slow";
  }
  EXPECT_EQ(LinksMade(*b), links) << "links were made anew";
  EXPECT_EQ(OfRails(*b, "queue_pair_failures"), 0u);
  EXPECT_EQ(CounterOf(*a, "served_pages"), served) << "some went over TCP";
}

}  // namespace
}  // namespace peercache
