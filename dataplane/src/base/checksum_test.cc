#include "base/checksum.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "base/checksum_pieces.h"

namespace peercache {
namespace {

std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(Checksum, IsXxh3) {
  // Reference values of XXH3_64bits: checksums of different builds must agree on the wire.
  EXPECT_EQ(Checksum(BytesOf("")), 0x2d06800538d394c2u);
  EXPECT_EQ(Checksum(BytesOf("a")), 0xe6c632b61e964e1fu);
}

TEST(Checksum, OfSegmentsIsThatOfTheirConcatenation) {
  std::vector<std::byte> bytes(10000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(i * 31 >> 3);
  const std::span<const std::byte> all(bytes);
  for (size_t cut : {size_t{0}, size_t{1}, size_t{255}, size_t{4096}, bytes.size()}) {
    const std::span<const std::byte> segments[] = {all.first(cut), all.subspan(cut)};
    EXPECT_EQ(Checksum(segments), Checksum(all)) << cut;
  }
  const std::span<const std::byte> one[] = {all};
  EXPECT_EQ(Checksum(one), Checksum(all));
}

// The code for any processor and that for newer ones must agree: nodes of one cluster differ.
TEST(Checksum, IsTheSameOnEveryProcessor) {
  std::vector<std::byte> bytes(70'000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(i * 37 >> 4);
  for (size_t size : {0, 1, 17, 200, 241, 1024, 65'537, 70'000}) {
    const std::span<const std::byte> some = std::span(bytes).first(size);
    const auto piece_at = [](const void* context, size_t) {
      const auto& all = *static_cast<const std::span<const std::byte>*>(context);
      return ChecksumPiece{all.data(), all.size()};
    };
    EXPECT_EQ(ChecksumOfPieces(piece_at, &some, 1), Checksum(some)) << size;
    const std::span<const std::byte> two[] = {some.first(size / 3), some.subspan(size / 3)};
    EXPECT_EQ(Checksum(two), Checksum(some)) << size;
  }
}

TEST(Checksum, SeesEveryBit) {
  std::vector<std::byte> bytes(300);
  const uint64_t before = Checksum(bytes);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= std::byte(1 << (bit % 8));
    ASSERT_NE(Checksum(bytes), before) << bit;
    bytes[bit / 8] ^= std::byte(1 << (bit % 8));
  }
}

}  // namespace
}  // namespace peercache
