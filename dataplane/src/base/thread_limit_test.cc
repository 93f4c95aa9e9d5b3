#include "base/thread_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/temp_dir_testing.h"

namespace peercache {
namespace {

using ::testing::HasSubstr;

// A /proc and a /sys/fs/cgroup of the test's own.
class ThreadLimitTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = dir_.path() + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  ThreadLimit Read() { return ReadThreadLimit(dir_.path() + "/proc", dir_.path() + "/cgroup"); }
  // Of a process of that user, with these capabilities, that has four threads.
  void WriteProcess(const std::string& user, const std::string& capabilities) {
    Write("proc/self/status",
          "Name:\tnode\nUid:\t" + user + "\t0\t0\t0\nThreads:\t4\nCapEff:\t" + capabilities + "\n");
    Write("proc/self/limits",
          "Limit                     Soft Limit           Hard Limit           Units     \n"
          "Max processes             100                  200                  processes \n");
  }
  testing::TempDir dir_;
};

TEST_F(ThreadLimitTest, NothingReadableIsNoLimit) {
  EXPECT_EQ(Read().free, UINT64_MAX);
  EXPECT_TRUE(CheckThreads(1'000'000, Read()).ok());
}

TEST_F(ThreadLimitTest, IsTheLeastThatAnAncestorLeaves) {
  Write("proc/self/cgroup", "0::/pods/pod1/main\n");
  Write("cgroup/pods/pod1/main/pids.max", "max\n");
  Write("cgroup/pods/pod1/main/pids.current", "7\n");
  Write("cgroup/pods/pod1/pids.max", "1000\n");
  Write("cgroup/pods/pod1/pids.current", "300\n");
  Write("cgroup/pods/pids.max", "5000\n");
  Write("cgroup/pods/pids.current", "4000\n");
  EXPECT_EQ(Read().free, 700u);
  EXPECT_THAT(Read().source, HasSubstr("/pods/pod1/"));
}

TEST_F(ThreadLimitTest, OfAContainerIsAtTheRootOfItsNamespace) {
  Write("proc/self/cgroup", "0::/\n");
  Write("cgroup/pids.max", "33\n");
  Write("cgroup/pids.current", "13\n");
  EXPECT_EQ(Read().free, 20u);
  const Status refused = CheckThreads(21, Read());
  EXPECT_EQ(refused.code(), Code::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("pids.max"));
  EXPECT_TRUE(CheckThreads(20, Read()).ok());
}

TEST_F(ThreadLimitTest, KnowsVersion1WhereverItIsMounted) {
  Write("proc/self/cgroup", "9:memory:/x\n8:cpu,pids:/docker/x\n");
  Write("cgroup/pids/pids.max", "50\n");
  Write("cgroup/pids/pids.current", "60\n");
  EXPECT_EQ(Read().free, 0u);
  Write("cgroup/pids/pids.max", "max\n");
  EXPECT_EQ(Read().free, UINT64_MAX);
  Write("cgroup/pids/docker/x/pids.max", "50\n");
  Write("cgroup/pids/docker/x/pids.current", "20\n");
  EXPECT_EQ(Read().free, 30u);
}

TEST_F(ThreadLimitTest, OfAUserBindsWhoIsNotPrivileged) {
  WriteProcess("1000", "0000000000000000");
  EXPECT_EQ(Read().free, 96u);
  EXPECT_THAT(Read().source, HasSubstr("ulimit -u"));
  WriteProcess("1000", "0000000001000000");
  EXPECT_EQ(Read().free, UINT64_MAX);
  WriteProcess("0", "0000000000000000");
  EXPECT_EQ(Read().free, UINT64_MAX);
}

TEST_F(ThreadLimitTest, OfThisProcessIsSome) { EXPECT_GT(ReadThreadLimit().free, 0u); }

}  // namespace
}  // namespace peercache
