#include "node/mapped/readable_pool.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/temp_dir_testing.h"

namespace peercache {
namespace {

using ::testing::ExitedWithCode;
using ::testing::HasSubstr;
using testing::TempDir;

constexpr size_t kSize = 1 << 20;

// A pool's file on a tmpfs, and its folder on a read-only mount besides. Mounts are a process's
// own, so each test is one.
class ReadableFileDeathTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(geteuid(), 0u) << "only root can mount: run this test as root";
    GTEST_FLAG_SET(death_test_style, "fast");
  }
  void Mount() {
    Must(unshare(CLONE_NEWNS) == 0);
    Must(mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0);
    Must(mount(memory_.path().c_str(), view_.path().c_str(), nullptr, MS_BIND, nullptr) == 0);
    Must(mount(nullptr, view_.path().c_str(), nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) ==
         0);
    UniqueFd fd(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    Must(fd && ftruncate(fd.get(), kSize) == 0);
    auto pool = MappedRegion::Map(std::move(fd), kSize, MapAccess::kReadWrite);
    Must(pool.ok());
    pool_ = std::move(*pool);
  }
  static void Must(bool done) {
    if (!done) {
      std::perror("setting up");
      _exit(1);
    }
  }
  std::string Error(const std::string& view) {
    const auto fd = ReadableFile(pool_, path_, view);
    return fd.ok() ? "no error" : fd.status().message();
  }

  TempDir memory_{"/dev/shm"}, view_;
  const std::string path_ = memory_.path() + "/default.pool";
  MappedRegion pool_;
};

TEST_F(ReadableFileDeathTest, IsReadAndWrittenByNobody) {
  EXPECT_EXIT(
      {
        Mount();
        const auto fd = ReadableFile(pool_, path_, view_.path());
        EXPECT_TRUE(fd.ok()) << fd.status().ToString();
        const int readable = fd->get();
        const std::string again = "/proc/self/fd/" + std::to_string(readable);
        pool_.data()[5] = std::byte{'x'};
        void* const seen = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, readable, 0);
        EXPECT_EQ(static_cast<char*>(seen)[5], 'x');
        EXPECT_NE(mprotect(seen, 4096, PROT_READ | PROT_WRITE), 0);
        EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, readable, 0), MAP_FAILED);
        EXPECT_LT(pwrite(readable, "y", 1, 0), 0);
        EXPECT_NE(ftruncate(readable, 0), 0);
        EXPECT_NE(fchmod(readable, 0666), 0);
        EXPECT_LT(open(again.c_str(), O_RDWR), 0);
        EXPECT_NE(truncate(again.c_str(), 0), 0);
        EXPECT_NE(linkat(AT_FDCWD, again.c_str(), AT_FDCWD, (memory_.path() + "/mine").c_str(),
                         AT_SYMLINK_FOLLOW),
                  0);
        const auto named = ReadableFile(pool_, path_, view_.path() + "/default.pool");
        EXPECT_TRUE(named.ok()) << named.status().ToString();
        _exit(HasFailure() ? 1 : 0);
      },
      ExitedWithCode(0), "");
}

TEST_F(ReadableFileDeathTest, RefusesWhatCouldBeWrittenToOrIsAnother) {
  EXPECT_EXIT(
      {
        Mount();
        EXPECT_THAT(
            Error(memory_.path()),
            HasSubstr("is on a mount that can be written to; mount the folder of " + path_));
        EXPECT_THAT(Error(path_), HasSubstr("pool-file-view: " + path_ + " is on a mount"));
        Must(close(open((memory_.path() + "/other").c_str(), O_CREAT | O_RDWR, 0600)) == 0);
        EXPECT_THAT(Error(view_.path() + "/other"), HasSubstr("is another file"));
        Must(symlink("default.pool", (memory_.path() + "/link").c_str()) == 0);
        EXPECT_THAT(Error(view_.path() + "/link"), HasSubstr("cannot be opened: Too many levels"));
        EXPECT_THAT(Error("/nowhere"), HasSubstr("/nowhere cannot be opened: No such file"));
        _exit(HasFailure() ? 1 : 0);
      },
      ExitedWithCode(0), "");
}

}  // namespace
}  // namespace peercache
