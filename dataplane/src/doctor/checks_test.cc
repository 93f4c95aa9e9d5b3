#include "doctor/checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "doctor/doctor.h"

namespace peercache::doctor {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr uint64_t kGi = uint64_t{1} << 30;

rdma::Address Ip(const std::string& text) { return *rdma::ParseAddress(text); }

// A ConnectX with one port that is up, on NUMA node `numa_node`.
rdma::Device Nic(const std::string& name, const std::string& address, int numa_node) {
  rdma::Device device;
  device.name = name;
  device.pci_address = "0000:3b:00.0";
  device.transport = rdma::Transport::kInfiniBand;
  device.numa_node = numa_node;
  device.opens = {};
  device.limits.max_mr_size = UINT64_MAX;
  device.dmabuf = rdma::Support::kYes;
  rdma::Port port;
  port.device = name;
  port.state = rdma::PortState::kActive;
  port.link_layer = rdma::LinkLayer::kEthernet;
  port.active_mtu = port.max_mtu = 4096;
  port.numa_node = numa_node;
  rdma::Interface interface;
  interface.name = "eth-" + name;
  interface.mtu = 9000;
  interface.up = interface.physical = true;
  interface.addresses = {Ip(address)};
  port.gids = {{3, Ip(address), rdma::GidType::kRoceV2, interface.name}};
  port.interfaces = {interface};
  device.ports = {port};
  return device;
}

// A host on which nothing is wrong: two NUMA nodes, a NIC on the second, huge pages there.
Facts Healthy() {
  Facts facts;
  facts.config.pool_bytes = 4 * kGi;
  facts.devices = {Nic("mlx5_0", "10.0.0.1", 1)};
  facts.numa_nodes = {{0, {0, 1}, true}, {1, {2, 3}, true}};
  facts.allowed_cpus = {0, 1, 2, 3};
  facts.huge_pages = {{0, 2 << 20, 0, 0}, {1, 2 << 20, 4096, 4096}};
  facts.small_pages_free = {{0, 8 * kGi}, {1, 8 * kGi}};
  facts.memory = {64 * kGi, "MemTotal of /proc/meminfo"};
  return facts;
}

// The findings of a subject, "grade: text" each.
std::vector<std::string> About(const Facts& facts, const std::string& subject) {
  std::vector<std::string> texts;
  for (const Finding& f : Diagnose(facts).findings)
    if (f.subject == subject) texts.push_back(std::string(GradeName(f.grade)) + ": " + f.text);
  return texts;
}
std::string One(const Facts& facts, const std::string& subject) {
  const std::vector<std::string> texts = About(facts, subject);
  EXPECT_EQ(texts.size(), 1u) << subject;
  return texts.empty() ? "" : texts[0];
}

TEST(DoctorTest, AHealthyHostHasNothingToReport) {
  const Report report = Diagnose(Healthy());
  EXPECT_EQ(report.ExitCode(), 0) << RenderText(report);
  EXPECT_EQ(One(Healthy(), "mlx5_0 port 1"),
            "ok: GID 3 (10.0.0.1, RoCEv2, eth-mlx5_0): RoCEv2, IPv4 address of eth-mlx5_0");
  EXPECT_EQ(One(Healthy(), "NUMA threads"), "ok: CPUs 2-3 of NUMA node 1");
  EXPECT_EQ(One(Healthy(), "NUMA memory"), "ok: all from NUMA node 1");
  const std::string text = RenderText(report);
  EXPECT_THAT(text, AllOf(HasSubstr("mlx5_0 port 1"), HasSubstr("10.0.0.1"), HasSubstr("4096/4096"),
                          HasSubstr("4096 of 4096 of 2Mi")));
}

TEST(DoctorTest, SaysWhetherAVirtualFunctionIsUnderLag) {
  const auto said = [](Uplink uplink) {
    Facts facts = Healthy();
    uplink.function = "0000:3b:00.0";
    facts.uplinks["mlx5_0"] = uplink;
    EXPECT_EQ(Diagnose(facts).ExitCode(), 0) << "it is information";
    return About(facts, "mlx5_0 port 1").at(1);
  };
  EXPECT_EQ(
      said({"", {"mlx5_bond_0"}, {"ens1f0 in bond0"}, true}),
      "note: a virtual function of 0000:3b:00.0, under LAG (mlx5_bond_0): both ports carry it");
  EXPECT_THAT(said({"", {}, {"ens1f0"}, false}), HasSubstr("not under LAG (ens1f0 is in no bond)"));
  EXPECT_THAT(said({"", {"mlx5_1"}, {"ens1f0 in bond0"}, true}),
              HasSubstr("not under LAG by the names of devices (mlx5_1, ens1f0 in bond0)"))
      << "a bond of ports whose driver does not take part";
  EXPECT_THAT(said({"", {"mlx5_1"}, {}, false}),
              HasSubstr("not under LAG by the names of devices (mlx5_1)"));
  EXPECT_THAT(said({}), HasSubstr("not to be seen from here"));
  EXPECT_THAT(said({"", {}, {"ens1f0 in bond0"}, true}), HasSubstr("not to be seen from here"));
}

TEST(DoctorTest, SaysWhatTheSlotCarries) {
  Facts facts = Healthy();
  facts.devices[0].ports[0].gbps = 200;
  const auto said = [&](const PciLink& link) {
    facts.pci["mlx5_0"] = link;
    return About(facts, "mlx5_0");
  };
  EXPECT_THAT(said({16, 16, 16, 16, 4096, true, "identity"}),
              ElementsAre("ok: its slot carries x16 at 16 GT/s, 229 Gb/s"));
  EXPECT_THAT(said({16, 32, 8, 16, 4096, true, ""}),
              ElementsAre("warning: its slot carries x8 at 16 GT/s, 115 Gb/s, its ports 200; the "
                          "device could have x16 at 32 GT/s: move it to another slot, or seat it "
                          "again"));
  EXPECT_THAT(said({16, 32, 16, 16, 4096, true, ""}), ElementsAre(HasSubstr("note: ")))
      << "it is enough";
  EXPECT_THAT(said({16, 16, 16, 16, 512, true, "DMA-FQ"}),
              ElementsAre(HasSubstr("ok: "), HasSubstr("note: it asks memory for 512 bytes"),
                          HasSubstr("note: the IOMMU translates each access (DMA-FQ)")));
  EXPECT_THAT(said({}), ElementsAre()) << "as of a virtual function";
  EXPECT_THAT(said({16, 16, 16, 16, 4096, false, ""}),
              ElementsAre(HasSubstr("ok: "), HasSubstr("note: its slot keeps writes in order")));
  facts.config.rdma_link.relaxed_ordering = false;
  EXPECT_THAT(said({16, 16, 16, 16, 4096, false, ""}), ElementsAre(HasSubstr("ok: ")))
      << "nobody asks for another order";
  for (const char* small : {"never", "deny", "advise"}) {
    facts.shared_memory_pages = small;
    EXPECT_THAT(One(facts, "engines' memory"),
                AllOf(HasSubstr(std::string("shmem_enabled is ") + small),
                      HasSubstr("`echo within_size > ")));
  }
  for (const char* huge : {"within_size", "always", "force", ""}) {
    facts.shared_memory_pages = huge;
    EXPECT_THAT(About(facts, "engines' memory"), ElementsAre()) << huge;
  }
}

TEST(DoctorTest, SaysInWhichPagesEnginesHaveTheirMemory) {
  Facts facts = Healthy();
  facts.shared_memory_pages = "never";
  const auto said = [&](uint64_t small, uint64_t huge) {
    RunningNode node;
    node.engines_in_small_pages = small;
    node.engines_in_huge_pages = huge;
    facts.running = node;
    return One(facts, "engines' memory");
  };
  EXPECT_THAT(said(0, 0), HasSubstr("host pools of engines have pages of 4Ki (shmem_enabled is "
                                    "never)"))
      << "none is attached";
  EXPECT_THAT(said(kGi / 2, 500 * kGi), HasSubstr("ok: 500Gi in huge pages, 512Mi in small ones"));
  EXPECT_THAT(said(500 * kGi, 0),
              AllOf(HasSubstr("note: 500Gi that engines share with the node here are in pages of "
                              "4Ki (shmem_enabled is never)"),
                    HasSubstr("`echo within_size > ")));
  facts.shared_memory_pages = "within_size";
  EXPECT_THAT(said(kGi, 499 * kGi), AllOf(HasSubstr("note: 1Gi that engines share"),
                                          HasSubstr("start the engines again")));
}

TEST(DoctorTest, SaysHowManyQueuePairsABondHas) {
  Facts facts = Healthy();
  const auto said = [&] { return About(facts, "mlx5_0 port 1"); };
  const auto before = said();
  facts.devices[0].ports[0].interfaces[0].bond_members = 2;
  facts.devices[0].ports[0].interfaces[0].bond_mode = "802.3ad";
  EXPECT_THAT(said(),
              Contains(AllOf(HasSubstr("note: "), HasSubstr("a bond of 2 members (802.3ad)"),
                             HasSubstr("2 queue pairs"))));
  facts.config.rdma_link.queues = 1;
  EXPECT_THAT(said(), Contains(AllOf(HasSubstr("warning: "), HasSubstr("rdma-queues auto"))));
  facts.devices[0].ports[0].interfaces[0].bond_members = 0;
  EXPECT_EQ(said(), before);
}

TEST(DoctorTest, SaysWhatAPortHasLost) {
  Facts facts = Healthy();
  facts.losses["mlx5_0 port 1"] = {{"local_ack_timeout_err", 3}, {"out_of_sequence", 12}};
  EXPECT_THAT(About(facts, "mlx5_0 port 1"),
              Contains(HasSubstr("local_ack_timeout_err 3, out_of_sequence 12; check whether")));
}

TEST(DoctorTest, SaysForHowManyLinksDescriptorsSuffice) {
  Facts facts = Healthy();
  facts.descriptors = {1024, 524'288};
  EXPECT_EQ(One(facts, "descriptors"),
            "ok: 1024, which the node raises to 524288 when it starts: room for 261632 links over "
            "RDMA");
  facts.descriptors = {128, 2000};
  EXPECT_THAT(One(facts, "descriptors"),
              AllOf(HasSubstr("warning: 128, which the node raises to 2000"),
                    HasSubstr("room for 488 links over RDMA of 2 descriptors each"),
                    HasSubstr("LimitNOFILE")));
  facts.devices[0].ports[0].gbps = 400;
  EXPECT_THAT(One(facts, "descriptors"), HasSubstr("room for 325 links over RDMA of 3 descriptors"))
      << "with two queue pairs each";
  facts.devices[0].ports[0].gbps = 200;
  facts.config.rdma_max_queues = 256;
  EXPECT_THAT(One(facts, "descriptors"), HasSubstr("ok: 128")) << "it never has more";
  facts.config.transport = "tcp";
  facts.descriptors = {128, 4096};
  EXPECT_EQ(One(facts, "descriptors"), "ok: 128, which the node raises to 4096 when it starts");
  facts.descriptors = {128, 1024};
  EXPECT_THAT(One(facts, "descriptors"), HasSubstr("warning: 128"));
  facts.descriptors = {4096, 4096};
  EXPECT_EQ(One(facts, "descriptors"), "ok: 4096");
}

TEST(DoctorTest, IsUsefulWithoutRdma) {
  Facts facts = Healthy();
  facts.devices.clear();
  facts.config.device_name = "mlx5_0";
  EXPECT_EQ(Diagnose(facts).ExitCode(), 1) << "it is missed";
  facts.config.device_name.clear();
  facts.verbs = Unavailable("libibverbs.so.1 cannot be loaded: install libibverbs1");
  EXPECT_EQ(Diagnose(facts).ExitCode(), 0) << "auto uses TCP";
  EXPECT_THAT(One(facts, "transport"), HasSubstr("note: pages travel over TCP: no RDMA device"));
  facts.config.transport = "tcp";
  EXPECT_EQ(Diagnose(facts).ExitCode(), 0);
  facts.config.transport = "rdma";
  EXPECT_EQ(Diagnose(facts).ExitCode(), 2);
  EXPECT_THAT(One(facts, "libibverbs"), HasSubstr("fault: libibverbs.so.1 cannot be loaded"));
}

TEST(DoctorTest, HardwareThatCannotBeUsedIsAWarningOrAFault) {
  Facts facts = Healthy();
  facts.devices[0].ports[0].interfaces[0].addresses.clear();
  EXPECT_EQ(Diagnose(facts).ExitCode(), 1);
  EXPECT_THAT(One(facts, "transport"), HasSubstr("give the interface an IP address"));
  facts.config.device_name = "mlx5_0";
  EXPECT_THAT(One(facts, "mlx5_0 port 1"), HasSubstr("warning:"));
  facts.config.transport = "rdma";
  EXPECT_EQ(Diagnose(facts).ExitCode(), 2);
  EXPECT_THAT(One(facts, "mlx5_0 port 1"), HasSubstr("fault:"));
  facts.config.device_name = "mlx5_9";
  EXPECT_THAT(One(facts, "transport"), HasSubstr("no RDMA device mlx5_9; there are mlx5_0"));
}

TEST(DoctorTest, MtuThatDoesNotFit) {
  Facts facts = Healthy();
  facts.devices[0].ports[0].interfaces[0].mtu = 1500;
  EXPECT_EQ(Diagnose(facts).ExitCode(), 2);
  facts.devices[0].ports[0].active_mtu = 1024;
  EXPECT_EQ(Diagnose(facts).ExitCode(), 1);
  EXPECT_THAT(About(facts, "mlx5_0 port 1"),
              ::testing::Contains(HasSubstr("limits RDMA packets to 1024")));
}

TEST(DoctorTest, ADeviceThatRegistersInPieces) {
  Facts facts = Healthy();
  facts.devices[0].limits.max_mr_size = 1 * kGi;
  facts.devices[0].limits.max_mr = 100;
  EXPECT_EQ(One(facts, "mlx5_0"),
            "note: a registration has at most 1Gi: the pool of 4Gi takes 4 of 100");
  facts.devices[0].limits.max_mr = 6;
  EXPECT_THAT(One(facts, "mlx5_0"), HasSubstr("warning:"));
}

TEST(DoctorTest, NumaNodesThatDoNotFit) {
  Facts facts = Healthy();
  facts.allowed_cpus = {0, 1};
  EXPECT_THAT(One(facts, "NUMA threads"), HasSubstr("warning: none of NUMA node 1's CPUs (2-3)"));
  facts = Healthy();
  facts.huge_pages[1].free = 1000;
  facts.huge_pages[0].free = 4000;
  EXPECT_THAT(One(facts, "NUMA memory"), HasSubstr("the rest comes from other nodes"));
  facts = Healthy();
  facts.devices.push_back(Nic("mlx5_1", "10.0.1.1", 0));
  EXPECT_THAT(One(facts, "NUMA"), HasSubstr("warning: mlx5_0 port 1, mlx5_1 port 1 are on NUMA "
                                            "nodes 0, 1"));
  facts.config.numa_node = kNumaOff;
  EXPECT_EQ(Diagnose(facts).ExitCode(), 0);
}

TEST(DoctorTest, MemlockNamesTheLimitTheNeedAndTheFix) {
  Facts facts = Healthy();
  facts.memlock.limit = 8 << 20;
  facts.memlock.uid = 65532;
  EXPECT_THAT(One(facts, "memlock"),
              AllOf(HasSubstr("fault: RLIMIT_MEMLOCK is 8Mi"),
                    HasSubstr("pool with headers locks 4097Mi (4097Mi on each of 1 rails)"),
                    HasSubstr("ulimit -l")));
  EXPECT_THAT(One(facts, "memlock"), Not(HasSubstr("IPC_LOCK")));
  facts.memlock.ipc_lock_granted = true;
  EXPECT_THAT(One(facts, "memlock"),
              HasSubstr("IPC_LOCK was added, but does nothing for user 65532"));
  facts.memlock.limit = 8 * kGi;
  EXPECT_THAT(One(facts, "memlock"), HasSubstr("warning:")) << "engines' pools come on top";
  facts.devices.push_back(Nic("mlx5_1", "10.0.1.1", 1));
  EXPECT_THAT(One(facts, "memlock"), HasSubstr("locks 8194Mi (4097Mi on each of 2 rails)"))
      << "each counts";
  facts.memlock.ipc_lock = true;
  EXPECT_THAT(One(facts, "memlock"), HasSubstr("ok:"));
  facts.memlock.ipc_lock = false;
  facts.devices.clear();
  EXPECT_THAT(One(facts, "memlock"), HasSubstr("note:")) << "TCP locks nothing";
}

TEST(DoctorTest, PagingOnDemandLocksNothingWhereEveryDeviceHasIt) {
  Facts facts = Healthy();
  facts.memlock.limit = 8 << 20;
  facts.devices[0].limits.on_demand_paging = {};
  EXPECT_THAT(One(facts, "memlock"), HasSubstr("fault:")) << "nobody has asked for it";
  facts.config.rdma_link.on_demand_paging = true;
  EXPECT_THAT(One(facts, "memlock"), HasSubstr("note: rdma-odp is on"));
  EXPECT_THAT(One(facts, "memlock"), HasSubstr("queue pairs and completion queues are"));
  EXPECT_THAT(About(facts, "mlx5_0"), IsEmpty());
  facts.devices[0].limits.on_demand_paging = Unavailable("it has no on-demand paging");
  facts.devices.push_back(Nic("mlx5_1", "10.0.1.1", 1));
  facts.devices[1].limits.on_demand_paging = {};
  EXPECT_THAT(One(facts, "memlock"), HasSubstr("fault: RLIMIT_MEMLOCK is 8Mi"));
  EXPECT_THAT(One(facts, "memlock"), HasSubstr("on each of 1 rails"));
  EXPECT_THAT(
      One(facts, "mlx5_0"),
      HasSubstr("warning: rdma-odp is on, but it has no on-demand paging: memory is locked"));
}

TEST(DoctorTest, HugePages) {
  Facts facts = Healthy();
  facts.huge_pages[1].free = 10;
  EXPECT_THAT(One(facts, "huge pages"),
              AllOf(HasSubstr("warning: 20Mi of 2Mi pages are free"), HasSubstr("reserve 2048")));
  facts.config.huge_pages = HugePages::k2Mi;
  EXPECT_THAT(One(facts, "huge pages"), HasSubstr("fault:"));
  facts.config.huge_pages = HugePages::kOff;
  EXPECT_THAT(One(facts, "huge pages"), HasSubstr("note:"));
  facts.memory.bytes = 1 * kGi;
  EXPECT_THAT(One(facts, "memory"), HasSubstr("fault:"));
}

// It has taken what the checks above would look for.
TEST(DoctorTest, AGuestWhoseIdleProcessorsHaltAtOnce) {
  Facts facts = Healthy();
  EXPECT_THAT(About(facts, "idle processors"), IsEmpty()) << "not a guest";
  facts.halt_poll = std::chrono::microseconds(200);
  EXPECT_EQ(One(facts, "idle processors"), "ok: poll for 200 us before they halt");
  facts.halt_poll = Duration(0);
  EXPECT_THAT(One(facts, "idle processors"),
              AllOf(HasSubstr("note: halt at once"), HasSubstr("echo 200000 > /sys/module")));
  EXPECT_EQ(Diagnose(facts).ExitCode(), 0) << "it is the machine's setting, and a matter of speed";
}

TEST(DoctorTest, BesideARunningNodeItsOwnWordCounts) {
  Facts facts = Healthy();
  for (HugePagePool& pool : facts.huge_pages) pool.free = 0;
  facts.running = RunningNode{true, "bound", "all from NUMA node 1"};
  EXPECT_EQ(Diagnose(facts).ExitCode(), 0) << RenderText(Diagnose(facts));
  facts.running = RunningNode{false, "first touch", "mbind to NUMA node 1: not permitted"};
  EXPECT_THAT(One(facts, "huge pages"), HasSubstr("warning:"));
  EXPECT_THAT(One(facts, "NUMA memory"),
              HasSubstr("warning: the node that runs here: first touch"));
}

TEST(DoctorTest, APeerOfAnotherTrafficClass) {
  Facts facts = Healthy();
  facts.running = RunningNode{true, "bound", "all from NUMA node 1"};
  EXPECT_THAT(About(facts, "traffic class"), IsEmpty());
  facts.running->class_mismatch =
      "a peer's port 10.0.0.2: rdma-traffic-class is 104 here and 0 there";
  EXPECT_EQ(One(facts, "traffic class"),
            "warning: the node that runs here: " + facts.running->class_mismatch);
}

TEST(DoctorTest, GpuDirect) {
  Facts facts = Healthy();
  EXPECT_THAT(About(facts, "GPUDirect"), IsEmpty());
  facts.gpu.driver = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54";
  EXPECT_THAT(One(facts, "GPUDirect"), HasSubstr("note: pages go through host memory: dmabuf needs "
                                                 "NVIDIA's open kernel modules"));
  facts.gpu.open_modules = true;
  EXPECT_EQ(One(facts, "GPUDirect"), "ok: by dmabuf: devices and NVIDIA's driver have it");
  facts.devices[0].dmabuf = rdma::Support::kNo;
  EXPECT_THAT(One(facts, "GPUDirect"), HasSubstr("not every rail's driver has dmabuf"));
  facts.gpu.peermem = true;
  EXPECT_EQ(One(facts, "GPUDirect"),
            "ok: by nvidia-peermem, for nodes that run in the engine's process (embedded)");
}

TEST(DoctorTest, WhoCannotBeReached) {
  Facts facts = Healthy();
  facts.config.discovery_addr = "d:31998";
  const Status refused = Unavailable("connecting: Connection refused");
  facts.reach = {{Reach::Kind::kDiscovery, "d:31998", "10.0.0.8:31998", false, refused, {}}};
  EXPECT_THAT(One(facts, "discovery d:31998"),
              AllOf(HasSubstr("fault: 10.0.0.8:31998"), HasSubstr("firewalls")));
  facts.reach[0].local = true;
  EXPECT_THAT(One(facts, "discovery d:31998"), HasSubstr("note:")) << "its node is still to come";
  facts.reach[0].local = false;
  facts.reach.push_back({Reach::Kind::kDiscovery, "e:31998", "10.0.0.9:31998", false, {}, {}});
  EXPECT_THAT(One(facts, "discovery d:31998"), HasSubstr("warning:")) << "another one answers";
  EXPECT_THAT(One(facts, "discovery e:31998"), HasSubstr("ok: 10.0.0.9:31998 accepts"));
  facts.running = RunningNode{true, "bound", ""};
  facts.reach = {{Reach::Kind::kMember, "n2", "10.0.0.2:31998", false, refused, {}}};
  EXPECT_THAT(One(facts, "member n2"), HasSubstr("warning:"));
}

TEST(DoctorTest, RunsOnThisMachine) {
  NodeConfig config;
  config.http = false;
  ::testing::internal::CaptureStdout();
  const int code = doctor::Run(config, true);
  const std::string out = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(out, HasSubstr("\"exit_code\": " + std::to_string(code)));
  EXPECT_THAT(out, HasSubstr("\"numa\": ["));
}

}  // namespace
}  // namespace peercache::doctor
