#include "base/sha256.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

namespace peercache {
namespace {

std::string Hex(const Sha256::Digest& digest) {
  std::string text;
  for (const uint8_t byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

// The examples of FIPS 180-4 and of NIST's test vectors.
TEST(Sha256, GivesTheDigestsOfTheStandard) {
  EXPECT_EQ(Hex(Sha256().Finish()),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Hex(Sha256().Add("abc").Finish()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Hex(Sha256().Add("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq").Finish()),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(Hex(Sha256().Add(std::string(1'000'000, 'a')).Finish()),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, IsTheSameHoweverTheBytesAreCut) {
  // Lengths around those at which the padding takes a block of its own.
  for (size_t length = 50; length < 140; ++length) {
    std::string text;
    for (size_t i = 0; i < length; ++i) text += static_cast<char>(i);
    const auto whole = Sha256().Add(text).Finish();
    for (size_t cut = 0; cut <= length; cut += 7) {
      const std::string_view view = text;
      EXPECT_EQ(Sha256().Add(view.substr(0, cut)).Add(view.substr(cut)).Finish(), whole)
          << length << " bytes, cut at " << cut;
    }
  }
}

}  // namespace
}  // namespace peercache
