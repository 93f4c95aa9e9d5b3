#include "doctor/gather.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/temp_dir_testing.h"

namespace peercache::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

void Write(const peercache::testing::TempDir& dir, const std::string& name,
           const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(dir.path() + "/" + name).parent_path());
  dir.Write(name, text);
}

TEST(GatherTest, HugePagesAreCountedByNumaNode) {
  const peercache::testing::TempDir sysfs;
  const std::string node = "devices/system/node/node1/hugepages/hugepages-2048kB/";
  Write(sysfs, node + "nr_hugepages", "512\n");
  Write(sysfs, node + "free_hugepages", "500\n");
  const auto pools = ReadHugePagePools({{0, {}, true}, {1, {}, true}}, sysfs.path());
  ASSERT_THAT(pools, SizeIs(1));
  EXPECT_EQ(pools[0].numa_node, 1);
  EXPECT_EQ(pools[0].page_size, 2u << 20);
  EXPECT_EQ(pools[0].total, 512u);
  EXPECT_EQ(pools[0].free, 500u);
}

TEST(GatherTest, HowLongIdleProcessorsOfAGuestPoll) {
  const peercache::testing::TempDir sysfs;
  Write(sysfs, "module/haltpoll/parameters/guest_halt_poll_ns", "200000\n");
  EXPECT_EQ(ReadHaltPoll(sysfs.path()), std::nullopt) << "a host";
  Write(sysfs, "devices/system/cpu/cpuidle/current_driver", "intel_idle\n");
  EXPECT_EQ(ReadHaltPoll(sysfs.path()), std::nullopt);
  Write(sysfs, "devices/system/cpu/cpuidle/current_driver", "haltpoll\n");
  EXPECT_EQ(ReadHaltPoll(sysfs.path()), std::chrono::microseconds(200));
  Write(sysfs, "module/haltpoll/parameters/guest_halt_poll_ns", "0\n");
  EXPECT_EQ(ReadHaltPoll(sysfs.path()), Duration(0));
}

TEST(GatherTest, OfWhatPagesSharedMemoryIs) {
  const peercache::testing::TempDir sysfs;
  EXPECT_EQ(ReadSharedMemoryPages(sysfs.path()), "");
  Write(sysfs, "kernel/mm/transparent_hugepage/shmem_enabled",
        "always within_size advise [never] deny force\n");
  EXPECT_EQ(ReadSharedMemoryPages(sysfs.path()), "never");
}

TEST(GatherTest, TheSlotOfADevice) {
  const peercache::testing::TempDir sysfs;
  const std::string device = "class/infiniband/mlx5_0/device/";
  Write(sysfs, device + "current_link_speed", "16.0 GT/s PCIe\n");
  Write(sysfs, device + "max_link_speed", "32.0 GT/s PCIe\n");
  Write(sysfs, device + "current_link_width", "8\n");
  Write(sysfs, device + "max_link_width", "16\n");
  Write(sysfs, device + "iommu_group/type", "DMA-FQ\n");
  std::string configuration(64, '\0');
  Write(sysfs, device + "config", configuration);
  PciLink link = ReadPciLink("mlx5_0", sysfs.path());
  EXPECT_EQ(link.speed, 16);
  EXPECT_EQ(link.most_speed, 32);
  EXPECT_EQ(link.lanes, 8u);
  EXPECT_EQ(link.most_lanes, 16u);
  EXPECT_EQ(link.iommu, "DMA-FQ");
  EXPECT_EQ(link.read_request, 0u) << "nobody but root may see it";
  EXPECT_NEAR(link.gbps(), 126, 1);
  // Two capabilities; the second is PCI Express, whose device control has 010 in bits 12 to 14.
  configuration.resize(256);
  configuration[0x06] = 0x10;
  configuration[0x34] = 0x40;
  configuration[0x40] = 0x01;
  configuration[0x41] = 0x60;
  configuration[0x60] = 0x10;
  configuration[0x69] = 0x20;
  Write(sysfs, device + "config", configuration);
  EXPECT_EQ(ReadPciLink("mlx5_0", sysfs.path()).read_request, 512u);
  EXPECT_FALSE(ReadPciLink("mlx5_0", sysfs.path()).relaxed_ordering);
  configuration[0x68] = 0x10;
  EXPECT_TRUE(DeviceControlOf(configuration).relaxed_ordering);
  configuration[0x41] = 0x40;
  EXPECT_EQ(DeviceControlOf(configuration).read_request, 0u) << "a list with a loop";
  configuration[0x41] = 0x08;
  EXPECT_EQ(DeviceControlOf(configuration).read_request, 0u) << "a list that leads into the header";
  configuration[0x41] = static_cast<char>(0xfc);
  configuration[0xfc] = 0x10;
  EXPECT_EQ(DeviceControlOf(configuration).read_request, 0u) << "a capability that ends behind it";
  EXPECT_EQ(ReadPciLink("mlx5_9", sysfs.path()).lanes, 0u);
}

