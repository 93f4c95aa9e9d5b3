#include "transport/rdma/mtu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace peercache::rdma {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::optional<MtuFinding> Check(uint32_t active, uint32_t interface_mtu, uint32_t max = 4096,
                                LinkLayer layer = LinkLayer::kEthernet, bool physical = true) {
  Port port;
  port.device = "mlx5_0";
  port.link_layer = layer;
  port.active_mtu = active;
  port.max_mtu = max;
  Interface interface;
  interface.name = "eth1";
  interface.mtu = interface_mtu;
  interface.physical = physical;
  return CheckMtu(port, interface);
}

TEST(MtuTest, JumboFramesCarryFullPackets) {
  EXPECT_FALSE(Check(4096, 9000));
  EXPECT_FALSE(Check(4096, 4200));
  EXPECT_FALSE(Check(4096, 4192));
}

TEST(MtuTest, PacketsThatDoNotFitAreAFault) {
  const auto finding = Check(4096, 1500);
  ASSERT_TRUE(finding);
  EXPECT_TRUE(finding->fault);
  EXPECT_THAT(finding->text, AllOf(HasSubstr("packets of 4096 bytes do not fit eth1's MTU of 1500"),
                                   HasSubstr("9000")));
  // A macvlan's own MTU does not bind the device below it.
  const auto pod = Check(4096, 1500, 4096, LinkLayer::kEthernet, false);
  ASSERT_TRUE(pod);
  EXPECT_FALSE(pod->fault);
}

TEST(MtuTest, ASmallInterfaceMtuCostsBandwidth) {
  const auto finding = Check(1024, 1500);
  ASSERT_TRUE(finding);
  EXPECT_FALSE(finding->fault);
  EXPECT_THAT(finding->text, AllOf(HasSubstr("MTU of 1500 limits RDMA packets to 1024 of 4096"),
                                   HasSubstr("9000 (at least 4192)")));
}

TEST(MtuTest, ADeviceThatMissedAChangeIsTold) {
  const auto finding = Check(1024, 9000);
  ASSERT_TRUE(finding);
  EXPECT_FALSE(finding->fault);
  EXPECT_THAT(finding->text, HasSubstr("RDMA MTU 1024 although eth1's MTU of 9000 allows 4096"));
}

TEST(MtuTest, NothingToSayAtTheDevicesOwnLimitOrWithoutKnowledge) {
  EXPECT_FALSE(Check(2048, 9000, 2048));
  EXPECT_FALSE(Check(0, 1500));
  EXPECT_FALSE(Check(4096, 0));
  EXPECT_FALSE(Check(2048, 1500, 4096, LinkLayer::kInfiniBand));
}

}  // namespace
}  // namespace peercache::rdma
