#include "transport/rdma/pieces.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "transport/rdma/memory_testing.h"

namespace peercache::rdma {
namespace {

constexpr uint64_t kNoBorder = uint64_t{1} << 40;

struct Memory {
  explicit Memory(size_t bytes, uint64_t chunk = kNoBorder) : data(bytes) {
    ranges.push_back(RegistrationTesting::Make(data, chunk));
  }
  Bytes At(size_t offset, size_t size) { return Bytes(data).subspan(offset, size); }
  HeaderPlaces Header() { return {At(0, 64), At(64, 64)}; }
  std::vector<std::byte> data;
  RegisteredMemory::Ranges ranges;
};

// Carries the READs of a cut out, checking each against the limits.
void Execute(const Cut& cut, const CutLimits& limits, std::span<const std::byte> pool) {
  for (const Piece& piece : cut.pieces) {
    ASSERT_GT(piece.count, 0u);
    ASSERT_LE(piece.count, limits.segments);
    ASSERT_LE(piece.bytes, limits.bytes);
    ASSERT_EQ(piece.offset / limits.chunk_bytes, piece.chunk);
    ASSERT_EQ((piece.offset + piece.bytes - 1) / limits.chunk_bytes, piece.chunk);
    uint64_t from = piece.offset;
    for (uint32_t i = 0; i < piece.count; ++i) {
      const LocalSegment& s = cut.segments[piece.first + i];
      ASSERT_EQ(s.range->ChunkOf(s.at), s.chunk);
      ASSERT_LE(s.bytes, s.range->LeftInChunk(s.at));
      std::memcpy(s.at, pool.data() + from, s.bytes);
      from += s.bytes;
    }
    ASSERT_EQ(from, piece.offset + piece.bytes);
  }
}

TEST(PiecesTest, APageIsOneReadWhenItFitsAndItsHeaderAnotherAfterIt) {
  Memory memory(4096);
  const Bytes page[] = {memory.At(128, 1000), memory.At(2000, 500)};
  Cut cut;
  ASSERT_TRUE(
      CutPage(7, 128, memory.Header(), page, {16, 1 << 30, kNoBorder}, memory.ranges, &cut));
  ASSERT_EQ(cut.pieces.size(), 2u);
  EXPECT_EQ(cut.pieces[0].page, 7u);
  EXPECT_EQ(cut.pieces[0].offset, 128u);
  EXPECT_EQ(cut.pieces[0].bytes, 1564u);
  EXPECT_EQ(cut.pieces[0].count, 3u);
  EXPECT_FALSE(cut.pieces[0].again);
  EXPECT_EQ(cut.pieces[1].page, 7u);
  EXPECT_EQ(cut.pieces[1].offset, 128u);
  EXPECT_EQ(cut.pieces[1].bytes, 64u);
  EXPECT_EQ(cut.segments[cut.pieces[1].first].at, memory.Header().again.data());
  EXPECT_TRUE(cut.pieces[1].again);
}

TEST(PiecesTest, WithoutAHeaderThePageIsAllThatIsRead) {
  Memory memory(4096);
  const Bytes page[] = {memory.At(64, 1000)};
  Cut cut;
  ASSERT_TRUE(CutPage(0, 128, {}, page, {16, 1 << 30, kNoBorder}, memory.ranges, &cut));
  ASSERT_EQ(cut.pieces.size(), 1u);
  EXPECT_EQ(cut.pieces[0].offset, 128u);
  EXPECT_EQ(cut.pieces[0].bytes, 1000u);
}

TEST(PiecesTest, EmptySegmentsAreNothing) {
  Memory memory(4096);
  const Bytes page[] = {memory.At(128, 100), Bytes(), memory.At(300, 0), memory.At(400, 100)};
  Cut cut;
  ASSERT_TRUE(CutPage(0, 0, memory.Header(), page, {16, 1 << 30, kNoBorder}, memory.ranges, &cut));
  ASSERT_EQ(cut.pieces.size(), 2u);
  EXPECT_EQ(cut.pieces[0].count, 3u);
}

TEST(PiecesTest, AMegabyteAndItsHeaderAreOneRead) {
  Memory memory((1 << 20) + 128);
  const Bytes page[] = {memory.At(128, 1 << 20)};
  Cut cut;
  ASSERT_TRUE(CutPage(0, 0, memory.Header(), page, {16, 1 << 30, kNoBorder}, memory.ranges, &cut));
  EXPECT_EQ(cut.pieces.size(), 1u + 1u);
}

TEST(PiecesTest, ALargePageGoesInPartsOfEqualSize) {
  Memory memory((16 << 20) + 128);
  const Bytes page[] = {memory.At(128, 16 << 20)};
  Cut cut;
  ASSERT_TRUE(CutPage(0, 0, memory.Header(), page, {16, 1 << 30, kNoBorder}, memory.ranges, &cut));
  ASSERT_EQ(cut.pieces.size(), 16u + 1u);
  for (size_t i = 0; i < 16; ++i) EXPECT_NEAR(cut.pieces[i].bytes, 1 << 20, 4096);
}

TEST(PiecesTest, MemoryThatIsNotRegisteredIsRefusedWhole) {
  Memory memory(4096);
  std::vector<std::byte> foreign(100);
  const Bytes page[] = {memory.At(64, 1000), foreign};
  Cut cut;
  EXPECT_FALSE(CutPage(0, 0, memory.Header(), page, {1, 1 << 30, kNoBorder}, memory.ranges, &cut));
  EXPECT_TRUE(cut.pieces.empty());
  EXPECT_TRUE(cut.segments.empty());
}

TEST(PiecesTest, NothingCrossesABorderAndEveryByteArrivesOnce) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const uint64_t local_chunk = 64 + random() % 3000, remote_chunk = 64 + random() % 3000;
    Memory memory(40000, local_chunk);
    std::vector<std::byte> pool(60000);
    for (auto& byte : pool) byte = static_cast<std::byte>(random());
    std::vector<Bytes> page;
    std::vector<std::byte> expected;
    const uint64_t offset = random() % 20000;
    size_t at = 128;
    for (size_t i = random() % 40 + 1; i > 0; --i) {
      const size_t size = random() % 900 + 1;
      page.push_back(memory.At(at, size));
      at += size + random() % 10;
    }
    const CutLimits limits{static_cast<uint32_t>(random() % 16 + 1),
                           static_cast<uint32_t>(random() % 5000 + 1), remote_chunk};
    Cut cut;
    ASSERT_TRUE(CutPage(0, offset, memory.Header(), page, limits, memory.ranges, &cut));
    Execute(cut, limits, pool);
    for (const size_t header : {0, 64})
      ASSERT_EQ(std::memcmp(memory.data.data() + header, pool.data() + offset, 64), 0);
    uint64_t from = offset + 64;
    for (const Bytes& segment : page) {
      ASSERT_EQ(std::memcmp(segment.data(), pool.data() + from, segment.size()), 0);
      from += segment.size();
    }
  }
}

}  // namespace
}  // namespace peercache::rdma
