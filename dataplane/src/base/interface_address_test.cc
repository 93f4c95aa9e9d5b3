#include "base/interface_address.h"

#include <gtest/gtest.h>

#include <vector>

namespace peercache {
namespace {

std::string Told(const std::vector<std::string>& addresses) { return AddressForOthers(addresses); }

TEST(InterfaceAddressTest, OthersAreToldOneThatTheyCanReach) {
  EXPECT_EQ(Told({"fe80::1", "fd00::7", "192.168.10.7", "192.168.10.8"}), "192.168.10.7");
  EXPECT_EQ(Told({"169.254.3.4", "fe80::1", "fd00::7", "fd00::8"}), "fd00::7");
  EXPECT_EQ(Told({"169.254.3.4", "fe80::1"}), "");
  EXPECT_EQ(Told({}), "");
}

TEST(InterfaceAddressTest, AnAddressIsNoInterface) {
  for (const char* address : {"10.0.0.1", "fd00::1", "::"}) EXPECT_TRUE(IsAddress(address));
  for (const char* name : {"rail0", "eth0.100", "lo", "10.0.0", ""}) EXPECT_FALSE(IsAddress(name));
}

TEST(InterfaceAddressTest, AnInterfaceIsKnownByItsName) {
  const auto loopback = InterfaceAddress("lo");
  ASSERT_TRUE(loopback.ok()) << loopback.status().ToString();
  EXPECT_EQ(*loopback, "127.0.0.1");
}

TEST(InterfaceAddressTest, OneThatDoesNotExistIsAnErrorThatNamesThoseThatDo) {
  const auto none = InterfaceAddress("rail7");
  ASSERT_EQ(none.status().code(), Code::kInvalidArgument);
  const std::string& message = none.status().message();
  EXPECT_NE(message.find("no interface \"rail7\""), std::string::npos) << message;
  EXPECT_NE(message.find("lo"), std::string::npos) << message;
}

}  // namespace
}  // namespace peercache
