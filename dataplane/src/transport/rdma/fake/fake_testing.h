// Rails over the fake device.
#pragma once

#include <memory>
#include <vector>

#include "transport/rdma/fabric_testing.h"
#include "transport/rdma/fake/fake_verbs.h"

namespace peercache::rdma {

// `first`: the port of the first one; in a FakeNetwork those of different hosts have different
// ones.
inline std::unique_ptr<Rails> FakeRails(size_t count, LinkOptions options = {}, size_t first = 1) {
  std::vector<RailSpec> specs(count);
  for (size_t i = 0; i < count; ++i) {
    specs[i].name = "fake0:" + std::to_string(first + i);
    specs[i].device = "fake0";
    specs[i].port = static_cast<uint8_t>(first + i);
  }
  auto rails = Rails::Open(specs, options);
  EXPECT_TRUE(rails.ok()) << rails.status().ToString();
  // No folder of sysfs tells of its port.
  RailAddress address;
  address.ethernet = true;
  address.mtu = IBV_MTU_4096;
  for (const auto& rail : (*rails)->all()) RailTesting::See(rail.get(), address);
  return std::move(*rails);
}

}  // namespace peercache::rdma
