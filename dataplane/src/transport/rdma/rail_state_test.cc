#include "transport/rdma/rail_state.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "transport/rdma/sysfs_testing.h"

namespace peercache::rdma {
namespace {

using peercache::testing::Ip;

RailLook Has(const std::string& ip, uint32_t index) {
  RailAddress address;
  address.gid = {index, Ip(ip), GidType::kRoceV2, "eth0"};
  address.ethernet = true;
  return {std::move(address)};
}
RailLook Lacks(WaitsFor what, const std::string& why) { return {Unavailable(why), what}; }

TEST(RailStateTest, WaitsUntilItsPortIsUp) {
  RailState state("mlx5_0:1");
  EXPECT_FALSE(state.up());
  state.See(Lacks(WaitsFor::kPort, "check the cable"));
  EXPECT_FALSE(state.up());
  EXPECT_EQ(state.epoch(), 0u);
  EXPECT_EQ(state.waits().what, WaitsFor::kPort);
  EXPECT_EQ(state.waits().why, "check the cable");
  state.See(Lacks(WaitsFor::kAddress, "give it an address"));
  EXPECT_EQ(state.waits().what, WaitsFor::kAddress);
  state.See(Has("10.0.0.1", 3));
  EXPECT_TRUE(state.up());
  EXPECT_EQ(state.waits().what, WaitsFor::kNothing);
  EXPECT_EQ(state.waits().why, "");
  EXPECT_EQ(state.address().gid.index, 3u);
  EXPECT_EQ(state.downs(), 0u) << "it was never up before";
  EXPECT_EQ(state.address_changes(), 0u);
}

TEST(RailStateTest, WhatWasConnectedIsOfUseWhileTheAddressStays) {
  RailState state("mlx5_0:1");
  state.See(Has("10.0.0.1", 3));
  const uint32_t first = state.address().epoch;
  EXPECT_EQ(first, state.epoch());
  state.See(Lacks(WaitsFor::kPort, "check the cable"));
  EXPECT_EQ(state.downs(), 1u);
  state.See(Has("10.0.0.1", 3));
  EXPECT_EQ(state.epoch(), first) << "the port was down for a moment";
  RailLook larger = Has("10.0.0.1", 3);
  larger.address->mtu = 5;
  state.See(std::move(larger));
  EXPECT_EQ(state.epoch(), first) << "an MTU is not an address";
  EXPECT_EQ(state.address().mtu, 5);

  state.See(Has("10.0.0.2", 4));
  const uint32_t second = state.epoch();
  EXPECT_NE(second, first);
  EXPECT_EQ(state.address().gid.address, Ip("10.0.0.2"));
  state.See(Has("10.0.0.2", 5));
  EXPECT_NE(state.epoch(), second) << "queue pairs name the index";
  EXPECT_EQ(state.address_changes(), 2u);
  EXPECT_EQ(state.downs(), 1u);
}

TEST(RailStateTest, AnAddressIsSeenWholeWithItsEpoch) {
  RailState state("mlx5_0:1");
  std::atomic<bool> stop{false};
  std::thread sees([&] {
    for (uint32_t i = 1; i <= 2000; ++i) {
      state.See(Has("10.0.0." + std::to_string(i % 100 + 1), i));
      if (i % 7 == 0) state.See(Lacks(WaitsFor::kPort, "check the cable"));
    }
    stop = true;
  });
  while (!stop) {
    const bool up = state.up();
    const RailAddress address = state.address();
    if (up) {
      ASSERT_GT(address.epoch, 0u);
    }
    if (address.epoch == 0) continue;
    ASSERT_EQ(address.gid.index, address.epoch);
    ASSERT_EQ(address.gid.address[15], address.epoch % 100 + 1);
    ASSERT_GE(state.epoch(), address.epoch);
  }
  sees.join();
}

}  // namespace
}  // namespace peercache::rdma
