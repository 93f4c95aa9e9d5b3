#include "disk/device_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "base/checksum.h"
#include "disk/aligned.h"
#include "disk/disk_testing.h"

namespace peercache::disk {
namespace {

using testing::DiskFolder;

std::string Refusal(const std::string& folder) {
  const Result<DeviceFile> file = OpenDeviceFile(folder, Clock::now());
  return file.ok() ? "" : file.status().message();
}

TEST(DeviceFileTest, IsMadeReservedAndLocked) {
  DiskFolder folder;
  Result<DeviceFile> file = OpenDeviceFile(folder.path(), Clock::now());
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_EQ(file->bytes, 0u);
  EXPECT_GE(kBlock, file->memory_alignment);
  ASSERT_TRUE(ReserveSpace(*file, 8 << 20).ok());
  struct stat found {};
  ASSERT_EQ(fstat(file->fd.get(), &found), 0);
  EXPECT_EQ(found.st_size, 8 << 20);
  EXPECT_GE(found.st_blocks * 512, 8 << 20);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
  EXPECT_NE(Refusal(folder.path()).find("is in use by another process"), std::string::npos);
}

TEST(DeviceFileTest, RefusesWhatIsNoDiskAndSaysWhatToDo) {
  DiskFolder folder;
  EXPECT_NE(Refusal(folder.path() + "/none").find("name a folder on a drive of its own"),
            std::string::npos);
  EXPECT_NE(Refusal(folder.Write("file", "x")).find("is not a folder"), std::string::npos);
  ASSERT_EQ(mkdir((folder.path() + "/" + kFileName).c_str(), 0700), 0);
  EXPECT_NE(Refusal(folder.path()).find("cannot be opened"), std::string::npos);
  if (struct stat found{}; stat("/dev/shm", &found) == 0) {
    EXPECT_NE(Refusal("/dev/shm").find("is memory (tmpfs)"), std::string::npos);
    EXPECT_NE(stat("/dev/shm/peercache.disk", &found), 0) << "nothing is left there";
  }
}

TEST(DeviceFileTest, WaitsForAProcessThatIsAboutToEnd) {
  DiskFolder folder;
  Result<DeviceFile> before = OpenDeviceFile(folder.path(), Clock::now());
  ASSERT_TRUE(before.ok()) << before.status().ToString();
  std::thread ending([&] {
    std::this_thread::sleep_for(milliseconds(200));
    EXPECT_TRUE(ReserveSpace(*before, 8 << 20).ok());
    before->fd.Reset();
  });
  const Result<DeviceFile> file =
      OpenDeviceFile(folder.path(), Clock::now() + std::chrono::seconds(10));
  ending.join();
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_EQ(file->bytes, 8u << 20) << "as the process before has left it";
}

TEST(DeviceFileTest, AFileThatIsRemovedWhileItIsWaitedForIsNotUsed) {
  DiskFolder folder;
  Result<DeviceFile> before = OpenDeviceFile(folder.path(), Clock::now());
  ASSERT_TRUE(before.ok()) << before.status().ToString();
  std::thread ending([&] {
    std::this_thread::sleep_for(milliseconds(200));
    EXPECT_EQ(unlink(before->path.c_str()), 0);
    before->fd.Reset();
  });
  const Result<DeviceFile> file =
      OpenDeviceFile(folder.path(), Clock::now() + std::chrono::seconds(10));
  ending.join();
  ASSERT_FALSE(file.ok());
  EXPECT_NE(file.status().message().find("was removed or replaced"), std::string::npos)
      << file.status().message();
}

TEST(DeviceFileTest, RefusesAFileThatOthersMayWrite) {
  DiskFolder folder;
  const std::string path = folder.Write(kFileName, "");
  const auto expect = [&](const std::string& need, const std::string& fix) {
    const std::string refusal = Refusal(folder.path());
    EXPECT_NE(refusal.find(path + need), std::string::npos) << refusal;
    EXPECT_NE(refusal.find(fix), std::string::npos) << refusal;
  };
  ASSERT_EQ(chmod(path.c_str(), 0602), 0);
  expect(" may be written by others (mode 602", "chmod 0600 it");
  // As the kubelet leaves the files of a volume: for the node's own group, too.
  ASSERT_EQ(chmod(path.c_str(), 0660), 0);
  EXPECT_EQ(Refusal(folder.path()), "");
  const std::string elsewhere = folder.Write("elsewhere", "");
  ASSERT_EQ(chmod(elsewhere.c_str(), 0600), 0);
  ASSERT_EQ(unlink(path.c_str()), 0);
  ASSERT_EQ(symlink(elsewhere.c_str(), path.c_str()), 0);
  expect(" is a symbolic link", "name the folder that the file is in");
  ASSERT_EQ(unlink(path.c_str()), 0);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_NE(Refusal(folder.path()), "");
  if (geteuid() != 0) GTEST_SKIP() << "files of others need root";
  ASSERT_EQ(unlink(path.c_str()), 0);
  folder.Write(kFileName, "");
  ASSERT_EQ(chown(path.c_str(), geteuid(), 4711), 0);
  ASSERT_EQ(chmod(path.c_str(), 0660), 0);
  expect(" may be written by others (mode 660, group 4711)", "chmod 0600 it");
  ASSERT_EQ(chown(path.c_str(), 4711, 4711), 0);
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  expect(" belongs to user 4711", "chown it");
}

TEST(DeviceFileTest, RefusesMoreThanIsFreeAndLeavesNothingReserved) {
  DiskFolder folder;
  Result<DeviceFile> file = OpenDeviceFile(folder.path(), Clock::now());
  ASSERT_TRUE(file.ok());
  struct stat before {};
  ASSERT_EQ(fstat(file->fd.get(), &before), 0);
  const Status refused = ReserveSpace(*file, uint64_t{8} << 40);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.message().find("write a smaller disk-size"), std::string::npos)
      << refused.message();
  struct stat found {};
  ASSERT_EQ(fstat(file->fd.get(), &found), 0);
  EXPECT_EQ(found.st_blocks, 0);
  // Nor was it meanwhile, when everybody else would have found a full drive.
  EXPECT_EQ(found.st_ctim.tv_sec, before.st_ctim.tv_sec);
  EXPECT_EQ(found.st_ctim.tv_nsec, before.st_ctim.tv_nsec);
}

// A drive of its own: a file system of 48 MiB on a loop device, as root.
TEST(DeviceFileTest, AFileSystemThatIsFullRefusesMoreAndServesWhatFits) {
  DiskFolder folder;
  const std::string image = folder.path() + "/image", drive = folder.path() + "/drive";
  const auto run = [](const std::string& command) {
    return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
  };
  if (geteuid() != 0 || !run("truncate -s 48M " + image) || !run("mkfs.ext4 -F " + image) ||
      mkdir(drive.c_str(), 0700) != 0 || !run("mount -o loop " + image + " " + drive))
    GTEST_SKIP() << "no loop devices here";
  DiskOptions options = testing::SmallOptions({drive});
  options.bytes = 100 << 20;
  const Status refused = DiskTier::Open(options, nullptr).status();
  EXPECT_NE(refused.message().find("write a smaller disk-size"), std::string::npos)
      << refused.message();
  options.bytes = 24 << 20;
  {
    const Result<std::unique_ptr<DiskTier>> tier = DiskTier::Open(options, nullptr);
    EXPECT_TRUE(tier.ok()) << tier.status().ToString();
    // Others take all that is left; the tier's space is its own.
    run("head -c 100M /dev/zero > " + drive + "/others");
    for (uint64_t i = 0; tier.ok() && i < 400; ++i)
      EXPECT_TRUE(testing::PutInTime(**tier, i, 0, 100'000));
    if (tier.ok()) {
      EXPECT_TRUE((*tier)->Flush(Clock::now() + std::chrono::seconds(20)).ok());
      EXPECT_EQ(testing::ReadAndCheck(**tier, 399, 0, 100'000), ReadOutcome::kHit);
      EXPECT_EQ((*tier)->counts().dropped.Of(Drop::kWriteError), 0u);
    }
  }
  EXPECT_TRUE(run("umount " + drive));
}

TEST(DeviceFileTest, AFileOfAnotherClusterOrOfANewerFormatIsRefused) {
  DiskFolder folder;
  DiskOptions options = testing::SmallOptions({folder.path()});
  ASSERT_TRUE(DiskTier::Open(options, nullptr).ok());
  DiskOptions other = options;
  other.cluster = "other";
  const Status foreign = DiskTier::Open(other, nullptr).status();
  EXPECT_NE(foreign.message().find("belongs to the cluster \"test\", and this is \"other\""),
            std::string::npos)
      << foreign.message();
  // The next version, with a right checksum.
  const UniqueFd fd(open((folder.path() + "/" + kFileName).c_str(), O_RDWR | O_CLOEXEC));
  std::vector<std::byte> superblock(kSuperblockBytes);
  for (const uint64_t at : kSuperblockAt) {
    ASSERT_EQ(pread(fd.get(), superblock.data(), superblock.size(), at),
              static_cast<ssize_t>(superblock.size()));
    const uint32_t newer = kFormatVersion + 1;
    std::memcpy(superblock.data() + 16, &newer, sizeof(newer));
    const uint64_t checksum = Checksum(std::span<const std::byte>(superblock).subspan(16));
    std::memcpy(superblock.data() + 8, &checksum, sizeof(checksum));
    ASSERT_EQ(pwrite(fd.get(), superblock.data(), superblock.size(), at),
              static_cast<ssize_t>(superblock.size()));
  }
  const Status newer = DiskTier::Open(options, nullptr).status();
  EXPECT_NE(newer.message().find("was written by a newer release"), std::string::npos)
      << newer.message();
}

}  // namespace
}  // namespace peercache::disk
