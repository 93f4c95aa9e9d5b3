// Drives that cannot be opened at the start, because another process has the file, and later can.

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <algorithm>
#include <array>

#include "base/fd.h"
#include "disk/device_file.h"
#include "disk/disk_testing.h"

namespace peercache::disk {
namespace {

using namespace testing;  // NOLINT: names of the tests' own helpers

constexpr uint64_t kPages = 20, kTag = 1, kOther = 2;
constexpr size_t kLength = 9000;

class DiskLateTest : public ::testing::Test {
 protected:
  // Leaves pages of two tags, half of each, and opens the tier again while somebody has the file.
  DiskLateTest() {
    options_.patience = options_.open_again = milliseconds(20);
    options_.missed = [this](const ClearList& known) {
      const std::lock_guard lock(mutex_);
      known_ = known;
      return missed_;
    };
    Open();
    EXPECT_TRUE(Eventually([&] { return tier_->on() && tier_->recovered(); }));
    for (uint64_t i = 0; i < kPages; ++i)
      EXPECT_TRUE(PutInTime(*tier_, i, 0, kLength, i % 2 == 0 ? kTag : kOther));
    EXPECT_TRUE(tier_->Flush(Clock::now() + kEndsAHang).ok());
    // A second life within a moment: its sequences are ahead of the clock.
    Open();
    EXPECT_TRUE(Eventually([&] { return tier_->on() && tier_->recovered(); }));
    EXPECT_TRUE(PutInTime(*tier_, kPages, 0, kLength, kTag));
    EXPECT_TRUE(tier_->Flush(Clock::now() + kEndsAHang).ok());
    tier_.reset();
    const std::string path = folder_.path() + "/" + kFileName;
    other_.Reset(open(path.c_str(), O_RDWR | O_CLOEXEC));
    EXPECT_EQ(flock(other_.get(), LOCK_EX | LOCK_NB), 0);
    Open();
    EXPECT_FALSE(tier_->on());
    EXPECT_NE(Why().find("is in use by another process"), std::string::npos) << Why();
    EXPECT_EQ(PutPage(*tier_, 100, 0, kLength).why, Drop::kOff);
    EXPECT_EQ(Hits(kTag) + Hits(kOther), 0u);
  }
  void Open() {
    tier_.reset();
    Result<std::unique_ptr<DiskTier>> opened = DiskTier::Open(options_, nullptr);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    tier_ = std::move(opened).value();
  }
  void TheyKnow(std::optional<std::vector<MissedClear>> missed) {
    const std::lock_guard lock(mutex_);
    missed_ = std::move(missed);
  }
  bool IsOn() {
    return Eventually([&] { return tier_->on() && tier_->recovered(); });
  }
  std::string Why() const { return tier_->stats().devices[0].why; }
  uint64_t Hits(uint64_t tag) {
    uint64_t hits = 0;
    for (uint64_t i = tag == kTag ? 0 : 1; i < kPages; i += 2)
      hits += ReadAndCheck(*tier_, i, 0, kLength) == ReadOutcome::kHit ? 1 : 0;
    return hits;
  }

