#include "base/memory_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "base/temp_dir_testing.h"

namespace peercache {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TempDir;

constexpr size_t kSize = size_t{1} << 20;

class MemoryFileTest : public ::testing::Test {
 protected:
  Result<MemoryFile> Open(const std::string& path) {
    return MemoryFile::Open("pool-file", path, "a.pool", milliseconds(0));
  }
  std::string ErrorOf(const std::string& path) {
    const auto file = Open(path);
    return file.ok() ? "none" : file.status().message();
  }
  TempDir memory_{"/dev/shm"};
};

TEST_F(MemoryFileTest, KeepsItsBytesForTheNextOne) {
  {
    auto file = Open(memory_.path());
    ASSERT_TRUE(file.ok()) << file.status().ToString();
    EXPECT_EQ(file->path(), memory_.path() + "/a.pool");
    EXPECT_EQ(file->size(), 0u);
    ASSERT_TRUE(file->Renew(kSize).ok());
    auto region = file->Map(0, kSize, -1);
    ASSERT_TRUE(region.ok());
    std::memset(region->data(), 7, kSize);
  }
  auto file = Open(memory_.path() + "/a.pool");
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_EQ(file->size(), kSize);
  std::byte last{};
  EXPECT_TRUE(file->Read(kSize - 1, {&last, 1}));
  EXPECT_EQ(last, std::byte{7});
  EXPECT_FALSE(file->Read(kSize, {&last, 1}));
  ASSERT_TRUE(file->Renew(kSize).ok());
  EXPECT_TRUE(file->Read(kSize - 1, {&last, 1}));
  EXPECT_EQ(last, std::byte{0});
  struct stat info {};
  ASSERT_EQ(stat(file->path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
}

TEST_F(MemoryFileTest, OneProcessHasItAsLongAsAnyOfItsMappingsLives) {
  MappedRegion region;
  {
    auto file = Open(memory_.path());
    ASSERT_TRUE(file.ok());
    EXPECT_THAT(ErrorOf(memory_.path()),
                AllOf(HasSubstr("pool-file: " + memory_.path() + "/a.pool is in use"),
                      HasSubstr("a file of its own")));
    ASSERT_TRUE(file->Renew(kSize).ok());
    auto mapped = file->Map(0, kSize, -1);
    ASSERT_TRUE(mapped.ok());
    region = std::move(*mapped);
  }
  EXPECT_THAT(ErrorOf(memory_.path()), HasSubstr("is in use"));
  region = {};
  EXPECT_EQ(ErrorOf(memory_.path()), "none");
}

TEST_F(MemoryFileTest, ErrorsNamePathNeedAndFix) {
  const TempDir disk;
  EXPECT_THAT(ErrorOf(disk.path()), AllOf(HasSubstr(disk.path() + "/a.pool is not memory"),
                                          HasSubstr("a tmpfs, as /dev/shm, or on a hugetlbfs")));
  EXPECT_NE(access((disk.path() + "/a.pool").c_str(), F_OK), 0) << "it is left behind";
  EXPECT_THAT(ErrorOf("/dev/shm/no-such-folder/x"),
              AllOf(HasSubstr("No such file"), HasSubstr("folder has to exist")));
  ASSERT_EQ(symlink("/dev/shm/elsewhere", (memory_.path() + "/link").c_str()), 0);
  EXPECT_THAT(ErrorOf(memory_.path() + "/link"), HasSubstr("symbolic link"));
  ASSERT_EQ(mkfifo((memory_.path() + "/fifo").c_str(), 0600), 0);
  EXPECT_THAT(ErrorOf(memory_.path() + "/fifo"), HasSubstr("is not memory"));
  const std::string open = memory_.Write("open", "");
  chmod(open.c_str(), 0640);
  EXPECT_THAT(ErrorOf(open), AllOf(HasSubstr("mode 640"), HasSubstr("chmod 0600")));
  if (geteuid() != 0) GTEST_SKIP() << "files of others need root";
  const std::string others = memory_.Write("others", "");
  chmod(others.c_str(), 0600);
  ASSERT_EQ(chown(others.c_str(), 4711, 4711), 0);
  EXPECT_THAT(ErrorOf(others), AllOf(HasSubstr("belongs to user 4711"), HasSubstr("remove")));
}

TEST_F(MemoryFileTest, TooSmallAFileSystemIsRefusedAtOnce) {
  const std::string path = memory_.path() + "/small";
  ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
  if (mount("tmpfs", path.c_str(), "tmpfs", 0, "size=1m") != 0)
    GTEST_SKIP() << "a file system of the test's own needs root";
  {
    auto file = Open(path);
    ASSERT_TRUE(file.ok()) << file.status().ToString();
    const Status s = file->Renew(4 * kSize);
    EXPECT_EQ(s.code(), Code::kResourceExhausted);
    EXPECT_THAT(s.message(),
                AllOf(HasSubstr(path + "/a.pool needs 4Mi, and its file system has 1Mi"),
                      HasSubstr("lower pool-size")));
    EXPECT_TRUE(file->Renew(kSize / 2).ok());
  }
  EXPECT_EQ(umount(path.c_str()), 0);
}

}  // namespace
}  // namespace peercache
