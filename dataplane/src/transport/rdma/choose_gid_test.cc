#include "transport/rdma/choose_gid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/rdma/sysfs_testing.h"

namespace peercache::rdma {
namespace {

using peercache::testing::Ip;
using ::testing::AllOf;
using ::testing::HasSubstr;

GidPreference Prefer(const std::string& text) {
  auto preference = ParseGidPreference(text);
  EXPECT_TRUE(preference.ok()) << preference.status().ToString();
  return preference.ok() ? *preference : GidPreference();
}

Port RocePort() {
  Port port;
  port.device = "mlx5_0";
  port.link_layer = LinkLayer::kEthernet;
  port.transport = Transport::kInfiniBand;
  port.state = PortState::kActive;
  return port;
}

void AddGid(Port* port, uint32_t index, const std::string& address, GidType type,
            const std::string& interface) {
  port->gids.push_back({index, Ip(address), type, interface});
}

void AddInterface(Port* port, const std::string& name, std::vector<std::string> addresses) {
  Interface interface;
  interface.name = name;
  for (const std::string& address : addresses) interface.addresses.push_back(Ip(address));
  port->interfaces.push_back(interface);
}

// As a ConnectX with one IPv4 and one global IPv6 address fills its table.
Port FullPort() {
  Port port = RocePort();
  AddInterface(&port, "eth1", {"10.0.0.1", "fd00::1", "fe80::1"});
  AddGid(&port, 0, "fe80::1", GidType::kRoceV1, "eth1");
  AddGid(&port, 1, "fe80::1", GidType::kRoceV2, "eth1");
  AddGid(&port, 2, "fd00::1", GidType::kRoceV1, "eth1");
  AddGid(&port, 3, "fd00::1", GidType::kRoceV2, "eth1");
  AddGid(&port, 4, "10.0.0.1", GidType::kRoceV1, "eth1");
  AddGid(&port, 5, "10.0.0.1", GidType::kRoceV2, "eth1");
  return port;
}

uint32_t ChosenIndex(const Port& port, const std::string& preference) {
  const auto chosen = ChooseGid(port, Prefer(preference));
  EXPECT_TRUE(chosen.ok()) << chosen.status().ToString();
  return chosen.ok() ? chosen->gid.index : UINT32_MAX;
}

std::string Refusal(const Port& port, const std::string& preference = "auto") {
  const auto chosen = ChooseGid(port, Prefer(preference));
  EXPECT_FALSE(chosen.ok()) << (chosen.ok() ? FormatGid(chosen->gid) : "");
  return chosen.status().message();
}

TEST(ChooseGidTest, PrefersIpv4ThenGlobalIpv6ThenLinkLocal) {
  Port port = FullPort();
  EXPECT_EQ(ChosenIndex(port, "auto"), 5u);
  port.gids.resize(4);
  EXPECT_EQ(ChosenIndex(port, "auto"), 3u);
  port.gids.resize(2);
  EXPECT_EQ(ChosenIndex(port, "auto"), 1u);
}

TEST(ChooseGidTest, SaysWhy) {
  const auto chosen = ChooseGid(FullPort(), Prefer("auto"));
  ASSERT_TRUE(chosen.ok());
  EXPECT_EQ(chosen->why, "RoCEv2, IPv4 address of eth1, best of 3");
}

TEST(ChooseGidTest, HonoursAFamilyAnAddressAndASubnet) {
  const Port port = FullPort();
  EXPECT_EQ(ChosenIndex(port, "ipv6"), 3u);
  EXPECT_EQ(ChosenIndex(port, "ipv4"), 5u);
  EXPECT_EQ(ChosenIndex(port, "fe80::1"), 1u);
  EXPECT_EQ(ChosenIndex(port, "fd00::/16"), 3u);
  EXPECT_EQ(ChosenIndex(port, "10.0.0.0/30"), 5u);
  EXPECT_THAT(Refusal(port, "10.0.0.4/30"),
              AllOf(HasSubstr("10.0.0.4/30"), HasSubstr("10.0.0.1"), HasSubstr("fd00::1")));
}

TEST(ChooseGidTest, OneOfSeveralVlansIsFoundByItsSubnet) {
  Port port = FullPort();
  AddInterface(&port, "eth1.7", {"10.7.0.1"});
  AddGid(&port, 6, "10.7.0.1", GidType::kRoceV2, "eth1.7");
  EXPECT_EQ(ChosenIndex(port, "auto"), 5u) << "the first of equals";
  EXPECT_EQ(ChosenIndex(port, "10.7.0.0/16"), 6u);
}

// Sysfs shows the names of interfaces in other network namespaces, too: other pods have a net1.
TEST(ChooseGidTest, AGidOfAnotherPodsInterfaceOfTheSameNameIsNotOurs) {
  Port port = RocePort();
  AddInterface(&port, "net1", {"192.168.5.2"});
  AddGid(&port, 2, "192.168.5.1", GidType::kRoceV2, "net1");
  AddGid(&port, 3, "192.168.5.2", GidType::kRoceV2, "net1");
  EXPECT_EQ(ChosenIndex(port, "auto"), 3u);
  EXPECT_FALSE(ChooseGid(port, Prefer("192.168.5.1")).ok());
}

TEST(ChooseGidTest, RefusalsNameWhatThereIsAndWhatToDo) {
  Port port = RocePort();
  AddInterface(&port, "eth1", {});
  EXPECT_EQ(Refusal(port), "mlx5_0 port 1: no GIDs: bring eth1 up and give it an IP address");
  AddGid(&port, 0, "fe80::1", GidType::kRoceV1, "eth1");
  EXPECT_THAT(Refusal(port), AllOf(HasSubstr("no RoCEv2 GID, only 0 (fe80::1, RoCEv1, eth1)"),
                                   HasSubstr("enable RoCEv2")));
  AddGid(&port, 1, "fe80::1", GidType::kRoceV2, "eth1");
  EXPECT_THAT(Refusal(port), AllOf(HasSubstr("no RoCEv2 GID belongs to an address of eth1"),
                                   HasSubstr("give the interface an IP address")));
  port.interfaces.clear();
  EXPECT_THAT(Refusal(port), AllOf(HasSubstr("belong to eth1"), HasSubstr("network namespace")));
}

TEST(ChooseGidTest, InfiniBandNeedsALid) {
  Port port = RocePort();
  port.link_layer = LinkLayer::kInfiniBand;
  AddGid(&port, 0, "fe80::2", GidType::kInfiniBand, "");
  AddGid(&port, 1, "fec0::2", GidType::kInfiniBand, "");
  EXPECT_THAT(Refusal(port), HasSubstr("opensm"));
  port.lid = 31;
  EXPECT_EQ(ChosenIndex(port, "auto"), 0u);
  EXPECT_EQ(ChosenIndex(port, "ipv4"), 0u) << "a family is of IP";
  EXPECT_EQ(ChosenIndex(port, "fec0::2"), 1u);
  EXPECT_EQ(ChooseGid(port, {})->why, "InfiniBand, by LID 31");
}

TEST(ChooseGidTest, PreferencesThatCannotBeReadAreRefused) {
  for (const char* text : {"3", "IPv4", "10.0.0", "10.0.0.1/33", "10.0.0.1/0", "10.0.0.1/",
                           "fe80::1/129", "10.0.0.1/8x", "/8"}) {
    const auto preference = ParseGidPreference(text);
    ASSERT_FALSE(preference.ok()) << text;
    EXPECT_THAT(preference.status().message(), HasSubstr(std::string("\"") + text + "\""));
  }
}

TEST(CheckUsableTest, NeedsADeviceThatOpensAPortThatIsUpAndQueuePairs) {
  Device device;
  device.name = "mlx5_0";
  device.transport = Transport::kInfiniBand;
  device.opens = {};
  Port port = FullPort();
  EXPECT_TRUE(CheckUsable(device, port, {}).ok());

  port.state = PortState::kDown;
  port.state_text = "DOWN";
  port.physical_state = "Disabled";
  EXPECT_EQ(CheckUsable(device, port, {}).status().message(),
            "mlx5_0 port 1: the port is DOWN (Disabled): check the cable and set eth1 up");
  port.state = PortState::kActive;
  device.opens = Unavailable("mlx5_0: opening /dev/infiniband/uverbs0: Permission denied");
  EXPECT_EQ(CheckUsable(device, port, {}).status().message(), device.opens.message());
  device.transport = Transport::kIwarp;
  EXPECT_THAT(CheckUsable(device, port, {}).status().message(), HasSubstr("iWARP"));
}

TEST(ChooseGidTest, KeepsWhatItHasUntilThereIsABetterOne) {
  Port port = RocePort();
  AddInterface(&port, "eth1", {"10.0.0.1", "10.0.0.2", "fd00::1"});
  AddGid(&port, 1, "10.0.0.2", GidType::kRoceV2, "eth1");
  AddGid(&port, 3, "fd00::1", GidType::kRoceV2, "eth1");
  AddGid(&port, 5, "10.0.0.1", GidType::kRoceV2, "eth1");
  const auto next = [&](const char* present) {
    const Address address = Ip(present);
    return ChooseGid(port, {}, &address)->gid.index;
  };
  EXPECT_EQ(next("10.0.0.1"), 5u);
  EXPECT_EQ(next("10.0.0.2"), 1u);
  EXPECT_EQ(next("fd00::1"), 1u) << "IPv4 is better";
  EXPECT_EQ(next("10.0.0.9"), 1u) << "it is gone";
}

}  // namespace
}  // namespace peercache::rdma
