#include "disk/disk_tier.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "base/checksum.h"
#include "disk/disk_testing.h"
#include "disk/log.h"

namespace peercache::disk {
namespace {

using namespace testing;  // NOLINT: names of the tests' own helpers

constexpr auto kTaken = PutResult::What::kTaken;

Status FlushAll(DiskTier& tier) { return tier.Flush(Clock::now() + kEndsAHang); }

// Once on a disk in memory, and with each engine on a real file under direct I/O.
class DiskTierTest : public ::testing::TestWithParam<IoKind> {
 protected:
  DiskTierTest() {
    options_ = SmallOptions({folder_.path()});
    options_.io = GetParam();
  }
  void Open() {
    tier_.reset();
    Result<std::unique_ptr<DiskTier>> opened = DiskTier::Open(options_, &witness_);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    tier_ = std::move(opened).value();
    ASSERT_TRUE(Eventually([&] { return tier_->recovered(); }));
  }

  DiskFolder folder_;
  DiskOptions options_;
  Witness witness_;
  std::unique_ptr<DiskTier> tier_;
};

TEST_P(DiskTierTest, GivesThePagesThatWerePutAlsoAfterARestart) {
  Open();
  const auto length = [](uint64_t i) { return 1 + SplitMix64(i) % 100000; };
  for (uint64_t i = 0; i < 40; ++i) ASSERT_TRUE(PutInTime(*tier_, i, 0, length(i)));
  ASSERT_TRUE(FlushAll(*tier_).ok());
  for (uint64_t i = 0; i < 40; ++i)
    EXPECT_EQ(ReadAndCheck(*tier_, i, 0, length(i)), ReadOutcome::kHit);
  EXPECT_EQ(ReadPage(*tier_, KeyOf(1000)).outcome, ReadOutcome::kAbsent);
  Open();
  for (uint64_t i = 0; i < 40; ++i)
    EXPECT_EQ(ReadAndCheck(*tier_, i, 0, length(i)), ReadOutcome::kHit);
  EXPECT_EQ(tier_->counts().recovered.Of(Recovered::kPage), 40u);
  EXPECT_EQ(tier_->counts().recovered.Of(Recovered::kCorruptBlock), 0u);
  DiskPage found[2];
  const Key keys[2] = {KeyOf(3), KeyOf(2000)};
  tier_->Find(keys, found);
  EXPECT_EQ(found[0].length, length(3));
  EXPECT_EQ(found[1].length, 0u);
}

TEST_P(DiskTierTest, GivesUpTheOldestPagesAndKeepsThoseThatAreRead) {
  Open();
  // Page 0 is read again and again, page 1 never.
  constexpr size_t kLength = 60000;
  for (uint64_t i = 0; i < 500; ++i) {
    ASSERT_TRUE(PutInTime(*tier_, i, 0, kLength));
    if (i == 1) {
      ASSERT_TRUE(FlushAll(*tier_).ok());
    }
    if (i >= 1 && i % 4 == 0) {
      ASSERT_EQ(ReadAndCheck(*tier_, 0, 0, kLength), ReadOutcome::kHit) << i;
    }
  }
  EXPECT_EQ(ReadPage(*tier_, KeyOf(1)).outcome, ReadOutcome::kAbsent);
  EXPECT_GT(tier_->counts().reinserted.load(), 0u);
  EXPECT_GT(tier_->counts().evicted.load(), 250u);
  // Whether a page was read is not on disk: a region that is to be given up goes first.
  EXPECT_TRUE(Eventually([&] { return tier_->stats().devices[0].regions_free >= 3; }));
  ASSERT_TRUE(FlushAll(*tier_).ok());
  Open();
  EXPECT_EQ(ReadAndCheck(*tier_, 0, 0, kLength), ReadOutcome::kHit);
  EXPECT_EQ(ReadAndCheck(*tier_, 499, 0, kLength), ReadOutcome::kHit);
  EXPECT_EQ(tier_->counts().reads.Of(ReadOutcome::kChecksum), 0u);
}

TEST_P(DiskTierTest, ClearedPagesDoNotComeBack) {
  Open();
  for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(PutInTime(*tier_, i, 0, 20000, i % 2));
  ASSERT_TRUE(FlushAll(*tier_).ok());
  // Taken, and perhaps not yet written.
  ASSERT_EQ(PutPage(*tier_, 100, 0, 20000, 1).what, kTaken);
  ASSERT_TRUE(ClearForGood(*tier_, 1, 777));
  // The same key with other bytes.
  ASSERT_TRUE(PutInTime(*tier_, 3, 1, 30000, 1));
  ASSERT_TRUE(FlushAll(*tier_).ok());
  for (int pass = 0; pass < 2; ++pass) {
    for (uint64_t i = 0; i < 20; ++i) {
      if (i == 3)
        EXPECT_EQ(ReadAndCheck(*tier_, i, 1, 30000), ReadOutcome::kHit);
      else
        EXPECT_EQ(ReadAndCheck(*tier_, i, 0, 20000),
                  i % 2 == 1 ? ReadOutcome::kAbsent : ReadOutcome::kHit);
    }
    EXPECT_EQ(ReadPage(*tier_, KeyOf(100)).outcome, ReadOutcome::kAbsent);
    Open();
  }
  ASSERT_EQ(tier_->clears().tags().size(), 1u);
  EXPECT_EQ(tier_->clears().tags()[0].epoch, 777u);
  ASSERT_TRUE(ClearForGood(*tier_, TagRange::OfGroup(0), 778));
  Open();
  for (uint64_t i = 0; i < 20; ++i)
    EXPECT_EQ(ReadPage(*tier_, KeyOf(i)).outcome, ReadOutcome::kAbsent);
}

TEST_P(DiskTierTest, ReadsIntoMemoryThatEndsWithThePage) {
  Open();
  std::vector<size_t> lengths = {1, 511, 512, 4095, 4096, 4097, 70000};
  for (uint64_t i = 0; i < lengths.size(); ++i) ASSERT_TRUE(PutInTime(*tier_, i, 0, lengths[i]));
  ASSERT_TRUE(FlushAll(*tier_).ok());
  for (uint64_t i = 0; i < lengths.size(); ++i) {
    AlignedBuffer memory(lengths[i] + 16);
    std::memset(memory.data(), 0x5a, memory.size());
    DiskRead read;
    read.key = KeyOf(i);
    read.memory = memory.bytes().first(lengths[i]);
    DiskRead* const batch[] = {&read};
    EXPECT_EQ(tier_->Read(batch, Clock::now() + kEndsAHang), 0u);
    ASSERT_EQ(read.outcome, ReadOutcome::kHit);
    EXPECT_TRUE(HasRightBytes("page", read.memory, BytesOf(i, 0, lengths[i])));
    for (size_t at = lengths[i]; at < memory.size(); ++at)
      ASSERT_EQ(memory.data()[at], std::byte{0x5a}) << "written behind the page";
    read.memory = memory.bytes().first(lengths[i] - 1);
    EXPECT_EQ(tier_->Read(batch, Clock::now()), 0u);
    EXPECT_EQ(read.outcome, ReadOutcome::kMisfit);
  }
}

TEST_P(DiskTierTest, ManyThreadsPutReadAndClearAtOnce) {
  Open();
  constexpr uint64_t kKeys = 400;
  std::atomic<uint64_t> hits{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      AlignedBuffer memory(8 * 65536);
      for (int round = 0; round < 150; ++round) {
        for (int i = 0; i < 4; ++i) {
          const uint64_t number = random() % kKeys;
          (void)PutPage(*tier_, number, 0, 1 + SplitMix64(number) % 65536, number % 3);
        }
        std::array<DiskRead, 8> reads;
        std::array<DiskRead*, 8> batch;
        std::array<uint64_t, 8> numbers;
        for (size_t i = 0; i < reads.size(); ++i) {
          numbers[i] = random() % kKeys;
          reads[i].key = KeyOf(numbers[i]);
          reads[i].memory = memory.bytes().subspan(i * 65536, 65536);
          batch[i] = &reads[i];
        }
        ASSERT_EQ(tier_->Read(batch, Clock::now() + kEndsAHang), 0u);
        for (size_t i = 0; i < reads.size(); ++i) {
          if (reads[i].outcome != ReadOutcome::kHit) continue;
          ++hits;
          EXPECT_TRUE(HasRightBytes("page", reads[i].memory.first(reads[i].page.length),
                                    BytesOf(numbers[i], 0, 1 + SplitMix64(numbers[i]) % 65536)));
        }
        if (t == 0 && round % 50 == 49) {
          EXPECT_TRUE(ClearForGood(*tier_, 1, round));
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(hits.load(), 0u);
  EXPECT_EQ(tier_->counts().reads.Of(ReadOutcome::kChecksum), 0u);
  EXPECT_EQ(tier_->counts().reads.Of(ReadOutcome::kError), 0u);
}

INSTANTIATE_TEST_SUITE_P(Engines, DiskTierTest,
                         ::testing::Values(IoKind::kUring, IoKind::kAio, IoKind::kThreads),
                         [](const auto& kind) { return std::string(IoKindName(kind.param)); });

TEST(DiskTierSimTest, TellsItsObserverOfEveryPageThatComesAndGoes) {
  SimTier sim;
  Witness witness;
  ASSERT_TRUE(sim.Open(&witness).ok());
  ASSERT_TRUE(sim.Recovered());
  for (uint64_t i = 0; i < 300; ++i) ASSERT_TRUE(PutInTime(*sim.tier, i, 0, 60000, i % 2));
  ASSERT_TRUE(FlushAll(*sim.tier).ok());
  // Until then regions are given up, and their pages go.
  ASSERT_TRUE(Eventually([&] { return sim.tier->stats().devices[0].regions_free >= 3; }));
  uint64_t found = 0;
  uint64_t some = 0;
  ForEachPage(*sim.tier, [&](const DiskPage& page) {
    ++found;
    if (page.tag == 1) some = page.sequence;
    EXPECT_TRUE(witness.Heard(page.sequence, 1, 0));
    EXPECT_TRUE(sim.tier->Contains(page.key, page.sequence));
  });
  EXPECT_EQ(found, sim.tier->stats().pages);
  EXPECT_GT(found, 20u);
  ASSERT_TRUE(ClearForGood(*sim.tier, 1, 1));
  sim.tier->AwaitSwept(Clock::now() + kEndsAHang);
  EXPECT_TRUE(witness.Heard(some, 1, 1));
}

// Slow to hear of pages that go, as a directory that does not answer.
class SlowObserver final : public PageObserver {
 public:
  void Stored(std::span<const DiskPage>) override {}
  void Back() override {}
  void AwaitTold() override {
    while (held_) std::this_thread::sleep_for(milliseconds(1));
  }
  void Dropped(std::span<const DiskPage> pages) override { dropped_ += pages.size(); }
  std::atomic<bool> held_{true};
  std::atomic<size_t> dropped_{0};
};

TEST(DiskTierSimTest, AClearDoesNotWaitForThePassOverTheIndex) {
  SlowObserver observer;
  SimTier sim;
  ASSERT_TRUE(sim.Open(&observer).ok());
  ASSERT_TRUE(sim.Recovered());
  for (uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(PutInTime(*sim.tier, i, 0, 9000, i % 2));
  ASSERT_TRUE(FlushAll(*sim.tier).ok());
  DiskPage before;
  const Key key = KeyOf(1);
  sim.tier->Find(std::span(&key, 1), std::span(&before, 1));
  ASSERT_EQ(before.length, 9000u);
  ASSERT_TRUE(ClearForGood(*sim.tier, 1, 1));
  EXPECT_LT(observer.dropped_, 50u) << "it waits after a few";
  // Nobody finds one of them, in whatever way.
  for (uint64_t i = 0; i < 100; ++i)
    EXPECT_EQ(ReadAndCheck(*sim.tier, i, 0, 9000),
              i % 2 == 1 ? ReadOutcome::kAbsent : ReadOutcome::kHit);
  EXPECT_FALSE(sim.tier->Contains(key, before.sequence));
  EXPECT_FALSE(sim.tier->UpdateNote(key, before.sequence, [](uint32_t note) { return note; }));
  ForEachPage(*sim.tier, [](const DiskPage& page) { EXPECT_EQ(page.tag, 0u); });
  // Its key may be set again.
  ASSERT_TRUE(PutInTime(*sim.tier, 3, 1, 8000, 1));
  observer.held_ = false;
  ASSERT_TRUE(FlushAll(*sim.tier).ok());
  sim.tier->AwaitSwept(Clock::now() + kEndsAHang);
  EXPECT_EQ(observer.dropped_, 50u);
  EXPECT_EQ(sim.tier->stats().pages, 51u);
  EXPECT_EQ(ReadAndCheck(*sim.tier, 3, 1, 8000), ReadOutcome::kHit);
}

TEST(DiskTierSimTest, AClearIsTwoWritesOnEachDriveAndTheDrivesAreSyncedAtOnce) {
  std::atomic<int> writes{0}, syncs{0};
  std::atomic<bool> counts{false};
  SimTier sim(3);
  sim.delay = [&](const IoRequest& request) -> Duration {
    if (!counts) return {};
    if (request.op == IoRequest::Op::kWrite && request.offset < kFirstRegionAt) ++writes;
    if (request.op == IoRequest::Op::kSync) ++syncs;
    return {};
  };
  // None ends before all have begun.
  sim.held = [&](const IoRequest& request) {
    return counts && request.op == IoRequest::Op::kSync && syncs % 3 != 0;
  };
  ASSERT_TRUE(sim.Open().ok());
  ASSERT_TRUE(sim.Recovered());
  counts = true;
  EXPECT_TRUE(ClearForGood(*sim.tier, 1, 1)) << "one after another?";
  counts = false;
  EXPECT_EQ(writes, 6);
  EXPECT_EQ(syncs, 6);
}

TEST(DiskTierSimTest, AClearIsInForceWhileADriveTakesLongToRecordIt) {
  std::mt19937_64 random(5);
  std::atomic<bool> held{false}, recorded{false};
  SimTier sim;
  sim.held = [&](const IoRequest& request) { return held && request.op == IoRequest::Op::kSync; };
  ASSERT_TRUE(sim.Open().ok());
  ASSERT_TRUE(sim.Recovered());
  for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(PutInTime(*sim.tier, i, 0, 9000, i % 2));
  ASSERT_TRUE(FlushAll(*sim.tier).ok());
  held = true;
  sim.tier->Clear(1, 1);
  std::thread recorder([&] {
    EXPECT_TRUE(sim.tier->RecordClears());
    recorded = true;
  });
  EXPECT_EQ(ReadPage(*sim.tier, KeyOf(1)).outcome, ReadOutcome::kAbsent);
  EXPECT_TRUE(PutInTime(*sim.tier, 11, 1, 9000, 1)) << "it is a page after the clear";
  sim.tier->Clear(3, 2);
  EXPECT_TRUE(FlushAll(*sim.tier).ok());
  EXPECT_EQ(ReadAndCheck(*sim.tier, 11, 1, 9000), ReadOutcome::kHit);
  EXPECT_FALSE(recorded) << "for good before it is on the drive";
  held = false;
  recorder.join();
  sim.Crash(true, &random);
  ASSERT_TRUE(sim.Open().ok());
  ASSERT_TRUE(sim.Recovered());
  for (uint64_t i = 1; i < 10; i += 2)
    EXPECT_EQ(ReadPage(*sim.tier, KeyOf(i)).outcome, ReadOutcome::kAbsent);
}

TEST(DiskTierSimTest, KeepsNotesAlsoOfPagesThatMove) {
  SimTier sim;
  ASSERT_TRUE(sim.Open().ok());
  ASSERT_TRUE(sim.Recovered());
  ASSERT_TRUE(PutInTime(*sim.tier, 0, 0, 60000));
  ASSERT_TRUE(FlushAll(*sim.tier).ok());
  uint64_t sequence = 0;
  ForEachPage(*sim.tier, [&](const DiskPage& page) { sequence = page.sequence; });
  EXPECT_TRUE(sim.tier->UpdateNote(KeyOf(0), sequence, [](uint32_t note) { return note + 7; }));
  EXPECT_FALSE(sim.tier->UpdateNote(KeyOf(0), sequence + 1, [](uint32_t note) { return note; }));
  for (uint64_t i = 1; i < 400; ++i) {
    ASSERT_TRUE(PutInTime(*sim.tier, i, 0, 60000));
    if (i % 4 == 0) {
      ASSERT_EQ(ReadAndCheck(*sim.tier, 0, 0, 60000), ReadOutcome::kHit);
    }
  }
  EXPECT_GT(sim.tier->counts().reinserted.load(), 0u);
  EXPECT_TRUE(sim.tier->UpdateNote(KeyOf(0), sequence, [](uint32_t note) {
    EXPECT_EQ(note, 7u);
    return note;
  }));
}

TEST(DiskTierSimTest, WritesWithinItsBudget) {
  SimTier sim;
  sim.options.bytes_a_day = 24 * 500'000;
  ASSERT_TRUE(sim.Open().ok());
  ASSERT_TRUE(sim.Recovered());
  for (uint64_t i = 0; i < 100; ++i) (void)PutPage(*sim.tier, i, 0, 50000);
  ASSERT_TRUE(FlushAll(*sim.tier).ok());
  EXPECT_LT(sim.tier->counts().stored_bytes.load(), 600'000u);
  EXPECT_GT(sim.tier->counts().dropped.Of(Drop::kBudget), 50u);
}

// docs/disk.md: what is written beside the pages wears the drive.
TEST(DiskTierSimTest, WritesAHundredthMoreThanThePagesAtMost) {
  std::atomic<uint64_t> written{0};
  SimTier sim;
  sim.options.log.flush_after = LogLimits{}.flush_after;
  sim.delay = [&](const IoRequest& request) -> Duration {
    if (request.op == IoRequest::Op::kWrite)
      for (int i = 0; i < request.parts; ++i) written += request.part[i].iov_len;
    return {};
  };
  ASSERT_TRUE(sim.Open().ok());
  ASSERT_TRUE(sim.Recovered());
  written = 0;
  for (uint64_t i = 0; i < 48; ++i) ASSERT_TRUE(PutInTime(*sim.tier, i, 0, 128 << 10));
  ASSERT_TRUE(FlushAll(*sim.tier).ok());
  const uint64_t stored = sim.tier->counts().stored_bytes;
  ASSERT_EQ(stored, 48u * (128 << 10));
  EXPECT_EQ(sim.tier->counts().reinserted, 0u);
  EXPECT_GE(written, stored);
  EXPECT_LE(static_cast<double>(written), 1.01 * static_cast<double>(stored));
}

TEST(DiskTierSimTest, WritesNoFasterThanItsRate) {
  constexpr uint64_t kRate = 10'000'000;
  SimTier sim;
  sim.options.log.write_rate = kRate;
  ASSERT_TRUE(sim.Open().ok());
  ASSERT_TRUE(sim.Recovered());
  const TimePoint start = Clock::now();
  for (uint64_t i = 0; i < 48; ++i) ASSERT_TRUE(PutInTime(*sim.tier, i, 0, 128 << 10));
  ASSERT_TRUE(FlushAll(*sim.tier).ok());
  const std::chrono::duration<double> took = Clock::now() - start;
  // Two writes may go at once: one of the burst, and the time of the first tick.
  const double bytes = 48.0 * (128 << 10) - 2 * kWriteBytes;
  EXPECT_LE(bytes / took.count(), 1.0 * kRate);
}

TEST(DiskTierSimTest, TakesNoPageThatIsThereOrTooLong) {
  SimTier sim;
  ASSERT_TRUE(sim.Open().ok());
  ASSERT_TRUE(sim.Recovered());
  ASSERT_TRUE(PutInTime(*sim.tier, 1, 0, 5000));
  ASSERT_TRUE(FlushAll(*sim.tier).ok());
  EXPECT_EQ(PutPage(*sim.tier, 1, 0, 5000).what, PutResult::What::kAlready);
  EXPECT_EQ(PutPage(*sim.tier, 2, 0, (256 << 10) + 1).why, Drop::kLength);
  EXPECT_EQ(PutPage(*sim.tier, 2, 0, 0).why, Drop::kLength);
}

TEST(DiskTierSimTest, ShortPagesFillTheIndexAndTheOldestGiveWay) {
  SimTier sim;
  sim.options.mean_page_bytes = 64 << 10;
  ASSERT_TRUE(sim.Open().ok());
  ASSERT_TRUE(sim.Recovered());
  constexpr uint64_t kPages = 800;
  ASSERT_GT(kPages, sim.tier->stats().capacity_pages);
  for (uint64_t i = 0; i < kPages; ++i) {
    ASSERT_TRUE(PutInTime(*sim.tier, i, 0, 4000));
    std::this_thread::sleep_for(milliseconds(2));
  }
  ASSERT_TRUE(FlushAll(*sim.tier).ok());
  EXPECT_EQ(ReadAndCheck(*sim.tier, kPages - 1, 0, 4000), ReadOutcome::kHit);
  EXPECT_EQ(ReadPage(*sim.tier, KeyOf(0)).outcome, ReadOutcome::kAbsent);
  EXPECT_LE(sim.tier->stats().pages, sim.tier->stats().capacity_pages);
  EXPECT_GT(sim.tier->counts().evicted.load(), 100u);
  EXPECT_EQ(sim.tier->counts().dropped.Of(Drop::kIndex), 0u);
}

TEST(DiskTierSimTest, SpreadsBatchesOverItsDevices) {
  SimTier sim(3);
  ASSERT_TRUE(sim.Open().ok());
  ASSERT_TRUE(sim.Recovered());
  for (uint64_t i = 0; i < 60; ++i) ASSERT_TRUE(PutInTime(*sim.tier, i, 0, 50000));
  ASSERT_TRUE(FlushAll(*sim.tier).ok());
  std::array<int, 3> pages{};
  ForEachPage(*sim.tier, [&](const DiskPage& page) { ++pages[page.at.device]; });
  for (const int count : pages) EXPECT_EQ(count, 20);
  for (uint64_t i = 0; i < 60; ++i)
    EXPECT_EQ(ReadAndCheck(*sim.tier, i, 0, 50000), ReadOutcome::kHit);
}

TEST(DiskTierSimTest, ABatchStaysOnItsDeviceWhileThatKeepsUpAndThenGoesToTheNext) {
  SimTier sim(2);
  sim.options.log.write_rate = 1;  // a byte a second: what is put waits in the write buffers
  sim.options.log.flush_after = kEndsAHang;  // they are full when they wait, however slow Put is
  ASSERT_TRUE(sim.Open().ok());
  ASSERT_TRUE(sim.Recovered());
  const auto put = [&](uint64_t i) {
    return sim.tier->Put({.key = KeyOf(i), .tag = 1, .batch = 0}, BytesOf(i, 0, 50000)).what;
  };
  const auto queued = [&](size_t device) { return sim.tier->stats().devices[device].queued_bytes; };
  uint64_t page = 0;
  for (; page < 20; ++page) ASSERT_EQ(put(page), PutResult::What::kTaken) << page;
  EXPECT_GT(queued(0), 0u);
  EXPECT_EQ(queued(1), 0u);
  while (queued(1) == 0 && page < 60) ASSERT_EQ(put(page++), PutResult::What::kTaken) << page;
  EXPECT_GT(queued(1), 0u);
  EXPECT_LT(page, 60u);
}

TEST(DiskTierSimTest, GrowsAndShrinksWithItsSize) {
  SimTier sim;
  sim.options.bytes = kFirstRegionAt + 8 * kSmallRegion;
  ASSERT_TRUE(sim.Open().ok());
  ASSERT_TRUE(sim.Recovered());
  ASSERT_TRUE(PutInTime(*sim.tier, 1, 0, 50000));
  ASSERT_TRUE(FlushAll(*sim.tier).ok());
  sim.tier.reset();
  sim.options.bytes = kFirstRegionAt + 12 * kSmallRegion;
  ASSERT_TRUE(sim.Open().ok());
  ASSERT_TRUE(sim.Recovered());
  EXPECT_EQ(sim.tier->stats().devices[0].regions, 12u);
  EXPECT_EQ(ReadAndCheck(*sim.tier, 1, 0, 50000), ReadOutcome::kHit);
  sim.tier.reset();
  sim.options.bytes = kFirstRegionAt + 9 * kSmallRegion;
  ASSERT_TRUE(sim.Open().ok());
  ASSERT_TRUE(sim.Recovered());
  EXPECT_EQ(sim.tier->stats().devices[0].regions, 9u);
  EXPECT_EQ(ReadAndCheck(*sim.tier, 1, 0, 50000), ReadOutcome::kHit);
}

TEST(DiskTierSimTest, OptionsThatCannotBeAreRefused) {
  const auto refusal = [](auto change) {
    DiskOptions options = SmallOptions({"/nowhere"});
    change(&options);
    return DiskTier::Open(options, nullptr).status().message();
  };
  EXPECT_NE(refusal([](DiskOptions* o) { o->paths.clear(); }).find("disk-path is empty"),
            std::string::npos);
  EXPECT_NE(refusal([](DiskOptions* o) { o->bytes = 1 << 20; }).find("disk-size 1Mi is too small"),
            std::string::npos);
  EXPECT_NE(refusal([](DiskOptions*) {}).find("/nowhere"), std::string::npos);
}

}  // namespace
}  // namespace peercache::disk
