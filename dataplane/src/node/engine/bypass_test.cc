#include "node/engine/bypass.h"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/patience_testing.h"
#include "base/temp_dir_testing.h"

namespace peercache {
namespace {

using testing::Eventually;

TEST(BypassTest, FollowsTheFirstLineOfItsFile) {
  spdlog::default_logger();  // made by this thread: TSan does not see how spdlog does that
  EXPECT_FALSE(Bypass("").on());
  const testing::TempDir folder;
  const std::string path = folder.path() + "/bypass";
  const auto write = [&](const char* text) { std::ofstream(path) << text; };
  Bypass bypass(path, milliseconds(5));
  EXPECT_FALSE(bypass.on()) << "there is no file";
  write("on\n");
  EXPECT_TRUE(Eventually([&] { return bypass.on(); }));
  write("off");
  EXPECT_TRUE(Eventually([&] { return !bypass.on(); }));
  write("on");
  EXPECT_TRUE(Eventually([&] { return bypass.on(); }));
  std::filesystem::remove(path);
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_TRUE(bypass.on()) << "a file that is away changes nothing";
  write("");
  EXPECT_TRUE(Eventually([&] { return !bypass.on(); }));
  write("on\nand more");
  EXPECT_TRUE(Bypass(path).on()) << "from the start";
}

}  // namespace
}  // namespace peercache
