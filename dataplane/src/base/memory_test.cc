#include "base/memory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <thread>

#include "base/memory_limit.h"
#include "base/temp_dir_testing.h"

namespace peercache {
namespace {

using ::testing::HasSubstr;
constexpr size_t kMiB = size_t{1} << 20;

MappedRegion Make(size_t size, HugePages pages) {
  auto region = MappedRegion::Create("test", size, pages);
  EXPECT_TRUE(region.ok()) << region.status().ToString();
  return std::move(region).value();
}

TEST(UniqueFd, ClosesOnce) {
  int raw = ::memfd_create("x", MFD_CLOEXEC);
  UniqueFd a(raw);
  UniqueFd b(std::move(a));
  EXPECT_FALSE(a);  // NOLINT(bugprone-use-after-move): the moved-from state is the subject
  EXPECT_EQ(b.get(), raw);
  b.Reset();
  EXPECT_EQ(::fcntl(raw, F_GETFD), -1);
  EXPECT_FALSE(b);
}

TEST(MappedRegion, IsZeroedWritableAndSealed) {
  MappedRegion region = Make(4 * kMiB, HugePages::kOff);
  EXPECT_EQ(region.size(), 4 * kMiB);
  EXPECT_EQ(region.page_size(), 4096u);
  for (std::byte b : region.bytes()) ASSERT_EQ(b, std::byte{0});
  std::memset(region.data(), 0x5a, region.size());
  EXPECT_EQ(::ftruncate(region.fd(), kMiB), -1);
  EXPECT_EQ(::ftruncate(region.fd(), 8 * kMiB), -1);
  EXPECT_NE(::fcntl(region.fd(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(MappedRegion, IsSeenByWhoeverMapsItsFd) {
  MappedRegion ours = Make(4 * kMiB, HugePages::kOff);
  ours.data()[3 * kMiB] = std::byte{42};
  auto theirs = MappedRegion::Map(UniqueFd(::dup(ours.fd())), 4 * kMiB, MapAccess::kRead);
  ASSERT_TRUE(theirs.ok());
  EXPECT_EQ(theirs->data()[3 * kMiB], std::byte{42});
  // An offset need not be on a page boundary.
  auto part =
      MappedRegion::Map(UniqueFd(::dup(ours.fd())), 100, MapAccess::kReadWrite, 3 * kMiB - 10);
  ASSERT_TRUE(part.ok());
  EXPECT_EQ(part->size(), 100u);
  EXPECT_EQ(part->data()[10], std::byte{42});
  part->data()[99] = std::byte{43};
  EXPECT_EQ(ours.data()[3 * kMiB + 89], std::byte{43});
}

// By the flags that the kernel prints of the mapping at `data`.
bool IsInCores(const std::byte* data) {
  std::ifstream smaps("/proc/self/smaps");
  bool within = false;
  for (std::string line; std::getline(smaps, line);) {
    uintptr_t first = 0, last = 0;
    const auto at = reinterpret_cast<uintptr_t>(data);
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &first, &last) == 2)
      within = first <= at && at < last;
    if (within && line.starts_with("VmFlags:")) return line.find(" dd") == std::string::npos;
  }
  ADD_FAILURE() << "no mapping there";
  return true;
}

TEST(MappedRegion, IsLeftOutOfCoreFiles) {
  const MappedRegion ours = Make(2 * kMiB, HugePages::kOff);
  EXPECT_FALSE(IsInCores(ours.data()));
  const auto theirs = MappedRegion::Map(UniqueFd(::dup(ours.fd())), kMiB, MapAccess::kRead);
  ASSERT_TRUE(theirs.ok());
  EXPECT_FALSE(IsInCores(theirs->data()));
  const std::byte here{};
  EXPECT_TRUE(IsInCores(&here)) << "or this tests nothing";
}

TEST(MappedRegion, MovesItsMapping) {
  MappedRegion a = Make(2 * kMiB, HugePages::kOff);
  std::byte* data = a.data();
  MappedRegion b = std::move(a);
  EXPECT_EQ(b.data(), data);
  EXPECT_EQ(a.data(), nullptr);  // NOLINT(bugprone-use-after-move)
  b = Make(2 * kMiB, HugePages::kOff);
  b.data()[0] = std::byte{1};
}

TEST(MappedRegion, MapRefusesWhatIsNotMemory) {
  int pipes[2];
  ASSERT_EQ(::pipe(pipes), 0);
  const std::pair<const char*, int> cases[] = {
      {"a file on a disk", ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)},
      {"a directory", ::open("/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC)},
      {"a device", ::open("/dev/zero", O_RDWR | O_CLOEXEC)},
      {"a file of the kernel", ::open("/proc/self/status", O_RDONLY | O_CLOEXEC)},
      {"a pipe", pipes[0]},
      {"its other end", pipes[1]},
      {"a socket", ::socket(AF_UNIX, SOCK_STREAM, 0)}};
  for (const auto& [what, fd] : cases) {
    ASSERT_GE(fd, 0) << what;
    auto region = MappedRegion::Map(UniqueFd(fd), 1, MapAccess::kRead);
    ASSERT_FALSE(region.ok()) << what;
    EXPECT_THAT(region.status().message(), HasSubstr("not shared memory")) << what;
  }
  char name[] = "/dev/shm/peercache-test-XXXXXX";
  UniqueFd file(::mkstemp(name));
  ::unlink(name);
  ASSERT_EQ(::ftruncate(file.get(), 4096), 0);
  EXPECT_TRUE(MappedRegion::Map(std::move(file), 4096, MapAccess::kReadWrite).ok());
}

// Where the administrator lets shared memory have huge pages, tmpfs names their size as the block
// size of a file, and yet maps small ones.
TEST(MappedRegion, MapsFilesOfATmpfsThatHasHugePagesBySmallOnes) {
  const testing::TempDir dir;
  const size_t small = SmallPageSize();
  UniqueFd fd;
  // A mount of this thread's own, which ends with it.
  std::thread([&] {
    ASSERT_EQ(::unshare(CLONE_NEWNS), 0) << "this test mounts a file system: run it as root";
    ASSERT_EQ(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
    ASSERT_EQ(::mount("tmpfs", dir.path().c_str(), "tmpfs", 0, "huge=always"), 0)
        << std::strerror(errno);
    fd = UniqueFd(::open((dir.path() + "/file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  }).join();
  ASSERT_TRUE(fd);
  ASSERT_EQ(::ftruncate(fd.get(), static_cast<off_t>(3 * small)), 0);
  struct stat info {};
  ASSERT_EQ(::fstat(fd.get(), &info), 0);
  ASSERT_GT(static_cast<size_t>(info.st_blksize), small) << "this kernel has no such tmpfs";
  auto region = MappedRegion::Map(std::move(fd), small, MapAccess::kReadWrite, small);
  ASSERT_TRUE(region.ok()) << region.status().ToString();
  EXPECT_EQ(region->page_size(), small);
  std::memset(region->data(), 1, region->size());
}

TEST(MappedRegion, MapRefusesWhatCannotBeWritten) {
  for (const int seal : {F_SEAL_WRITE, F_SEAL_FUTURE_WRITE}) {
    UniqueFd fd(::memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(::ftruncate(fd.get(), 4096), 0);
    ASSERT_EQ(::fcntl(fd.get(), F_ADD_SEALS, seal), 0);
    EXPECT_TRUE(MappedRegion::Map(UniqueFd(::dup(fd.get())), 4096, MapAccess::kRead).ok());
    auto region = MappedRegion::Map(std::move(fd), 4096, MapAccess::kReadWrite);
    ASSERT_FALSE(region.ok());
    EXPECT_THAT(region.status().message(), HasSubstr("sealed"));
  }
  UniqueFd fd(::memfd_create("read-only", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(fd.get(), 4096), 0);
  UniqueFd reader(::open(("/proc/self/fd/" + std::to_string(fd.get())).c_str(), O_RDONLY));
  auto region = MappedRegion::Map(std::move(reader), 4096, MapAccess::kReadWrite);
  ASSERT_FALSE(region.ok());
  EXPECT_THAT(region.status().message(), HasSubstr("open for the access"));
}

TEST(MappedRegion, MapRefusesWhatIsNotInTheFile) {
  MappedRegion ours = Make(2 * kMiB, HugePages::kOff);
  const std::pair<size_t, uint64_t> cases[] = {
      {0, 0}, {2 * kMiB + 1, 0}, {1, 2 * kMiB}, {2, 2 * kMiB - 1}, {SIZE_MAX, 1}, {1, UINT64_MAX}};
  for (const auto& [size, offset] : cases) {
    auto region = MappedRegion::Map(UniqueFd(::dup(ours.fd())), size, MapAccess::kRead, offset);
    ASSERT_FALSE(region.ok()) << size << " at " << offset;
    EXPECT_EQ(region.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(region.status().message(), HasSubstr("file of 2097152 bytes"));
  }
  EXPECT_FALSE(MappedRegion::Map(UniqueFd(), 1, MapAccess::kRead).ok());
}

TEST(MappedRegion, CreateRefusesWhatCannotBe) {
  for (size_t size : {size_t{0}, size_t{4097}}) {
    auto region = MappedRegion::Create("pool", size, HugePages::kOff);
    ASSERT_FALSE(region.ok());
    EXPECT_THAT(region.status().message(), HasSubstr("multiple of its page size 4Ki"));
  }
  auto huge = MappedRegion::Create("pool", size_t{1} << 60, HugePages::kOff);
  ASSERT_FALSE(huge.ok());
  EXPECT_THAT(huge.status().message(), HasSubstr("pool: 1Ei do not fit into"));
}

TEST(MappedRegion, HugePagesAreTakenWhenThereAndAnErrorWhenNot) {
  const size_t page = 2 * kMiB;
  const bool enough = ReadHugePageCounts(page).available() >= 2;
  auto region = MappedRegion::Create("pool", 2 * page, HugePages::k2Mi);
  EXPECT_EQ(region.ok(), enough) << region.status().ToString();
  if (region.ok()) {
    EXPECT_EQ(region->page_size(), page);
    // A mapping of a part has to begin and end on huge pages; that is the callee's concern.
    auto part = MappedRegion::Map(UniqueFd(::dup(region->fd())), 10, MapAccess::kRead, page + 5);
    EXPECT_TRUE(part.ok()) << part.status().ToString();
  } else {
    EXPECT_THAT(region.status().message(), HasSubstr("pool: 4Mi need 2 huge pages of 2Mi"));
  }
  EXPECT_FALSE(MappedRegion::Create("pool", size_t{1} << 60, HugePages::k1Gi).ok());
}

TEST(MappedRegion, AutoFallsBackToSmallPages) {
  const size_t size = 2 * kMiB + 4096;  // never possible with huge pages
  MappedRegion region = Make(size, HugePages::kAuto);
  EXPECT_EQ(region.page_size(), 4096u);
  EXPECT_EQ(region.size(), size);
}

TEST(ParseHugePages, ReadsItsOwnNames) {
  for (HugePages pages : {HugePages::kAuto, HugePages::kOff, HugePages::k2Mi, HugePages::k1Gi})
    EXPECT_EQ(*ParseHugePages(HugePagesName(pages)), pages);
  auto bad = ParseHugePages("2M");
  ASSERT_FALSE(bad.ok());
  EXPECT_THAT(bad.status().message(), HasSubstr("\"2M\" is none of auto, off, 2Mi, 1Gi"));
}

}  // namespace
}  // namespace peercache
