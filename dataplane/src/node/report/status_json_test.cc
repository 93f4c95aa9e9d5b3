#include "node/report/status_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "node/report/health_report.h"

namespace peercache {
namespace {

using nlohmann::json;

NodeStatus Some() {
  auto view = std::make_shared<View>();
  Member member;
  member.id = "a.default";
  member.host = "10.0.0.7";
  view->members = {member};
  view->by_node[NodeHash(member.id)] = 0;
  Activity activity;
  activity.milliseconds = 10'000;
  activity.machine = 7;
  activity.flow.read_bytes = 5000;
  activity.sources = {{NodeHash(member.id), 1000}, {1234, 1000}};
  MemberReport report;
  report.id = member.id;
  report.health.activity = activity;

  NodeStatus status;
  status.self = member;
  status.view = view;
  status.reports = {report};
  status.activity = activity;
  status.fabric.classes = {3, "a peer's port 10.0.0.9: rdma-traffic-class is 104 here and 0 there"};
  status.events = {{std::chrono::seconds(5), "joined", "b.default"}};
  return status;
}

json Told(Asker asker) { return json::parse(ToJson(Some(), NodeConfig(), Counters(), asker)); }

TEST(StatusJson, TellsItsOwnMachineWhoReadsFromWhomAndWhatHappened) {
  const json told = Told(Asker::kOwnMachine);
  EXPECT_EQ(told["asker"], "own_machine");
  EXPECT_EQ(told["events"][0]["whom"], "b.default");
  EXPECT_EQ(told["events"][0]["seconds_ago"], 5);
  EXPECT_EQ(told["transport"]["class_mismatches"], 3);
  EXPECT_EQ(told["transport"]["class_mismatch"], Some().fabric.classes.now);
  for (const json& activity : {told["activity"], told["members"][0]["health"]["activity"]}) {
    EXPECT_EQ(activity["machine"], "00000007");
    ASSERT_EQ(activity["reads_from"].size(), 1u) << "nobody is known by the other number";
    EXPECT_EQ(activity["reads_from"][0]["id"], "a.default");
    EXPECT_EQ(activity["reads_from"][0]["bytes_per_second"], 100);
  }
}

NodeStatus InTrouble() {
  NodeStatus status = Some();
  status.ready = Unavailable("kv.inference.svc:31998 does not answer");
  status.transport = "TCP, as RDMA cannot be used: fake0:1: 10.1.0.0/16 is none of its GIDs";
  RailInfo rail;
  rail.name = "fake0:1";
  rail.address = "10.0.0.7";
  rail.waits.why = "fake0:1: none of its GIDs (::ffff:10.0.0.8): set eth0 up";
  status.fabric.rails = {rail};
  DiskReport report;
  disk::DeviceHealth drive;
  drive.path = "/disks/nvme0";
  drive.io = "threads, as /dev/secret/ring says no";
  drive.on = false;
  drive.why = "opening /disks/nvme0/pages: Input/output error";
  report.tier.devices = {drive};
  report.budget_a_day = 1000;
  report.tier.budget_left = -7;  // more is on its way than was left
  status.disk = report;
  status.reports[0].health.activity->drives = DrivesOf(report);
  return status;
}

TEST(StatusJson, TellsStrangersWhatIsWrongWithoutPlaces) {
  const auto told = [](Asker asker) {
    return json::parse(ToJson(InTrouble(), NodeConfig(), Counters(), asker));
  };
  const json own = told(Asker::kOwnMachine), stranger = told(Asker::kStranger);
  EXPECT_EQ(own["node"]["reason"], "kv.inference.svc:31998 does not answer");
  EXPECT_EQ(own["disk"]["devices"][0]["path"], "/disks/nvme0");
  EXPECT_EQ(own["fleet"]["disks"]["first_off"][0]["disk"], "/disks/nvme0");
  EXPECT_EQ(own["fleet"]["disks"]["budget_bytes_a_day"], 1000);
  EXPECT_EQ(own["fleet"]["disks"]["budget_left_bytes"], 0);
  EXPECT_EQ(stranger["node"]["reason"], "... does not answer");
  EXPECT_EQ(stranger["transport"]["reason"],
            "TCP, as RDMA cannot be used: fake0:1: ... is none of its GIDs");
  const json& rail = stranger["transport"]["rails"][0];
  EXPECT_EQ(rail["name"], "fake0:1");
  EXPECT_EQ(rail["why"], "fake0:1: none of its GIDs (...): set eth0 up");
  const json& drive = stranger["disk"]["devices"][0];
  EXPECT_EQ(drive["path"], "nvme0");
  EXPECT_EQ(drive["why"], "opening pages: Input/output error");
  EXPECT_EQ(stranger["fleet"]["disks"]["first_off"][0]["disk"], "nvme0");
  for (const char* hidden : {"/disks", "/dev", "10.0.0", "10.1.0", "inference"})
    EXPECT_EQ(stranger.dump().find(hidden), std::string::npos) << hidden;
}

TEST(StatusJson, TellsInWhichPagesEnginesHaveTheirMemory) {
  NodeStatus status = Some();
  status.engines.resize(1);
  status.engines[0].pages = {.small = 4096, .huge = 2 << 20};
  for (const Asker asker : {Asker::kOwnMachine, Asker::kStranger}) {
    const json told = json::parse(ToJson(status, NodeConfig(), Counters(), asker))["engines"][0];
    EXPECT_EQ(told["bytes_in_small_pages"], 4096);
    EXPECT_EQ(told["bytes_in_huge_pages"], 2 << 20);
  }
}

TEST(StatusJson, NamesThePlacesThatAreSlowerThanComputing) {
  NodeStatus status = Some();
  status.slow = {{NodeHash("a.default"), Tier::kMemory, 1500},
                 {NodeHash("a.default"), Tier::kDisk, 70}};
  for (const Asker asker : {Asker::kOwnMachine, Asker::kStranger}) {
    const json told = json::parse(ToJson(status, NodeConfig(), Counters(), asker));
    const json expected = {
        {{"member", "a.default"}, {"tier", "memory"}, {"bytes_per_second", 1500}},
        {{"member", "a.default"}, {"tier", "disk"}, {"bytes_per_second", 70}}};
    EXPECT_EQ(told["slower_than_computing"], expected);
  }
}

TEST(StatusJson, TellsStrangersNumbers) {
  const json told = Told(Asker::kStranger);
  EXPECT_EQ(told["asker"], "stranger");
  for (const json& activity : {told["activity"], told["fleet"]["activity"]})
    EXPECT_EQ(activity["read_bytes_per_second"], 500);
  EXPECT_EQ(told["transport"]["class_mismatches"], 3);
  EXPECT_FALSE(told["members"][0]["health"].contains("activity"));
  const std::string text = told.dump();
  for (const char* hidden :
       {"reads_from", "machine", "events", "b.default", "10.0.0.7", "10.0.0.9", "config"})
    EXPECT_EQ(text.find(hidden), std::string::npos) << hidden;
}

}  // namespace
}  // namespace peercache
