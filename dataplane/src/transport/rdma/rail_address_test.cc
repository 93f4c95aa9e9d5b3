#include "transport/rdma/rail_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/rdma/sysfs_testing.h"

namespace peercache::rdma {
namespace {

using peercache::testing::FakeSysfs;
using peercache::testing::Ip;
using ::testing::HasSubstr;

// A port whose cable, addresses and GIDs come and go.
class RailAddressTest : public ::testing::Test {
 protected:
  void SetUp() override {
    pci_ = sysfs_.AddPci("0000:3b:00.0", 0);
    device_ = sysfs_.AddDevice("mlx5_0", pci_);
    Port("1: DOWN");
    sysfs_.AddInterface("eth0", 9000, pci_, {Ip("10.1.2.3"), Ip("10.9.9.9"), Ip("fd00::1")}, 120);
  }
  void Port(const std::string& state) { port_ = sysfs_.AddPort(device_, 1, "Ethernet", state); }
  void Gid(int index, const std::string& address) {
    sysfs_.AddGid(port_, index, address, "RoCE v2", "eth0");
  }
  RailLook Look(const Address* present = nullptr) const {
    const Device device = ReadDevice(sysfs_.Sources(), "mlx5_0");
    EXPECT_EQ(device.ports.size(), 1u);
    return LookAt(device.ports.front(), {}, present);
  }

  FakeSysfs sysfs_;
  std::string pci_, device_, port_;
};

TEST_F(RailAddressTest, APortThatIsDownIsWaitedForThenAnAddress) {
  RailLook look = Look();
  ASSERT_FALSE(look.address.ok());
  EXPECT_EQ(look.waits_for, WaitsFor::kPort);
  EXPECT_THAT(look.address.status().message(), HasSubstr("check the cable"));

  Port("4: ACTIVE");
  look = Look();
  ASSERT_FALSE(look.address.ok());
  EXPECT_EQ(look.waits_for, WaitsFor::kAddress);
  EXPECT_THAT(look.address.status().message(), HasSubstr("give it an IP address"));

  Gid(3, "10.1.2.3");
  look = Look();
  ASSERT_TRUE(look.address.ok()) << look.address.status().ToString();
  EXPECT_EQ(look.address->gid.index, 3u);
  const QueueAddress address = look.address->ForPeers();
  EXPECT_EQ(address.gid, Ip("10.1.2.3"));
  EXPECT_EQ(address.network, Ip("10.1.2.0")) << "of 24 bits";
  EXPECT_EQ(address.ethernet, 1);
}

TEST_F(RailAddressTest, WhatTheTableSaysNowCountsNotWhatItSaidAtTheIndex) {
  Port("4: ACTIVE");
  Gid(3, "10.1.2.3");
  const auto first = Look().address;
  ASSERT_TRUE(first.ok());
  Gid(3, "fd00::1");
  Gid(4, "10.9.9.9");
  const auto second = Look(&first->gid.address).address;
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->gid.address, Ip("10.9.9.9"));
  EXPECT_EQ(second->gid.index, 4u);
  EXPECT_FALSE(second->SameAs(*first));
  Gid(4, "");
  Gid(7, "10.9.9.9");
  const auto third = Look(&second->gid.address).address;
  ASSERT_TRUE(third.ok());
  EXPECT_FALSE(third->SameAs(*second)) << "queue pairs name the index";
}

TEST_F(RailAddressTest, AnInterfaceWithSmallFramesIsUsedWithAWarning) {
  Port("4: ACTIVE");
  Gid(3, "10.1.2.3");
  Device device = ReadDevice(sysfs_.Sources(), "mlx5_0");
  device.ports[0].active_mtu = 1024;
  device.ports[0].max_mtu = 4096;
  device.ports[0].interfaces[0].mtu = 1500;
  const RailLook look = LookAt(device.ports[0], {}, nullptr);
  ASSERT_TRUE(look.address.ok());
  EXPECT_THAT(look.address->warning, HasSubstr("1500"));
}

TEST_F(RailAddressTest, InfiniBandWaitsForALid) {
  FakeSysfs sysfs;
  const std::string device = sysfs.AddDevice("mlx5_0", sysfs.AddPci("0000:3b:00.0", 0));
  sysfs.AddGid(sysfs.AddPort(device, 1, "InfiniBand"), 0, "fe80::506b:4b03:c1:2a3c", "IB/RoCE v1",
               "");
  RailLook look = LookAt(ReadDevice(sysfs.Sources(), "mlx5_0").ports[0], {}, nullptr);
  ASSERT_FALSE(look.address.ok());
  EXPECT_EQ(look.waits_for, WaitsFor::kAddress);
  EXPECT_THAT(look.address.status().message(), HasSubstr("opensm"));
  sysfs.AddPort(device, 1, "InfiniBand", "4: ACTIVE", "0x1f");
  look = LookAt(ReadDevice(sysfs.Sources(), "mlx5_0").ports[0], {}, nullptr);
  ASSERT_TRUE(look.address.ok()) << look.address.status().ToString();
  EXPECT_EQ(look.address->ForPeers().lid, 0x1f);
  EXPECT_EQ(look.address->network, Ip("fe80::")) << "the subnet prefix";
}

TEST_F(RailAddressTest, ADeviceThatIsGoneHasNoPorts) {
  EXPECT_TRUE(ReadDevice(sysfs_.Sources(), "mlx5_9").ports.empty());
}

}  // namespace
}  // namespace peercache::rdma
