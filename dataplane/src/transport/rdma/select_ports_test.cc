#include "transport/rdma/select_ports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/rdma/sysfs_testing.h"

namespace peercache::rdma {
namespace {

using peercache::testing::FakeSysfs;
using peercache::testing::Ip;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// mlx5_0 with one port that is up, mlx5_1 with one that is down and one that is up, and soft-RoCE.
class SelectPortsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string a = sysfs_.AddPci("0000:3b:00.0", 0), b = sysfs_.AddPci("0000:b1:00.0", 1);
    Add(sysfs_.AddDevice("mlx5_0", a), 1, a, "eth0", "10.0.0.1", "4: ACTIVE");
    const std::string second = sysfs_.AddDevice("mlx5_1", b);
    Add(second, 1, b, "eth1", "10.0.1.1", "1: DOWN");
    Add(second, 2, b, "eth2", "10.0.2.1", "4: ACTIVE");
    Add(sysfs_.AddDevice("rxe0", ""), 1, "", "eth3", "10.0.3.1", "4: ACTIVE");
    for (const char* name : {"mlx5_0", "mlx5_1", "rxe0"}) sysfs_.probes[name] = {};
    devices_ = sysfs_.Read();
  }
  void Add(const std::string& device, int number, const std::string& below,
           const std::string& interface, const std::string& address, const std::string& state) {
    sysfs_.AddInterface(interface, 9000, below, {Ip(address)});
    sysfs_.AddGid(sysfs_.AddPort(device, number, "Ethernet", state), 3, address, "RoCE v2",
                  interface);
  }
  Result<Selection> Select(const std::string& list) {
    const auto specs = ParseDeviceList(list);
    if (!specs.ok()) return specs.status();
    return SelectPorts(devices_, *specs, {});
  }
  std::vector<std::string> Names(const std::string& list) {
    const auto selection = Select(list);
    EXPECT_TRUE(selection.ok()) << selection.status().ToString();
    std::vector<std::string> names;
    if (selection.ok())
      for (const SelectedPort& p : selection->ports) names.push_back(p.port->Name());
    return names;
  }
  std::string Refusal(const std::string& list) { return Select(list).status().message(); }

  FakeSysfs sysfs_;
  std::vector<Device> devices_;
};

TEST_F(SelectPortsTest, WithoutAListAllThatAreUsableButSoftware) {
  EXPECT_THAT(Names(""), ElementsAre("mlx5_0 port 1", "mlx5_1 port 2"));
  EXPECT_THAT(Select("")->left_out,
              ElementsAre(HasSubstr("mlx5_1 port 1: the port is DOWN"),
                          AllOf(HasSubstr("rxe0"), HasSubstr("slower than TCP"))));
}

TEST_F(SelectPortsTest, AListIsTakenInItsOrder) {
  EXPECT_THAT(Names("rxe0,mlx5_1:2,mlx5_0"),
              ElementsAre("rxe0 port 1", "mlx5_1 port 2", "mlx5_0 port 1"));
}

TEST_F(SelectPortsTest, ADeviceWithoutAPortMeansThoseThatAreUsable) {
  EXPECT_THAT(Names("mlx5_1"), ElementsAre("mlx5_1 port 2"));
  EXPECT_THAT(Select("mlx5_1")->left_out, ElementsAre(HasSubstr("mlx5_1 port 1")));
}

// It may come back, and then the rail works.
TEST_F(SelectPortsTest, APortThatIsDownIsTakenWhenItIsAskedFor) {
  const auto selection = Select("mlx5_1:1");
  ASSERT_TRUE(selection.ok());
  ASSERT_EQ(selection->ports.size(), 1u);
  EXPECT_THAT(selection->ports[0].usable.status().message(), HasSubstr("DOWN"));
}

TEST_F(SelectPortsTest, WhatDoesNotExistIsRefusedWithWhatDoes) {
  EXPECT_EQ(Refusal("mlx5_7"), "no RDMA device mlx5_7; there are mlx5_0, mlx5_1, rxe0");
  EXPECT_EQ(Refusal("mlx5_1:3"), "mlx5_1 has no port 3; it has 2");
  EXPECT_EQ(Refusal("mlx5_0,mlx5_0:1"), "mlx5_0 port 1 is listed twice; remove one");
  devices_.clear();
  EXPECT_THAT(Refusal("mlx5_0"), HasSubstr("there is none: check that its driver is loaded"));
}

TEST_F(SelectPortsTest, NothingUsableSaysWhyOfEach) {
  devices_.erase(devices_.begin());
  devices_[0].ports.pop_back();
  const auto selection = Select("");
  EXPECT_EQ(selection.status().code(), Code::kUnavailable);
  EXPECT_THAT(Refusal(""), AllOf(HasSubstr("mlx5_1 port 1"), HasSubstr("rxe0")));
  devices_.clear();
  EXPECT_THAT(Refusal(""), HasSubstr("no RDMA device"));
}

TEST(ParseDeviceListTest, RefusesWhatIsNoDevice) {
  for (const char* text : {",", "mlx5_0,", "mlx5_0,,mlx5_1", "mlx5_0:", "mlx5_0:0", "mlx5_0:255",
                           "mlx5_0:1x", "../etc", " mlx5_0", ":1"}) {
    const auto list = ParseDeviceList(text);
    ASSERT_FALSE(list.ok()) << text;
    EXPECT_THAT(list.status().message(), HasSubstr("mlx5_0,mlx5_1:2")) << text;
  }
  const auto none = ParseDeviceList("");
  ASSERT_TRUE(none.ok());
  EXPECT_THAT(*none, IsEmpty());
}

}  // namespace
}  // namespace peercache::rdma
