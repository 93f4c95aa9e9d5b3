#include "doctor/reach.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "base/claimed_port_testing.h"
#include "node/report/http.h"
#include "transport/tcp/socket.h"

namespace peercache::doctor {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr Duration kLimit = milliseconds(2000);

TEST(ReachTest, TellsWhoAcceptsFromWhoRefuses) {
  auto listener = Listen("127.0.0.1", 0);
  ASSERT_TRUE(listener.ok());
  const uint16_t nobody = testing::ClaimPort();
  const Target targets[] = {{Reach::Kind::kDiscovery, "a", "127.0.0.1", listener->port},
                            {Reach::Kind::kMember, "b", "127.0.0.1", nobody},
                            {Reach::Kind::kMember, "c", "not-numeric", 1}};
  const std::vector<Reach> reach = Connect(targets, kLimit);
  ASSERT_THAT(reach, SizeIs(3));
  EXPECT_TRUE(reach[0].status.ok()) << reach[0].status.ToString();
  EXPECT_TRUE(reach[0].local);
  EXPECT_EQ(reach[1].name, "b");
  EXPECT_THAT(reach[1].status.message(), HasSubstr("refused"));
  EXPECT_THAT(reach[2].status.message(), HasSubstr("not-numeric"));
}

TEST(ReachTest, AHostThatNeverAnswersCostsTheLimitOnly) {
  // The queue of this listener holds one connection; the kernel answers no more.
  auto listener = Listen("127.0.0.1", 0);
  ASSERT_TRUE(listener.ok());
  ASSERT_EQ(::listen(listener->fd.get(), 0), 0);
  const std::vector<Target> full(4, {Reach::Kind::kMember, "x", "127.0.0.1", listener->port});
  const TimePoint start = Clock::now();
  const std::vector<Reach> reach = Connect(full, milliseconds(200));
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(10));
  EXPECT_EQ(reach.back().status.code(), Code::kDeadlineExceeded);
  EXPECT_THAT(reach.back().status.message(), HasSubstr("200 ms"));
}

constexpr char kStatus[] = R"({"node": {"id": "n1"}, "pool": {"huge_pages": true},
  "numa": {"memory": {"placement": "bound", "why": "all from NUMA node 1"}},
  "transport": {"class_mismatch": "a peer's port 10.0.0.2: ..."},
  "engines": [{"bytes_in_small_pages": 4096, "bytes_in_huge_pages": 2097152},
              {"bytes_in_small_pages": 8192}, {"bytes_in_huge_pages": -1}, 7],
  "members": [{"id": "n1", "address": "10.0.0.1:31998"}, {"id": "n2", "address": "10.0.0.2:31998"},
              {"id": "n3", "address": "fd00::3:31998"}, {"id": "n4", "address": "nowhere"},
              {"id": 5}, "x"]})";

TEST(NodeStatusTest, ShowsTheOtherMembersAndTheNode) {
  const auto view = ParseNodeStatus(kStatus, 10);
  ASSERT_TRUE(view.ok()) << view.status().ToString();
  ASSERT_THAT(view->members, SizeIs(2));
  EXPECT_EQ(view->members[0].name, "n2");
  EXPECT_EQ(view->members[1].host, "fd00::3");
  EXPECT_EQ(view->members[1].port, 31998);
  EXPECT_TRUE(view->node.huge_pages);
  EXPECT_EQ(view->node.numa_placement, "bound");
  EXPECT_EQ(view->node.class_mismatch, "a peer's port 10.0.0.2: ...");
  EXPECT_EQ(view->node.engines_in_small_pages, 12288u);
  EXPECT_EQ(view->node.engines_in_huge_pages, 2097152u);
  EXPECT_THAT(ParseNodeStatus(kStatus, 1)->members, SizeIs(1));
}

TEST(NodeStatusTest, OtherTextIsNoNode) {
  for (const char* text : {"", "[]", "{}", "{\"members\": 3}", "<html>", "{\"node\": 1}"})
    EXPECT_FALSE(ParseNodeStatus(text, 10).ok()) << text;
}

TEST(LookAroundTest, SeesTheNodeThatRunsHereAndItsMembers) {
  auto member = Listen("127.0.0.1", 0);
  ASSERT_TRUE(member.ok());
  HttpHandlers handlers;
  handlers.healthy = handlers.ready = [] { return Status(); };
  handlers.metrics = [] { return std::string(); };
  handlers.status = [port = member->port](Asker) {
    return R"({"members": [{"id": "n2", "address": "127.0.0.1:)" + std::to_string(port) + "\"}]}";
  };
  auto http = Http::Bind("127.0.0.1", 0, std::move(handlers));
  ASSERT_TRUE(http.ok());
  ASSERT_TRUE((*http)->Serve().ok());
  NodeConfig config;
  config.http_port = (*http)->port();
  config.discovery_addr = "127.0.0.1:" + std::to_string(member->port);
  const Outlook outlook = LookAround(config);
  EXPECT_TRUE(outlook.running.ok()) << outlook.running.status().ToString();
  ASSERT_THAT(outlook.reach, SizeIs(2));
  EXPECT_EQ(outlook.reach[0].kind, Reach::Kind::kDiscovery);
  EXPECT_TRUE(outlook.reach[1].status.ok());
  EXPECT_EQ(outlook.reach[1].name, "n2");
}

TEST(LookAroundTest, WorksWithoutNodeAndCluster) {
  NodeConfig config;
  config.http_port = testing::ClaimPort();
  const Outlook outlook = LookAround(config);
  EXPECT_THAT(outlook.running.status().message(), HasSubstr("no node answers at 127.0.0.1"));
  EXPECT_THAT(outlook.reach, IsEmpty());
  // A name that does not resolve is a host that cannot be reached.
  config.discovery_addr = "no-such-host.invalid:31998";
  const Outlook lost = LookAround(config);
  ASSERT_THAT(lost.reach, SizeIs(1));
  EXPECT_FALSE(lost.reach[0].status.ok());
}

}  // namespace
}  // namespace peercache::doctor
