// Rails over the fake device.
#pragma once

#include <memory>
#include <vector>

#include "transport/rdma/fabric_testing.h"
#include "transport/rdma/fake/fake_verbs.h"

namespace peercache::rdma {

inline std::unique_ptr<Rails> FakeRails(size_t count, LinkOptions options = {}) {
  std::vector<RailSpec> specs(count);
  for (size_t i = 0; i < count; ++i) {
    specs[i].name = "fake0:" + std::to_string(i + 1);
    specs[i].device = "fake0";
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
