#include "transport/rdma/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "transport/rdma/sysfs_testing.h"

namespace peercache::rdma {
namespace {

using peercache::testing::FakeSysfs;
using peercache::testing::Ip;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(DeviceTest, NoDevicesWithoutRdmaInTheKernel) {
  const FakeSysfs sysfs;
  EXPECT_THAT(sysfs.Read(), IsEmpty());
}

TEST(DeviceTest, ReadsARoceFunction) {
  FakeSysfs sysfs;
  const std::string pci = sysfs.AddPci("0000:3b:00.2", 1);
  sysfs.Link(pci + "/physfn", "devices/pci0000:3a/0000:3b:00.0");
  const std::string port = sysfs.AddPort(sysfs.AddDevice("mlx5_2", pci), 1, "Ethernet");
  sysfs.AddGid(port, 0, "fe80::1", "IB/RoCE v1", "eth2");
  sysfs.AddGid(port, 1, "fe80::1", "RoCE v2", "eth2");
  sysfs.AddGid(port, 2, "", "", "");
  sysfs.AddGid(port, 10, "10.0.0.5", "RoCE v2", "eth2");
  sysfs.AddGid(port, 256, "10.0.0.6", "RoCE v2", "eth2");  // no queue pair could name it
  sysfs.AddInterface("lo", 65536, "", {Ip("127.0.0.1")});
  sysfs.AddInterface("eth2", 9000, pci, {Ip("10.0.0.5"), Ip("fe80::1")});
  sysfs.probes["mlx5_2"] = {.limits = {.max_qp = 131072, .max_mr_size = UINT64_MAX},
                            .dmabuf = Support::kYes,
                            .ports = {{.active = 4096, .max = 4096}}};

  const std::vector<Device> devices = sysfs.Read();
  ASSERT_THAT(devices, SizeIs(1));
  const Device& device = devices[0];
  EXPECT_EQ(device.name, "mlx5_2");
  EXPECT_EQ(device.node_guid, "506b:4b03:00c1:2a3c");
  EXPECT_EQ(device.firmware, "22.39.1002");
  EXPECT_EQ(device.pci_address, "0000:3b:00.2");
  EXPECT_TRUE(device.virtual_function);
  EXPECT_FALSE(device.software());
  EXPECT_EQ(device.transport, Transport::kInfiniBand);
  EXPECT_EQ(device.numa_node, 1);
  EXPECT_TRUE(device.opens.ok());
  EXPECT_EQ(device.limits.max_qp, 131072u);
  EXPECT_EQ(device.dmabuf, Support::kYes);

  ASSERT_THAT(device.ports, SizeIs(1));
  const Port& p = device.ports[0];
  EXPECT_EQ(p.Name(), "mlx5_2 port 1");
  EXPECT_EQ(p.state, PortState::kActive);
  EXPECT_EQ(p.state_text, "ACTIVE");
  EXPECT_EQ(p.physical_state, "LinkUp");
  EXPECT_EQ(p.link_layer, LinkLayer::kEthernet);
  EXPECT_EQ(p.gbps, 200);
  EXPECT_EQ(p.active_mtu, 4096u);
  EXPECT_THAT(p.pkeys, ElementsAre(0xffff));
  EXPECT_EQ(p.numa_node, 1);
  ASSERT_THAT(p.gids, SizeIs(3)) << "an entry that is not in use counts";
  EXPECT_EQ(FormatGid(p.gids[0]), "0 (fe80::1, RoCEv1, eth2)");
  EXPECT_EQ(FormatGid(p.gids[2]), "10 (10.0.0.5, RoCEv2, eth2)") << "order of text, not of number";
  ASSERT_THAT(p.interfaces, SizeIs(1));
  EXPECT_EQ(p.interfaces[0].mtu, 9000u);
  EXPECT_TRUE(p.interfaces[0].physical);
  EXPECT_EQ(p.FindInterface("lo"), nullptr);
}

TEST(DeviceTest, ReadsInfiniBand) {
  FakeSysfs sysfs;
  const std::string device = sysfs.AddDevice("mlx5_0", sysfs.AddPci("0000:3b:00.0", 0));
  sysfs.AddGid(sysfs.AddPort(device, 1, "InfiniBand", "4: ACTIVE", "0x1f"), 0,
               "fe80::506b:4b03:c1:2a3c", "IB/RoCE v1", "");
  sysfs.AddPort(device, 2, "InfiniBand", "1: DOWN");
  const std::vector<Device> devices = sysfs.Read();
  ASSERT_THAT(devices, SizeIs(1));
  ASSERT_THAT(devices[0].ports, SizeIs(2));
  EXPECT_EQ(devices[0].ports[0].lid, 0x1f);
  EXPECT_EQ(devices[0].ports[0].gids[0].type, GidType::kInfiniBand);
  EXPECT_EQ(devices[0].ports[1].state, PortState::kDown);
}

TEST(DeviceTest, SoftRoceIsWhereItsInterfaceIs) {
  FakeSysfs sysfs;
  // A virtio interface: the PCI function above it knows the NUMA node.
  const std::string pci = sysfs.AddPci("0000:00:04.0", 1);
  sysfs.AddInterface("eth1", 1500, pci + "/virtio3", {Ip("10.0.1.1")});
  sysfs.AddGid(sysfs.AddPort(sysfs.AddDevice("rxe0", ""), 1, "Ethernet"), 1, "10.0.1.1", "RoCE v2",
               "eth1");
  const std::vector<Device> devices = sysfs.Read();
  ASSERT_THAT(devices, SizeIs(1));
  EXPECT_TRUE(devices[0].software());
  EXPECT_EQ(devices[0].pci_address, "");
  EXPECT_EQ(devices[0].numa_node, 1);
  EXPECT_EQ(devices[0].ports[0].numa_node, 1);
}

TEST(DeviceTest, SoftRoceWithoutGidsFindsItsInterfaceByItsParent) {
  FakeSysfs sysfs;
  sysfs.AddInterface("eth1", 1500, sysfs.AddPci("0000:00:04.0", 1), {});
  const std::string device = sysfs.AddDevice("rxe0", "");
  sysfs.AddPort(device, 1, "Ethernet");
  sysfs.Write(device + "/parent", "eth1");
  const std::vector<Device> devices = sysfs.Read();
  ASSERT_THAT(devices, SizeIs(1));
  EXPECT_NE(devices[0].ports[0].FindInterface("eth1"), nullptr);
  EXPECT_EQ(devices[0].numa_node, 1);
}

TEST(DeviceTest, AVlanOnABondIsWhereTheFirstOfItsFunctionsIs) {
  FakeSysfs sysfs;
  sysfs.AddInterface("eth4", 9000, sysfs.AddPci("0000:b1:00.0", 1), {});
  sysfs.AddInterface("bond0", 9000, "", {});
  sysfs.Write("class/net/bond0/bonding/slaves", "eth4 eth5");
  sysfs.Write("class/net/bond0/bonding/mode", "802.3ad 4");
  sysfs.Link("class/net/bond0/lower_eth4", "class/net/eth4");
  sysfs.AddInterface("bond0.7", 9000, "", {});
  sysfs.Link("class/net/bond0.7/lower_bond0", "class/net/bond0");
  Interface vlan;
  vlan.name = "bond0.7";
  DescribeInterface(sysfs.path(), &vlan);
  EXPECT_EQ(vlan.numa_node, 1);
  EXPECT_EQ(vlan.bond_members, 2u);
  EXPECT_EQ(vlan.bond_mode, "802.3ad");
  EXPECT_FALSE(vlan.physical);
}

TEST(DeviceTest, InterfacesThatAreBelowEachOtherEnd) {
  FakeSysfs sysfs;
  sysfs.AddInterface("a", 1500, "", {});
  sysfs.AddInterface("b", 1500, "", {});
  sysfs.Link("class/net/a/lower_b", "class/net/b");
  sysfs.Link("class/net/b/lower_a", "class/net/a");
  Interface a;
  a.name = "a";
  DescribeInterface(sysfs.path(), &a);
  EXPECT_EQ(a.numa_node, -1);
  EXPECT_EQ(a.bond_members, 0u);
}

TEST(DeviceTest, ADeviceThatDoesNotOpenIsListedWithTheReason) {
  FakeSysfs sysfs;
  sysfs.AddPort(sysfs.AddDevice("mlx5_0", sysfs.AddPci("0000:3b:00.0", 0)), 1, "Ethernet");
  const std::vector<Device> devices = sysfs.Read();
  ASSERT_THAT(devices, SizeIs(1));
  EXPECT_THAT(devices[0].opens.message(), HasSubstr("Permission denied"));
  EXPECT_EQ(devices[0].ports[0].active_mtu, 0u);
}

TEST(DeviceTest, TheRealMachineCanBeRead) {
  // Whatever there is: nothing crashes, and what is listed has a name.
  for (const Device& device : ReadDevices(SystemSources())) EXPECT_FALSE(device.name.empty());
  const std::vector<Interface> interfaces = ListInterfaces();
  EXPECT_TRUE(std::any_of(interfaces.begin(), interfaces.end(),
                          [](const Interface& i) { return i.name == "lo"; }));
}

TEST(InterfacesTest, KnowsTheNetworkOfEachAddress) {
  Address loopback{};
  loopback[10] = loopback[11] = 0xff;
  loopback[12] = 127;
  loopback[15] = 1;
  const auto interfaces = ListInterfaces();
  const auto lo = std::find_if(interfaces.begin(), interfaces.end(),
                               [](const Interface& i) { return i.name == "lo"; });
  ASSERT_NE(lo, interfaces.end());
  EXPECT_EQ(lo->PrefixBitsOf(loopback), 96 + 8);
  EXPECT_EQ(lo->PrefixBitsOf({}), 0);
}

}  // namespace
}  // namespace peercache::rdma
