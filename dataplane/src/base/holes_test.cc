#include "base/holes.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/memory.h"

namespace peercache {
namespace {

constexpr uint64_t kMiB = 1 << 20;

UniqueFd File(uint64_t size) {
  UniqueFd fd(::memfd_create("holes", MFD_CLOEXEC));
  EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(size)), 0);
  return fd;
}

void Punch(const UniqueFd& fd, uint64_t at, uint64_t length) {
  ASSERT_EQ(::fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        static_cast<off_t>(at), static_cast<off_t>(length)),
            0);
}

TEST(HolesTest, HolesAreCountedAndFilledAsFarAsIsAskedFor) {
  const UniqueFd fd = File(4 * kMiB);
  EXPECT_EQ(HoleBytes(fd.get()), 4 * kMiB) << "all of a new file";
  ASSERT_TRUE(FillHoles(fd.get(), 4 * kMiB).ok());
  EXPECT_EQ(HoleBytes(fd.get()), 0u);

  Punch(fd, 3 * kMiB, SmallPageSize());
  Punch(fd, kMiB, 2 * SmallPageSize());
  EXPECT_EQ(HoleBytes(fd.get()), 3 * SmallPageSize());
  ASSERT_TRUE(FillHoles(fd.get(), 2 * kMiB).ok());
  EXPECT_EQ(HoleBytes(fd.get()), SmallPageSize());
}

TEST(HolesTest, MoreThanOneStepIsFilled) {
  const UniqueFd fd = File(300 * kMiB);
  ASSERT_TRUE(FillHoles(fd.get(), 300 * kMiB).ok());
  EXPECT_EQ(HoleBytes(fd.get()), 0u);
}

TEST(HolesTest, WhatIsInTheFileStaysAndItsEndTooAndNothingIsAdded) {
  const UniqueFd fd = File(kMiB + 100);  // ends within a page
  ASSERT_EQ(::pwrite(fd.get(), "here", 4, 5000), 4);
  ASSERT_TRUE(FillHoles(fd.get(), 64 * kMiB).ok());
  EXPECT_EQ(HoleBytes(fd.get()), 0u);
  char text[4] = {};
  ASSERT_EQ(::pread(fd.get(), text, 4, 5000), 4);
  EXPECT_EQ(std::string_view(text, 4), "here");
  struct stat file {};
  ASSERT_EQ(::fstat(fd.get(), &file), 0);
  EXPECT_EQ(file.st_size, static_cast<off_t>(kMiB + 100));
}

TEST(HolesTest, WhatIsNoSharedMemoryHasNone) {
  int ends[2] = {};
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd reader(ends[0]), writer(ends[1]);
  EXPECT_EQ(HoleBytes(reader.get()), 0u);
  EXPECT_EQ(HoleBytes(-1), 0u);
  EXPECT_TRUE(FillHoles(reader.get(), kMiB).ok()) << "who maps it says what is wrong with it";
}

TEST(HolesTest, MemoryThatIsNotGivenIsSaid) {
  const UniqueFd fd = File(kMiB);
  const UniqueFd read_only(
      ::open(("/proc/self/fd/" + std::to_string(fd.get())).c_str(), O_RDONLY | O_CLOEXEC));
  const Status status = FillHoles(read_only.get(), kMiB);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("at byte 0 of 1Mi"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace peercache
