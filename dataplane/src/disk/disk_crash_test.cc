// The process is killed, or the power fails, at a random point of a random load; then every key is
// read, and every byte compared with what may be there.

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "disk/disk_testing.h"

namespace peercache::disk {
namespace {

using namespace testing;  // NOLINT: names of the tests' own helpers

constexpr uint64_t kKeys = 300, kTags = 4;
constexpr int kCrashes = 60;  // of each of four tests, which run beside each other

uint64_t TagOf(uint64_t number) { return number % kTags; }
size_t LengthOf(uint64_t number, uint64_t version) {
  return 1 + SplitMix64(number + 1000 * version) % 30000;
}

class CrashTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  void RandomStep(std::mt19937_64& random) {
    const uint64_t number = random() % kKeys;
    switch (random() % 32) {
      case 0: {
        const uint64_t tag = random() % kTags;
        // Versions change only with clears: nobody puts other bytes under a key otherwise.
        ASSERT_TRUE(ClearForGood(*sim_.tier, tag, ++epoch_));
        ++clears_[tag];
        break;
      }
      case 1:
        if (sim_.tier->Flush(Clock::now() + kEndsAHang).ok()) {
          flushed_ = puts_;
        }
        break;
      case 2:
      case 3:
      case 4: (void)Check(random() % kKeys); break;
      default: {
        const uint64_t version = clears_[TagOf(number)];
        const PutResult put =
            PutPage(*sim_.tier, number, version, LengthOf(number, version), TagOf(number));
        if (put.what == PutResult::What::kTaken) puts_[number] = version;
      }
    }
  }

  // A hit has the bytes of the version after the last clear, whole.
  ReadOutcome Check(uint64_t number) {
    const uint64_t version = clears_[TagOf(number)];
    const ReadBack back = ReadPage(*sim_.tier, KeyOf(number));
    if (back.outcome == ReadOutcome::kHit) {
      EXPECT_TRUE(HasRightBytes("page " + std::to_string(number), back.bytes,
                                BytesOf(number, version, LengthOf(number, version))));
      ++hits_;
    }
    return back.outcome;
  }

  SimTier sim_;
  std::map<uint64_t, uint64_t> clears_;          // how many, by tag
  std::map<uint64_t, uint64_t> puts_, flushed_;  // since the last crash: versions, by number
  uint64_t epoch_ = 0, hits_ = 0;
};

TEST_P(CrashTest, NoWrongBytesAndNoClearedPageAfterAnyCrash) {
  std::mt19937_64 random(GetParam());
  // Contents are read slowly: some 40 ms for all regions.
  sim_.delay = [](const IoRequest& request) -> Duration {
    return request.op == IoRequest::Op::kRead && request.bytes() == 4 * kBlock &&
                   request.offset % kSmallRegion == 0
               ? Duration(milliseconds(3))
               : Duration{};
  };
  ASSERT_TRUE(sim_.Open().ok());
  uint64_t kept = 0, lost = 0, after_power_loss = 0, during_recovery = 0;
  for (int crash = 0; crash < kCrashes; ++crash) {
    puts_.clear();
    flushed_.clear();
    const uint64_t steps = random() % 120;
    for (uint64_t i = 0; i < steps; ++i) RandomStep(random);
    const bool power = crash % 2 == 1;
    const uint64_t evicted = sim_.tier->counts().evicted.load();
    sim_.Crash(power, &random);
    ASSERT_TRUE(sim_.Open().ok());
    if (crash % 4 < 2) {
      ASSERT_TRUE(sim_.Recovered());
    } else {
      // Life goes on while recovery is under way: regions are given up unread, tags are cleared.
      during_recovery += sim_.tier->recovered() ? 0 : 1;
      for (int i = 0; i < 30; ++i) RandomStep(random);
    }
    const uint64_t before = hits_;
    for (uint64_t number = 0; number < kKeys; ++number) {
      const ReadOutcome outcome = Check(number);
      const auto flushed = flushed_.find(number);
      // What was flushed is there after a kill, unless its region was given up since.
      if (power || crash % 4 >= 2 || evicted != 0 || flushed == flushed_.end() ||
          flushed->second != clears_[TagOf(number)])
        continue;
      ++(outcome == ReadOutcome::kHit ? kept : lost);
    }
    if (power) after_power_loss += hits_ - before;
    ASSERT_TRUE(sim_.Recovered());
  }
  EXPECT_GT(kept, 20u);
  EXPECT_EQ(lost, 0u);
  EXPECT_GT(during_recovery, 10u);
  EXPECT_GT(after_power_loss, 200u) << "a crash that loses everything tests nothing";
}

INSTANTIATE_TEST_SUITE_P(Seeds, CrashTest, ::testing::Range<uint64_t>(1, 5));

// Without a flush, what is lost is what was put within flush_after.
TEST(KillTest, AKillLosesOnlyTheLastPages) {
  SimTier sim;
  sim.options.log.flush_after = milliseconds(20);
  ASSERT_TRUE(sim.Open().ok());
  ASSERT_TRUE(sim.Recovered());
  std::mt19937_64 random(1);
  std::vector<TimePoint> put_at;
  for (uint64_t i = 0; i < 200; ++i) {
    ASSERT_TRUE(PutInTime(*sim.tier, i, 0, 20000));
    put_at.push_back(Clock::now());
    std::this_thread::sleep_for(milliseconds(4));
  }
  const TimePoint killed = Clock::now();
  sim.Crash(false, &random);
  ASSERT_TRUE(sim.Open().ok());
  ASSERT_TRUE(sim.Recovered());
  EXPECT_EQ(sim.tier->counts().recovered.Of(Recovered::kCorruptBlock), 0u);
  uint64_t old = 0;
  for (uint64_t i = 0; i < 200; ++i) {
    const ReadOutcome outcome = ReadAndCheck(*sim.tier, i, 0, 20000);
    // A block waits for flush_after, behind data that waits for it; the rest is for a busy machine.
    if (killed - put_at[i] < milliseconds(500)) continue;
    ++old;
    EXPECT_EQ(outcome, ReadOutcome::kHit) << i;
  }
  EXPECT_GT(old, 10u);
}

}  // namespace
}  // namespace peercache::disk
