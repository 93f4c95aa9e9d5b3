#include "transport/rdma/find_rails.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/rdma/sysfs_testing.h"

namespace peercache::rdma {
namespace {

using peercache::testing::FakeSysfs;
using peercache::testing::Ip;
using ::testing::HasSubstr;

// Two NICs of one port each; the second's is in `state`.
class FindRailsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string a = sysfs_.AddPci("0000:3b:00.0", 0), b = sysfs_.AddPci("0000:b1:00.0", 1);
    Add("mlx5_0", a, "eth0", "10.0.0.1", "4: ACTIVE");
    Add("mlx5_1", b, "eth1", "10.0.1.1", "1: DOWN");
    devices_ = sysfs_.Read();
  }
  void Add(const std::string& name, const std::string& pci, const std::string& interface,
           const std::string& address, const std::string& state) {
    sysfs_.AddInterface(interface, 9000, pci, {Ip(address)});
    sysfs_.AddGid(sysfs_.AddPort(sysfs_.AddDevice(name, pci), 1, "Ethernet", state), 3, address,
                  "RoCE v2", interface);
    sysfs_.probes[name] = {};
  }
  Result<std::vector<RailSpec>> Rails(const std::string& list) {
    const auto specs = ParseDeviceList(list);
    const auto selection = SelectPorts(devices_, *specs, *ParseGidPreference("ipv4"));
    if (!selection.ok()) return selection.status();
    return RailsOf(*selection, *ParseGidPreference("ipv4"));
  }

  FakeSysfs sysfs_;
  std::vector<Device> devices_;
};

TEST_F(FindRailsTest, APortThatIsDownIsARailThatWaits) {
  const auto rails = Rails("mlx5_0,mlx5_1");
  ASSERT_TRUE(rails.ok()) << rails.status().ToString();
  ASSERT_EQ(rails->size(), 2u);
  EXPECT_EQ((*rails)[0].name, "mlx5_0:1");
  EXPECT_EQ((*rails)[0].gid.family, GidPreference::Family::kIpv4);
  EXPECT_EQ((*rails)[0].numa_node, 0);
  EXPECT_TRUE((*rails)[0].usable.ok());
  EXPECT_EQ((*rails)[1].name, "mlx5_1:1");
  EXPECT_EQ((*rails)[1].numa_node, 1);
  EXPECT_THAT((*rails)[1].usable.message(), HasSubstr("DOWN"));
  EXPECT_TRUE(AnyUsable(*rails).ok());
}

TEST(QueuesForTest, AsManyAsFillThePort) {
  const auto queues = [](double gbps, const std::string& device, uint32_t bond_members) {
    Port port;
    port.gbps = gbps;
    port.device = device;
    port.interfaces.resize(1);
    port.interfaces[0].bond_members = bond_members;
    return QueuesFor(port);
  };
  EXPECT_EQ(queues(0, "mlx5_0", 0), 1u) << "a rate that is not known";
  EXPECT_EQ(queues(200, "mlx5_0", 0), 1u);
  EXPECT_EQ(queues(400, "mlx5_0", 0), 2u);
  EXPECT_EQ(queues(800, "mlx5_0", 0), 4u);
  EXPECT_EQ(queues(200, "mlx5_0", 2), 2u);
  EXPECT_EQ(queues(800, "mlx5_0", 2), 4u);
  EXPECT_EQ(queues(25, "rocep1s0", 16), 4u);
  EXPECT_EQ(queues(100, "mlx5_bond_0", 0), 2u) << "a bond that this network namespace does not see";
}

TEST_F(FindRailsTest, WhereAllHaveToWaitItSaysForWhat) {
  const auto rails = Rails("mlx5_1");
  ASSERT_TRUE(rails.ok()) << rails.status().ToString();
  EXPECT_THAT(AnyUsable(*rails).message(), HasSubstr("set eth1 up"));
}

TEST_F(FindRailsTest, ADeviceThatDoesNotOpenIsNoRail) {
  sysfs_.probes.erase("mlx5_1");
  devices_ = sysfs_.Read();
  const auto rails = Rails("mlx5_0,mlx5_1");
  ASSERT_TRUE(rails.ok()) << rails.status().ToString();
  ASSERT_EQ(rails->size(), 1u);
  const auto none = Rails("mlx5_1");
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.status().message(), HasSubstr("Permission denied"));
}

}  // namespace
}  // namespace peercache::rdma
