#include "base/entropy.h"

#include <gtest/gtest.h>

#include <string>

namespace peercache {
namespace {

TEST(Entropy, IsThatOfTheSmallestAlphabet) {
  EXPECT_EQ(EntropyBits(""), 0);
  EXPECT_EQ(EntropyBits("0123456789abcdef0123456789abcdef"), 128);  // openssl rand -hex 16
  EXPECT_EQ(EntropyBits("0123456789ABCDEF"), 64);
  EXPECT_EQ(EntropyBits("AAECAwQFBgcICQoLDA0ODw=="), 144);  // openssl rand -base64 16
  EXPECT_EQ(EntropyBits(std::string("\0\x01\x02\x03\x80\xff....abcdef", 16)), 128);
  EXPECT_NEAR(EntropyBits("1234567890"), 33.2, 0.1);
  EXPECT_NEAR(EntropyBits("correct horse"), 85.4, 0.1);
}

}  // namespace
}  // namespace peercache
