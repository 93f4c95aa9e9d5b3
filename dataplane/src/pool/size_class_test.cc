#include "pool/size_class.h"

#include <gtest/gtest.h>

#include <vector>

namespace peercache {
namespace {

std::vector<size_t> Lengths() {
  std::vector<size_t> lengths;
  for (size_t n = 1; n < 20000; ++n) lengths.push_back(n);
  for (size_t n = 20000; n < size_t{256} << 20; n += n / 97)
    for (size_t d : {0, 1, 63, 511}) lengths.push_back(n + d);
  for (size_t shift = 12; shift < 30; ++shift)
    for (int d : {-1, 0, 1}) lengths.push_back((size_t{1} << shift) + d);
  return lengths;
}

TEST(SizeClass, HoldsTheLengthAndIsTheSmallestThatDoes) {
  for (size_t length : Lengths()) {
    const SizeClass c = SizeClassOf(length);
    ASSERT_GE(PayloadBytes(c), length);
    if (c > 0) {
      ASSERT_LT(PayloadBytes(c - 1), length) << length;
    }
  }
}

TEST(SizeClass, WastesAtMostAnEighth) {
  for (size_t length : Lengths()) {
    if (length <= 4096) continue;
    const size_t waste = PayloadBytes(SizeClassOf(length)) - length;
    ASSERT_LE(waste * 8, length) << length;
    if (length > 2 << 20) {
      ASSERT_LT(waste, 64u << 10) << length;
    }
  }
}

TEST(SizeClass, PowersOfTwoWasteNothing) {
  for (size_t length = 4096; length <= size_t{1} << 32; length *= 2)
    EXPECT_EQ(PayloadBytes(SizeClassOf(length)), length);
}

TEST(SizeClass, KeepsHeadersAndPayloadsAligned) {
  for (SizeClass c = 0; c < 2000; ++c) {
    EXPECT_EQ(SlotBytes(c), PayloadBytes(c) + 512);
    EXPECT_EQ(SlotBytes(c) % 512, 0u);
    EXPECT_EQ(SizeClassOf(PayloadBytes(c)), c);
  }
}

}  // namespace
}  // namespace peercache