TEST(GatherTest, WhatAPortHasLost) {
  const peercache::testing::TempDir sysfs;
  const std::string counters = "class/infiniband/mlx5_0/ports/2/hw_counters/";
  Write(sysfs, counters + "out_of_sequence", "12\n");
  Write(sysfs, counters + "local_ack_timeout_err", "0\n");
  Write(sysfs, counters + "rx_read_requests", "99\n");
  const std::map<std::string, uint64_t> lost{{"out_of_sequence", 12}};
  EXPECT_EQ(ReadLosses("mlx5_0", 2, sysfs.path()), lost);
  EXPECT_THAT(ReadLosses("mlx5_0", 1, sysfs.path()), IsEmpty());
}

TEST(GatherTest, TheUplinkOfAVirtualFunction) {
  namespace fs = std::filesystem;
  const peercache::testing::TempDir sysfs;
  const std::string pci = sysfs.path() + "/devices/pci0000:3a/", infiniband = "/class/infiniband/";
  fs::create_directories(pci + "0000:3b:00.2/infiniband/mlx5_3");
  fs::create_directory_symlink("../0000:3b:00.0", pci + "0000:3b:00.2/physfn");
  fs::create_directories(pci + "0000:3b:00.0");
  fs::create_directories(sysfs.path() + infiniband + "mlx5_3");
  fs::create_directory_symlink(pci + "0000:3b:00.2", sysfs.path() + infiniband + "mlx5_3/device");

  // As in a pod: neither interface nor RDMA device of the physical function is there.
  Uplink uplink = ReadUplink("mlx5_3", sysfs.path());
  EXPECT_EQ(uplink.function, "0000:3b:00.0");
  EXPECT_THAT(uplink.devices, IsEmpty());
  EXPECT_THAT(uplink.interfaces, IsEmpty());
  EXPECT_FALSE(uplink.bonded);

  fs::create_directories(pci + "0000:3b:00.0/infiniband/mlx5_bond_0");
  fs::create_directories(pci + "0000:3b:00.0/net/ens1f0");
  uplink = ReadUplink("mlx5_3", sysfs.path());
  EXPECT_THAT(uplink.devices, ElementsAre("mlx5_bond_0"));
  EXPECT_THAT(uplink.interfaces, ElementsAre("ens1f0"));
  EXPECT_FALSE(uplink.bonded);

  // A bridge is no bond.
  fs::create_directories(sysfs.path() + "/devices/virtual/net/bond0/bonding");
  fs::create_directories(sysfs.path() + "/devices/virtual/net/br0/bridge");
  fs::create_directories(pci + "0000:3b:00.0/net/ens1f0_0");
  fs::create_directory_symlink(sysfs.path() + "/devices/virtual/net/bond0",
                               pci + "0000:3b:00.0/net/ens1f0/master");
  fs::create_directory_symlink(sysfs.path() + "/devices/virtual/net/br0",
                               pci + "0000:3b:00.0/net/ens1f0_0/master");
  uplink = ReadUplink("mlx5_3", sysfs.path());
  EXPECT_THAT(uplink.interfaces, ElementsAre("ens1f0 in bond0", "ens1f0_0"));
  EXPECT_TRUE(uplink.bonded);
}

TEST(GatherTest, TheGpuDriverAndItsModules) {
  const peercache::testing::TempDir proc, sysfs;
  EXPECT_THAT(ReadGpu(sysfs.path(), proc.path()).driver, IsEmpty());
  Write(proc, "driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15\nGCC version: 12\n");
  std::filesystem::create_directories(sysfs.path() + "/module/nvidia_peermem");
  const GpuFacts gpu = ReadGpu(sysfs.path(), proc.path());
  EXPECT_THAT(gpu.driver, StartsWith("NVRM version"));
  EXPECT_EQ(gpu.driver.find('\n'), gpu.driver.npos);
  EXPECT_TRUE(gpu.open_modules);
  EXPECT_TRUE(gpu.peermem);
}

}  // namespace
}  // namespace peercache::doctor
