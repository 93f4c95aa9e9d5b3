#include "disk/write_budget.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace peercache::disk {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

TEST(WriteBudgetTest, IsInDriveWritesOrBytesADay) {
  EXPECT_EQ(ParseWriteBudget("1", 100 * kGiB).value(), 100 * kGiB);
  EXPECT_EQ(ParseWriteBudget("0.5", 100 * kGiB).value(), 50 * kGiB);
  EXPECT_EQ(ParseWriteBudget("500Gi", 100 * kGiB).value(), 500 * kGiB);
  EXPECT_EQ(ParseWriteBudget("unlimited", 100 * kGiB).value(), 0u);
  for (const char* wrong : {"", "0", "-1", "nan", "inf", "1001", "1 dwpd", "0Gi", "5G"}) {
    const Result<uint64_t> parsed = ParseWriteBudget(wrong, 100 * kGiB);
    ASSERT_FALSE(parsed.ok()) << wrong;
    EXPECT_NE(parsed.status().message().find("disk-write-budget"), std::string::npos);
  }
}

TEST(WriteBudgetTest, ABatchIsWrittenOrNotAsAWhole) {
  const TimePoint now = Clock::now();
  WriteBudget budget(24 * kGiB, now);
  budget.Spend(kGiB / 2, now);  // half an hour's share is left
  int written = 0;
  for (uint64_t batch = 0; batch < 1000; ++batch) {
    const bool first = budget.Admits(batch, false, now);
    for (int page = 0; page < 10; ++page) EXPECT_EQ(budget.Admits(batch, false, now), first);
    written += first ? 1 : 0;
    EXPECT_TRUE(budget.Admits(batch, true, now)) << "it continues a hit";
  }
  EXPECT_NEAR(written, 500, 60);
  budget.Spend(kGiB, now);
  EXPECT_FALSE(budget.Admits(1, true, now)) << "nothing is left";
}

TEST(WriteBudgetTest, KeepsNoMoreThanADay) {
  const TimePoint now = Clock::now();
  WriteBudget budget(24 * kGiB, now);
  EXPECT_EQ(budget.Left(now), kGiB);
  EXPECT_EQ(budget.Left(now + std::chrono::hours(100)), 24.0 * kGiB);
}

// Three days of Set batches, four times as many as the budget allows.
TEST(WriteBudgetTest, ASimulationStaysWithinItAndRarelyCutsABatch) {
  constexpr uint64_t kPage = 128 << 10, kPagesOfABatch = 32;
  constexpr int kDays = 3;
  const TimePoint start = Clock::now();
  const uint64_t a_day = 20 * kGiB;
  WriteBudget budget(a_day, start);
  const uint64_t batches = kDays * a_day * 4 / (kPage * kPagesOfABatch);
  std::mt19937_64 random(1);
  uint64_t bytes = 0, whole = 0, cut = 0, continued = 0, continuing = 0;
  for (uint64_t batch = 0; batch < batches; ++batch) {
    const TimePoint now = start + Duration(std::chrono::hours(24 * kDays)) / batches * batch;
    const bool continues = random() % 20 == 0;
    uint64_t written = 0;
    for (uint64_t page = 0; page < kPagesOfABatch; ++page) {
      if (!budget.Admits(batch, continues, now)) continue;
      budget.Spend(kPage, now);
      ++written;
    }
    bytes += written * kPage;
    whole += written == kPagesOfABatch ? 1 : 0;
    cut += written != 0 && written != kPagesOfABatch ? 1 : 0;
    if (continues) {
      ++continuing;
      continued += written == kPagesOfABatch ? 1 : 0;
    }
  }
  EXPECT_LE(static_cast<double>(bytes), 1.02 * kDays * a_day);
  EXPECT_GE(static_cast<double>(bytes), 0.95 * kDays * a_day);
  EXPECT_EQ(continued, continuing);
  EXPECT_LT(static_cast<double>(cut), 0.01 * static_cast<double>(whole));
}

}  // namespace
}  // namespace peercache::disk
