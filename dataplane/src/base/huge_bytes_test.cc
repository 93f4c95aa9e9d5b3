#include "base/huge_bytes.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

#include "base/fd.h"
#include "base/memory.h"
#include "base/memory_limit.h"
#include "base/refused_syscall_testing.h"

namespace peercache {
namespace {

constexpr size_t kHuge = size_t{2} << 20;
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

// Memory that begins at an address of a huge page, and is merged with no other mapping.
class Mapping {
 public:
  explicit Mapping(size_t size, int file = -1) : reserved_(size + 2 * kHuge), size_(size) {
    base_ = mmap(nullptr, reserved_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_NE(base_, MAP_FAILED);
    const auto at = (reinterpret_cast<uintptr_t>(base_) / kHuge + 1) * kHuge;
    const int kind = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void* const data =
        mmap(reinterpret_cast<void*>(at), size, PROT_READ | PROT_WRITE, MAP_FIXED | kind, file, 0);
    EXPECT_NE(data, MAP_FAILED);
    data_ = static_cast<std::byte*>(data);
  }
  ~Mapping() { munmap(base_, reserved_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::span<std::byte> bytes() const { return {data_, size_}; }
  bool Advise(size_t at, size_t size, int advice) const {
    return madvise(data_ + at, size, advice) == 0;
  }
  void Touch(size_t at, size_t size) const {
    for (size_t i = at; i < at + size; i += 4096) data_[i] = std::byte{1};
  }

 private:
  void* base_ = nullptr;
  const size_t reserved_, size_;
  std::byte* data_ = nullptr;
};

// The same of whole mappings, by what the kernel prints of each.
uint64_t HugeBytesOfSmaps(std::span<const std::byte> mapping) {
  const auto begin = reinterpret_cast<uintptr_t>(mapping.data()), end = begin + mapping.size();
  std::ifstream smaps("/proc/self/smaps");
  uint64_t bytes = 0, size = 0;
  bool within = false;
  for (std::string line; std::getline(smaps, line);) {
    uint64_t first = 0, last = 0, kib = 0;
    char name[64] = {};
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " ", &first, &last) == 2) {
      within = first >= begin && last <= end;
      size = last - first;
    } else if (within && std::sscanf(line.c_str(), "%63[^:]: %" SCNu64 " kB", name, &kib) == 2) {
      const std::string field = name;
      if (field == "AnonHugePages" || field == "ShmemPmdMapped") bytes += kib << 10;
      if (field == "KernelPageSize" && kib << 10 > SmallPageSize()) bytes += size;
    }
  }
  return bytes;
}

class HugeBytesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::byte one{};
    if (!HugeBytes({&one, 1})) GTEST_SKIP() << "this kernel does not tell: it is older than 6.7";
  }
  // Memory whose first `huge` bytes are in huge pages, where the kernel has some.
  bool Bring(const Mapping& mapping, size_t huge) {
    const size_t rest = mapping.bytes().size() - huge;
    if (rest > 0 && !mapping.Advise(huge, rest, MADV_NOHUGEPAGE)) return false;
    if (huge > 0 && !mapping.Advise(0, huge, MADV_HUGEPAGE)) return false;
    mapping.Touch(0, mapping.bytes().size());
    return HugeBytesOfSmaps(mapping.bytes()) == huge;
  }
};

TEST_F(HugeBytesTest, SmallPagesAreNone) {
  const UniqueFd file(memfd_create("huge-bytes-test", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(file.get(), 2 * kHuge), 0);
  for (const int fd : {-1, file.get()}) {
    const Mapping mapping(2 * kHuge, fd);
    ASSERT_TRUE(Bring(mapping, 0));
    EXPECT_EQ(HugeBytes(mapping.bytes()), 0u);
  }
}

TEST_F(HugeBytesTest, APartOfAMappingAndOfAPageCountsAsWhatItIs) {
  const Mapping mapping(4 * kHuge);
  if (!Bring(mapping, 2 * kHuge)) {  // the kernel has fewer transparent huge pages now
    EXPECT_EQ(HugeBytes(mapping.bytes()), HugeBytesOfSmaps(mapping.bytes()));
    return;
  }
  struct Case {
    size_t at, size, huge;
  };
  for (const Case& c : {Case{0, 4 * kHuge, 2 * kHuge}, Case{0, kHuge, kHuge}, Case{0, 1, 1},
                        Case{kHuge + 100, 50, 50}, Case{100, kHuge, kHuge},
                        Case{kHuge, 2 * kHuge, kHuge}, Case{2 * kHuge - 1, 2, 1},
                        Case{2 * kHuge, kHuge, 0}, Case{3 * kHuge + 5, 5000, 0}, Case{5, 0, 0}})
    EXPECT_EQ(HugeBytes(mapping.bytes().subspan(c.at, c.size)), c.huge) << c.at << " " << c.size;
}

TEST_F(HugeBytesTest, MemoryInManyPiecesAddsUp) {
  // More than are told at once, and more than are looked at in one step.
  constexpr size_t kPieces = 80, kFar = size_t{1} << 30;
  const Mapping mapping(kFar + 2 * kPieces * kHuge);
  (void)mapping.Advise(0, mapping.bytes().size(), MADV_HUGEPAGE);
  for (size_t i = 0; i < kPieces; ++i) mapping.Touch(kFar + 2 * i * kHuge, 1);
  mapping.Touch(kHuge, 1);
  EXPECT_EQ(HugeBytes(mapping.bytes()), HugeBytesOfSmaps(mapping.bytes()));
}

// Engines' memory. Whether the kernel makes huge pages of it is up to the machine.
TEST_F(HugeBytesTest, SharedMemoryIsWhatTheKernelPrintsOfIt) {
  const UniqueFd file(memfd_create("huge-bytes-test", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(file.get(), 4 * kHuge), 0);
  const Mapping mapping(4 * kHuge, file.get());
  (void)mapping.Advise(0, 4 * kHuge, MADV_HUGEPAGE);
  mapping.Touch(0, 4 * kHuge);
  EXPECT_EQ(HugeBytes(mapping.bytes()), HugeBytesOfSmaps(mapping.bytes()));
  const bool collapsed = mapping.Advise(0, 2 * kHuge, MADV_COLLAPSE);
  mapping.Touch(0, 4 * kHuge);
  EXPECT_EQ(HugeBytes(mapping.bytes()), HugeBytesOfSmaps(mapping.bytes()));
  EXPECT_TRUE(!collapsed || HugeBytes(mapping.bytes()) >= 2 * kHuge);
}

TEST_F(HugeBytesTest, ReservedHugePagesAreAll) {
  const bool enough = ReadHugePageCounts(kHuge).available() >= 2;
  const auto region = MappedRegion::Create("huge-bytes-test", 2 * kHuge, HugePages::k2Mi);
  ASSERT_EQ(region.ok(), enough) << region.status().ToString();
  if (!region.ok()) return;  // a machine that has none reserved
  EXPECT_EQ(HugeBytes(region->bytes()), 2 * kHuge);
  EXPECT_EQ(HugeBytes(region->bytes().subspan(5000, kHuge)), kHuge);
}

TEST(HugeBytesRefusedTest, NobodyTellsWhereTheKernelMayNotBeAsked) {
  std::thread([] {
    ASSERT_TRUE(testing::RefuseInThisThread(SYS_ioctl));
    const std::byte one{};
    EXPECT_FALSE(HugeBytes({&one, 1}).has_value());
  }).join();
}

}  // namespace
}  // namespace peercache
