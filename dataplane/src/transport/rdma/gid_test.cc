#include "transport/rdma/gid.h"

#include <gtest/gtest.h>

namespace peercache::rdma {
namespace {

TEST(GidTest, AddressesOfBothFamiliesHaveOneForm) {
  const auto ipv4 = ParseAddress("10.1.2.3");
  ASSERT_TRUE(ipv4.ok());
  EXPECT_TRUE(IsIpv4(*ipv4));
  EXPECT_EQ(FormatAddress(*ipv4), "10.1.2.3");
  // As the kernel writes it in a table of GIDs.
  EXPECT_EQ(*ParseAddress("0000:0000:0000:0000:0000:ffff:0a01:0203"), *ipv4);

  const auto ipv6 = ParseAddress("fe80:0000:0000:0000:506b:4b03:00c1:2a3c");
  ASSERT_TRUE(ipv6.ok());
  EXPECT_FALSE(IsIpv4(*ipv6));
  EXPECT_TRUE(IsLinkLocal(*ipv6));
  EXPECT_EQ(FormatAddress(*ipv6), "fe80::506b:4b03:c1:2a3c");
  EXPECT_FALSE(IsLinkLocal(*ParseAddress("fd00::1")));
  EXPECT_FALSE(IsLinkLocal(*ParseAddress("fec0::1")));
}

TEST(GidTest, OtherTextIsNoAddress) {
  for (const char* text : {"", "10.1.2", "eth1", "10.1.2.3 ", "::g"})
    EXPECT_FALSE(ParseAddress(text).ok()) << text;
}

}  // namespace
}  // namespace peercache::rdma
