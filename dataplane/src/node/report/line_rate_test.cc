#include "node/report/line_rate.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/temp_dir_testing.h"

namespace peercache {
namespace {

TEST(LineRate, IsWhatTheKernelHasForThePort) {
  testing::TempDir dir;
  const std::string port = "class/infiniband/mlx5_0/ports/1";
  std::filesystem::create_directories(dir.path() + "/" + port);
  dir.Write(port + "/rate", "400 Gb/sec (4X NDR)\n");
  EXPECT_EQ(LineRate("mlx5_0:1", dir.path()), 50e9);
  EXPECT_EQ(LineRate("mlx5_0:2", dir.path()), 0) << "no such port";
  EXPECT_EQ(LineRate("mlx5_0", dir.path()), 0) << "a rail without a port";
  dir.Write(port + "/rate", "unknown\n");
  EXPECT_EQ(LineRate("mlx5_0:1", dir.path()), 0);
}

}  // namespace
}  // namespace peercache
