#include "pool/fingerprint.h"

#include <gtest/gtest.h>

namespace peercache {
namespace {

const Fingerprint kIs = {{"format", "1"}, {"size", "64Mi"}, {"node", "a"}};

TEST(Fingerprint, SaysWhatIsNotTheSame) {
  EXPECT_EQ(FingerprintDifference(FingerprintText(kIs), kIs), "");
  EXPECT_EQ(FingerprintDifference("format=1\nsize=32Mi\nnode=a\n", kIs),
            "size was 32Mi and is 64Mi");
  EXPECT_EQ(FingerprintDifference("format=2\nsize=64Mi\n", kIs),
            "format was 2 and is 1, node was unknown and is a");
  EXPECT_EQ(FingerprintDifference(FingerprintText(kIs) + "more=1\n", kIs),
            "it has more than this release knows");
}

TEST(Fingerprint, WasMayBeAnyBytes) {
  EXPECT_EQ(FingerprintDifference("", {{"size", "1"}}), "size was unknown and is 1");
  EXPECT_EQ(FingerprintDifference("\n\n=\nsize=", {{"size", "1"}}), "size was unknown and is 1");
  EXPECT_EQ(FingerprintDifference(std::string("size=\x1b[31m\0", 11), {{"size", "1"}}),
            "size was ?[31m? and is 1");
  const std::string was = FingerprintDifference("size=" + std::string(5000, 'x'), {{"size", "1"}});
  EXPECT_LT(was.size(), 200u);
}

}  // namespace
}  // namespace peercache