  DiskFolder folder_;
  DiskOptions options_ = SmallOptions({folder_.path()});
  UniqueFd other_;
  std::mutex mutex_;
  std::optional<std::vector<MissedClear>> missed_;
  ClearList known_;
  std::unique_ptr<DiskTier> tier_;
};

TEST_F(DiskLateTest, IsUsedWhenTheOtherProcessHasEndedAndItsClearsAreKnown) {
  other_.Reset();
  EXPECT_TRUE(Eventually([&] { return Why().find("clears") != std::string::npos; })) << Why();
  EXPECT_FALSE(tier_->on());
  TheyKnow(std::vector<MissedClear>{});
  ASSERT_TRUE(IsOn());
  EXPECT_EQ(Why(), "");
  EXPECT_EQ(Hits(kTag) + Hits(kOther), kPages);
  EXPECT_TRUE(PutInTime(*tier_, 100, 0, kLength));
  ASSERT_TRUE(tier_->Flush(Clock::now() + kEndsAHang).ok());
  EXPECT_EQ(ReadAndCheck(*tier_, 100, 0, kLength), ReadOutcome::kHit);
}

TEST_F(DiskLateTest, HasNoPagesThatWereClearedMeanwhile) {
  TheyKnow(std::vector<MissedClear>{{kOther, 7}});
  other_.Reset();
  ASSERT_TRUE(IsOn());
  EXPECT_EQ(Hits(kTag), kPages / 2);
  EXPECT_EQ(Hits(kOther), 0u);
  Open();
  ASSERT_TRUE(IsOn());
  EXPECT_EQ(Hits(kTag), kPages / 2);
  EXPECT_EQ(Hits(kOther), 0u) << "it is recorded";
  EXPECT_EQ(tier_->clears().tags().size(), 1u);
}

// Also of a clear that came while nobody knew the drive.
TEST_F(DiskLateTest, HasNoPagesThatThisProcessHasCleared) {
  TheyKnow(std::vector<MissedClear>{});
  tier_->Clear(kOther, 1);
  other_.Reset();
  ASSERT_TRUE(IsOn());
  EXPECT_EQ(Hits(kTag), kPages / 2);
  EXPECT_EQ(Hits(kOther), 0u);
}

// Who finds nothing but the other drive the next time begins behind what this process counts.
TEST_F(DiskLateTest, TheOtherDriveHasTheRangeToo) {
  const DiskFolder another;
  const std::string late = options_.paths[0];
  options_.paths = {late, another.path()};
  Open();
  const auto both = [&] {
    return std::ranges::all_of(tier_->stats().devices, &DeviceHealth::on) && tier_->recovered();
  };
  EXPECT_FALSE(both());
  TheyKnow(std::vector<MissedClear>{});
  other_.Reset();
  ASSERT_TRUE(Eventually(both));
  EXPECT_EQ(Hits(kTag) + Hits(kOther), kPages);
  for (uint64_t i = 100; i < 120; ++i) ASSERT_TRUE(PutInTime(*tier_, i, 0, kLength, kTag));
  ASSERT_TRUE(tier_->Flush(Clock::now() + kEndsAHang).ok());
  options_.paths = {another.path()};
  Open();
  ASSERT_TRUE(IsOn());
  EXPECT_GT(tier_->stats().pages, 0u);
  EXPECT_TRUE(ClearForGood(*tier_, kTag, 1));
  EXPECT_TRUE(Eventually([&] { return tier_->stats().pages == 0; }));
}

// Nor does a drive wait for another that has failed, which has the range before it is on again.
TEST(DiskLate, ADriveThatIsOffMeanwhileHasTheRangeToo) {
  SimTier sim(2);
  const std::vector<std::string> both = {sim.path(0), sim.path(1)};
  sim.options.device.breaker.retry.first = sim.options.patience = sim.options.open_again =
      milliseconds(20);
  sim.options.missed = [](const ClearList&) { return std::vector<MissedClear>{}; };
  sim.options.paths = {both[0]};
  for (int life = 0; life < 2; ++life) {
    ASSERT_TRUE(sim.Open().ok());
    ASSERT_TRUE(sim.Recovered());
    sim.tier.reset();
  }
  UniqueFd other(open((both[0] + "/" + kFileName).c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(flock(other.get(), LOCK_EX | LOCK_NB), 0);
  sim.options.paths = both;
  ASSERT_TRUE(sim.Open().ok());
  const auto on = [&](size_t i) { return sim.tier->stats().devices[i].on; };
  EXPECT_TRUE(on(1));
  sim.disk(1).SetFault([](const IoRequest&) { return -EIO; });
  EXPECT_FALSE(ClearForGood(*sim.tier, 2, 1));
  EXPECT_FALSE(on(1));
  other.Reset();
  ASSERT_TRUE(Eventually([&] { return on(0); }));
  EXPECT_FALSE(on(1));
  sim.disk(1).SetFault({});
  ASSERT_TRUE(Eventually([&] { return on(1); }));
  // While a drive has no region to fill, its pages go to the other one.
  DiskPage found;
  for (uint64_t i = 0; found.length == 0 || found.at.device != 1; ++i) {
    ASSERT_TRUE(PutInTime(*sim.tier, i, 0, kLength, kTag));
    ASSERT_TRUE(sim.tier->Flush(Clock::now() + kEndsAHang).ok());
    sim.tier->Find(std::array{KeyOf(i)}, std::span(&found, 1));
  }
  sim.tier.reset();
  sim.options.paths = {both[1]};
  ASSERT_TRUE(sim.Open().ok());
  ASSERT_TRUE(sim.Recovered());
  EXPECT_GT(sim.tier->stats().pages, 0u);
  EXPECT_TRUE(ClearForGood(*sim.tier, kTag, 1));
  EXPECT_TRUE(Eventually([&] { return sim.tier->stats().pages == 0; }));
}

TEST_F(DiskLateTest, HasNoPagesOfAGroupWhereItIsNotKnownWhatItHasMissed) {
  TheyKnow(std::vector<MissedClear>{{TagRange::OfGroup(GroupOf(kTag)), 7}});
  other_.Reset();
  ASSERT_TRUE(IsOn());
  EXPECT_EQ(Hits(kTag) + Hits(kOther), 0u);
  EXPECT_TRUE(PutInTime(*tier_, 100, 0, kLength));
}

}  // namespace
}  // namespace peercache::disk
