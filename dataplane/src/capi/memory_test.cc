// Memory that is shared by its addresses, or not.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "base/fd.h"
#include "capi/capi_testing.h"
#include "capi/shared_ranges.h"

namespace peercache {
namespace {

using capi::SharedRanges;
using testing::CEngine;
using testing::TestCluster;

constexpr size_t kBytes = 64 << 10;

// A mapping of a new memfd, whose descriptor the caller may close.
struct Mapping {
  explicit Mapping(int access = PROT_READ | PROT_WRITE, int kind = MAP_SHARED)
      : fd(memfd_create("test", MFD_CLOEXEC)) {
    EXPECT_EQ(posix_fallocate(fd.get(), 0, kBytes), 0);  // members take no file with holes
    address = mmap(nullptr, kBytes, access, kind, fd.get(), 0);
    EXPECT_NE(address, MAP_FAILED);
  }
  ~Mapping() { munmap(address, kBytes); }
  uint64_t at() const { return reinterpret_cast<uint64_t>(address); }

  UniqueFd fd;
  void* address = nullptr;
};

TEST(SharedRanges, AreFoundByTheirInode) {
  const Mapping mapping;
  const auto whole = SharedRanges(mapping.at(), kBytes);
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(whole[0].base, mapping.at());
  EXPECT_EQ(whole[0].length, kBytes);
  EXPECT_EQ(whole[0].fd_offset, 0u);
  EXPECT_NE(whole[0].fd.get(), mapping.fd.get()) << "a duplicate";
  const auto part = SharedRanges(mapping.at() + 5000, 1000);
  ASSERT_EQ(part.size(), 1u);
  EXPECT_EQ(part[0].base, mapping.at() + 5000);
  EXPECT_EQ(part[0].length, 1000u);
  EXPECT_EQ(part[0].fd_offset, 5000u);
}

TEST(SharedRanges, AreNotFoundWhereAnotherProcessCannotWrite) {
  EXPECT_TRUE(SharedRanges(Mapping(PROT_READ).at(), kBytes).empty());
  EXPECT_TRUE(SharedRanges(Mapping(PROT_READ | PROT_WRITE, MAP_PRIVATE).at(), kBytes).empty());
  std::vector<std::byte> heap(kBytes);
  EXPECT_TRUE(SharedRanges(reinterpret_cast<uint64_t>(heap.data()), kBytes).empty());
  Mapping closed;
  closed.fd.Reset();
  EXPECT_TRUE(SharedRanges(closed.at(), kBytes).empty()) << "no descriptor is open";
}

TEST(SharedRanges, TakeADescriptorThatCanBeWrittenTo) {
  Mapping mapping;
  const std::string path = "/proc/self/fd/" + std::to_string(mapping.fd.get());
  UniqueFd reading(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(reading);
  UniqueFd writing(open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(writing);
  mapping.fd.Reset();
  EXPECT_EQ(SharedRanges(mapping.at(), kBytes).size(), 1u);
  writing.Reset();
  EXPECT_TRUE(SharedRanges(mapping.at(), kBytes).empty());
}

class SharedMemoryTest : public ::testing::Test {
 protected:
  TestCluster cluster_;
  std::unique_ptr<Node> node_ = cluster_.Start("a");
  CEngine engine_{node_->socket()};
};

TEST_F(SharedMemoryTest, WhatIsNotSharedGoesThroughTheStagingRing) {
  EXPECT_EQ(engine_.Set(0, 8).hits(), 8u);
  EXPECT_EQ(engine_.Get(0, 8).hits(), 8u);
  const uint64_t staged = engine_.state().staged_bytes;
  EXPECT_EQ(staged, 16 * CEngine::kPage);
  engine_.Share();
  EXPECT_EQ(engine_.Get(0, 8).hits(), 8u);
  EXPECT_EQ(engine_.state().staged_bytes, staged);
  EXPECT_EQ(pc_unshare(engine_.client(), engine_.memory().data(), engine_.memory().size()), PC_OK)
      << pc_error();
  EXPECT_EQ(engine_.Get(0, 8).hits(), 8u);
  EXPECT_EQ(engine_.state().staged_bytes, staged + 8 * CEngine::kPage);
}

TEST_F(SharedMemoryTest, APartOfWhatIsSharedCannotBeTakenBack) {
  engine_.Share();
  EXPECT_EQ(pc_unshare(engine_.client(), engine_.memory().data(), 4096), PC_EINVAL);
  EXPECT_NE(std::string(pc_error()).find("name all of it"), std::string::npos) << pc_error();
  EXPECT_EQ(engine_.Set(0, 8).hits(), 8u);
  EXPECT_EQ(engine_.state().staged_bytes, 0u) << "it is shared still";
}

// The staging ring is memory of the client, and no caller's.
TEST_F(SharedMemoryTest, TakingBackEverythingLeavesTheStagingRing) {
  ASSERT_EQ(engine_.Set(0, 8).hits(), 8u);
  void* const lowest = reinterpret_cast<void*>(uintptr_t{4096});
  EXPECT_EQ(pc_unshare(engine_.client(), lowest, SIZE_MAX / 2), PC_OK) << pc_error();
  EXPECT_EQ(engine_.Get(0, 8).hits(), 8u);
  EXPECT_EQ(engine_.state().faults, 0u) << engine_.state().last_fault;
}

TEST_F(SharedMemoryTest, ADescriptorIsSharedFromAnOffset) {
  const Mapping mapping;
  void* const page = static_cast<std::byte*>(mapping.address) + 8192;
  ASSERT_EQ(pc_share_fd(engine_.client(), mapping.fd.get(), page, 4096, 8192), PC_OK) << pc_error();
  testing::TestEngine::Fill({static_cast<std::byte*>(page), 4096}, 7);
  const std::vector<pc_key> keys = testing::CKeys(7, 1);
  const std::vector<pc_iov> iovs{{reinterpret_cast<uint64_t>(page), 4096}};
  EXPECT_EQ(engine_.Run(CEngine::Op(PC_SET, keys, iovs)).hits(), 1u);
  EXPECT_EQ(engine_.state().staged_bytes, 0u);
  EXPECT_EQ(pc_share_fd(engine_.client(), mapping.fd.get(), page, kBytes, kBytes), PC_EREFUSED)
      << "the file ends before";
  EXPECT_NE(std::string(pc_error()), "");
}

}  // namespace
}  // namespace peercache
