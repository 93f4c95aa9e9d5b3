// Drives that fail: errors, delays, flipped bits, files that are cut off, devices that are lost.

#include <errno.h>
#include <gtest/gtest.h>

#include <random>

#include "disk/disk_testing.h"

namespace peercache::disk {
namespace {

using namespace testing;  // NOLINT: names of the tests' own helpers

constexpr size_t kLength = 30000;

Status FlushAll(DiskTier& tier) { return tier.Flush(Clock::now() + kEndsAHang); }

bool IsData(const IoRequest& request) {
  return request.offset >= kFirstRegionAt &&
         (request.offset - kFirstRegionAt) % kSmallRegion >= 4 * kBlock;
}

class DiskFaultsTest : public ::testing::Test {
 protected:
  void OpenWithPages(uint64_t pages, uint32_t devices = 1) {
    if (devices != 1) sim_ = std::make_unique<SimTier>(devices);
    ASSERT_TRUE(sim_->Open(&witness_).ok());
    ASSERT_TRUE(sim_->Recovered());
    for (uint64_t i = 0; i < pages; ++i) ASSERT_TRUE(PutInTime(*sim_->tier, i, 0, kLength));
    ASSERT_TRUE(FlushAll(*sim_->tier).ok());
  }
  void Reopen() {
    sim_->tier.reset();
    ASSERT_TRUE(sim_->Open(&witness_).ok());
    ASSERT_TRUE(sim_->Recovered());
  }
  // How many pages are hits; none has wrong bytes.
  uint64_t Hits(uint64_t pages) {
    uint64_t hits = 0;
    for (uint64_t i = 0; i < pages; ++i)
      hits += ReadAndCheck(*sim_->tier, i, 0, kLength) == ReadOutcome::kHit ? 1 : 0;
    return hits;
  }
  const Counts& counts() { return sim_->tier->counts(); }

  Witness witness_;
  // While they are set, what it is asked for does not end.
  void HoldSome() {
    sim_->held = [this](const IoRequest& request) {
      return (reads_held_ && request.op == IoRequest::Op::kRead) ||
             (syncs_held_ && request.op == IoRequest::Op::kSync);
    };
  }
  ~DiskFaultsTest() override { reads_held_ = syncs_held_ = false; }

  std::atomic<bool> slow_{false};
  std::atomic<bool> reads_held_{false}, syncs_held_{false};
  // Last: it may ask for faults and delays until it has gone.
  std::unique_ptr<SimTier> sim_ = std::make_unique<SimTier>();
};

TEST_F(DiskFaultsTest, AReadThatFailsIsAMissAndDropsThePage) {
  OpenWithPages(3);
  uint64_t at = 0;
  ForEachPage(*sim_->tier, [&](const DiskPage& page) {
    if (page.key == KeyOf(1)) at = page.offset;
  });
  sim_->disk().SetFault([at](const IoRequest& request) {
    return request.op == IoRequest::Op::kRead &&
                   (request.offset % kSmallRegion) == at % kSmallRegion
               ? -EIO
               : 0;
  });
  EXPECT_EQ(ReadAndCheck(*sim_->tier, 1, 0, kLength), ReadOutcome::kError);
  sim_->disk().SetFault({});
  EXPECT_EQ(ReadAndCheck(*sim_->tier, 1, 0, kLength), ReadOutcome::kAbsent);
  EXPECT_EQ(ReadAndCheck(*sim_->tier, 2, 0, kLength), ReadOutcome::kHit);
  EXPECT_TRUE(sim_->tier->on()) << "one error is no broken drive";
}

TEST_F(DiskFaultsTest, AWriteThatFailsCostsItsPages) {
  sim_->options.log.pause.first = milliseconds(5);
  OpenWithPages(3);
  sim_->disk().SetFault([failures = 1](const IoRequest& request) mutable {
    return request.op == IoRequest::Op::kWrite && IsData(request) && failures-- > 0 ? -ENOSPC : 0;
  });
  ASSERT_TRUE(PutInTime(*sim_->tier, 10, 0, kLength));
  ASSERT_TRUE(FlushAll(*sim_->tier).ok());
  EXPECT_EQ(counts().dropped.Of(Drop::kWriteError), 1u);
  EXPECT_EQ(ReadAndCheck(*sim_->tier, 10, 0, kLength), ReadOutcome::kAbsent);
  ASSERT_TRUE(PutInTime(*sim_->tier, 11, 0, kLength));
  ASSERT_TRUE(FlushAll(*sim_->tier).ok());
  Reopen();
  EXPECT_EQ(ReadAndCheck(*sim_->tier, 10, 0, kLength), ReadOutcome::kAbsent);
  EXPECT_EQ(ReadAndCheck(*sim_->tier, 11, 0, kLength), ReadOutcome::kHit);
  EXPECT_EQ(Hits(3), 3u);
}

TEST_F(DiskFaultsTest, ContentsThatCannotBeWrittenCostTheirPagesAfterARestartOnly) {
  OpenWithPages(3);
  sim_->disk().SetFault([failures = 1](const IoRequest& request) mutable {
    return request.op == IoRequest::Op::kWrite && request.offset >= kFirstRegionAt &&
                   !IsData(request) && failures-- > 0
               ? -EIO
               : 0;
  });
  ASSERT_TRUE(PutInTime(*sim_->tier, 3, 0, kLength));
  ASSERT_TRUE(FlushAll(*sim_->tier).ok());
  EXPECT_EQ(Hits(4), 4u);
  ASSERT_TRUE(PutInTime(*sim_->tier, 4, 0, kLength));
  ASSERT_TRUE(FlushAll(*sim_->tier).ok());
  Reopen();
  EXPECT_EQ(ReadAndCheck(*sim_->tier, 4, 0, kLength), ReadOutcome::kHit);
  EXPECT_EQ(Hits(3), 3u);
}

// The last version of a block is torn, whichever of its two places it goes to.
TEST_F(DiskFaultsTest, ATornContentsBlockKeepsThePagesOfItsEarlierVersion) {
  // The first sector has six entries.
  for (uint64_t pages = 7; pages < 11; ++pages) {
    sim_ = std::make_unique<SimTier>();
    OpenWithPages(0);
    for (uint64_t i = 0; i < pages; ++i) {
      ASSERT_TRUE(PutInTime(*sim_->tier, i, 0, kLength));
      ASSERT_TRUE(FlushAll(*sim_->tier).ok());
    }
    sim_->disk().SetFault([](const IoRequest& request) {
      return request.op == IoRequest::Op::kWrite && !IsData(request) ? SimDisk::kTorn : 0;
    });
    ASSERT_TRUE(PutInTime(*sim_->tier, pages, 0, kLength));
    ASSERT_TRUE(FlushAll(*sim_->tier).ok());
    sim_->disk().SetFault({});
    Reopen();
    EXPECT_EQ(Hits(pages), pages);
    EXPECT_EQ(ReadAndCheck(*sim_->tier, pages, 0, kLength), ReadOutcome::kAbsent);
    EXPECT_EQ(counts().recovered.Of(Recovered::kCorruptBlock), 1u);
  }
}

TEST_F(DiskFaultsTest, RepeatedErrorsTurnTheDeviceOffAndInTheEndItsPagesLeave) {
  sim_->options.device.breaker.keep_pages = milliseconds(500);
  OpenWithPages(30);
  sim_->disk().SetFault([](const IoRequest&) { return -EIO; });
  EXPECT_EQ(Hits(30), 0u);
  EXPECT_FALSE(sim_->tier->on());
  const DiskStats stats = sim_->tier->stats();
  EXPECT_NE(stats.devices[0].why.find("8 errors within 60 s, the last one: Input/output error"),
            std::string::npos)
      << stats.devices[0].why;
  EXPECT_EQ(PutPage(*sim_->tier, 100, 0, kLength).why, Drop::kOff);
  EXPECT_TRUE(Eventually([&] { return sim_->tier->stats().pages == 0; }));
  EXPECT_FALSE(ClearForGood(*sim_->tier, 1, 1)) << "it cannot be recorded";
}

// What it had it still has, but what was cleared meanwhile: also when it is the only one that is
// there at the next start.
TEST_F(DiskFaultsTest, ADeviceThatIsWellAgainIsBackWithItsPages) {
  constexpr uint64_t kPages = 30, kOther = 2;
  sim_ = std::make_unique<SimTier>(2);
  sim_->options.device.breaker.retry.first = milliseconds(5);
  OpenWithPages(0);
  for (uint64_t i = 0; i < kPages; ++i)
    ASSERT_TRUE(PutInTime(*sim_->tier, 2 * i, 0, kLength, 1 + i % 2));
  ASSERT_TRUE(FlushAll(*sim_->tier).ok());
  const auto hits = [&] {
    uint64_t found = 0;
    for (uint64_t i = 0; i < kPages; ++i)
      found += ReadAndCheck(*sim_->tier, 2 * i, 0, kLength) == ReadOutcome::kHit ? 1 : 0;
    return found;
  };
  ASSERT_EQ(hits(), kPages) << "all on the first device";
  const auto on = [&] { return sim_->tier->stats().devices[0].on; };
  std::atomic<int> asked{0};
  sim_->disk(0).SetFault([&](const IoRequest&) { return ++asked, -EIO; });
  EXPECT_EQ(hits(), 0u);
  EXPECT_FALSE(on());
  EXPECT_FALSE(ClearForGood(*sim_->tier, kOther, 1)) << "the second device alone has it";
  asked = 0;
  EXPECT_TRUE(Eventually([&] { return asked >= 40; })) << "tries that fail come no later each time";
  EXPECT_FALSE(on());
  sim_->disk(0).SetFault({});
  EXPECT_TRUE(Eventually(on));
  EXPECT_EQ(hits(), kPages / 2 - 4) << "and the eight pages that could not be read";
  EXPECT_EQ(sim_->tier->stats().devices[0].why, "");
  sim_->disk(1).SetFault([](const IoRequest&) { return -EIO; });
  Reopen();
  EXPECT_EQ(hits(), kPages / 2) << "the first device has the clear, too";
}

TEST_F(DiskFaultsTest, WritesThatFailTakeNoPageFromWhoReads) {
  sim_->options.log.pause = {milliseconds(5), milliseconds(5)};
  OpenWithPages(30);
  std::atomic<int> failed{0};
  sim_->disk().SetFault([&](const IoRequest& request) {
    return request.op == IoRequest::Op::kWrite ? (++failed, -ENOSPC) : 0;
  });
  uint64_t page = 100;
  while (failed < 20) {
    (void)PutPage(*sim_->tier, ++page, 0, kLength);
    ASSERT_EQ(Hits(30), 30u);
  }
  EXPECT_TRUE(sim_->tier->on());
  EXPECT_GT(counts().dropped.Of(Drop::kWriteError), 0u);
  const auto device = [&] { return sim_->tier->stats().devices[0]; };
  EXPECT_TRUE(device().writes_paused);
  EXPECT_EQ(device().why,
            "writes fail: No space left on device; pages are read, and new ones wait");
  sim_->disk().SetFault({});
  EXPECT_TRUE(Eventually(
      [&] { return PutPage(*sim_->tier, ++page, 0, kLength).what == PutResult::What::kTaken; }));
  ASSERT_TRUE(FlushAll(*sim_->tier).ok());
  EXPECT_EQ(ReadAndCheck(*sim_->tier, page, 0, kLength), ReadOutcome::kHit);
  EXPECT_EQ(Hits(30), 30u);
  EXPECT_FALSE(device().writes_paused);
  EXPECT_EQ(device().why, "");
}

// A page is larger than a block: a write of a block is one of contents.
TEST_F(DiskFaultsTest, AContentsBlockThatFailsSaysWhy) {
  sim_->options.log.pause = {milliseconds(5), milliseconds(5)};
  OpenWithPages(1);
  sim_->disk().SetFault([&](const IoRequest& request) {
    return request.op == IoRequest::Op::kWrite && request.bytes() == kBlock ? -ENOSPC : 0;
  });
  uint64_t page = 100;
  const auto device = [&] { return sim_->tier->stats().devices[0]; };
  EXPECT_TRUE(Eventually([&] {
    (void)PutPage(*sim_->tier, ++page, 0, kLength);
    return device().writes_paused;
  }));
  EXPECT_EQ(device().why,
            "writes fail: No space left on device; pages are read, and new ones wait");
}

// Its pages have left by then, and are recovered; but those of the region that was being written.
TEST_F(DiskFaultsTest, ADeviceThatWasOffForLongIsBackWithItsPages) {
  sim_->options.device.breaker.retry = {milliseconds(5), milliseconds(50)};
  sim_->options.device.breaker.keep_pages = {};
  OpenWithPages(90);
  ASSERT_EQ(Hits(90), 90u);
  sim_->disk().SetFault([](const IoRequest&) { return -EIO; });
  EXPECT_EQ(Hits(90), 0u);
  EXPECT_TRUE(Eventually([&] { return sim_->tier->stats().pages == 0; }));
  sim_->disk().SetFault({});
  EXPECT_TRUE(Eventually([&] { return sim_->tier->on() && sim_->tier->recovered(); }));
  EXPECT_GE(Hits(90), 50u);
  for (uint64_t i = 100; i < 400; ++i) ASSERT_TRUE(PutInTime(*sim_->tier, i, 0, kLength));
  ASSERT_TRUE(FlushAll(*sim_->tier).ok());
  EXPECT_EQ(ReadAndCheck(*sim_->tier, 399, 0, kLength), ReadOutcome::kHit);
}

TEST_F(DiskFaultsTest, AnIoThatTakesTooLongTurnsTheDeviceOffAndNobodyWaitsForIt) {
  sim_->options.device.breaker.retry.first = milliseconds(5);
  sim_->options.device.breaker.slow = milliseconds(1000);
  HoldSome();
  OpenWithPages(2);
  reads_held_ = true;
  AlignedBuffer memory(64 << 10);
  std::atomic<bool> landed{false};
  DiskRead read;
  read.key = KeyOf(0);
  read.memory = memory.bytes();
  read.context = &landed;
  read.landed = [](DiskRead* late) { *static_cast<std::atomic<bool>*>(late->context) = true; };
  DiskRead* const batch[] = {&read};
  EXPECT_EQ(sim_->tier->Read(batch, Clock::now() + milliseconds(50)), 1u);
  EXPECT_EQ(read.outcome, ReadOutcome::kLate);
  EXPECT_FALSE(landed);
  EXPECT_TRUE(Eventually([&] { return !sim_->tier->on(); }));
  EXPECT_FALSE(landed) << "it is off before the I/O has ended";
  EXPECT_NE(sim_->tier->stats().devices[0].why.find("longer than 1000 ms"), std::string::npos);
  reads_held_ = false;
  EXPECT_TRUE(Eventually([&] { return landed.load(); }));
  EXPECT_EQ(counts().reads.Of(ReadOutcome::kLate), 1u);
  EXPECT_TRUE(Eventually([&] { return sim_->tier->on(); })) << "all that it was asked has ended";
  EXPECT_EQ(Hits(2), 2u);
}

TEST_F(DiskFaultsTest, ASyncMayTakeLongerThanReadsAndWrites) {
  sim_->options.device.breaker.slow = milliseconds(1000);
  sim_->options.device.breaker.slow_sync = 2 * kEndsAHang;
  sim_->delay = [this](const IoRequest& request) {
    return milliseconds(slow_ && request.op == IoRequest::Op::kSync ? 1400 : 0);
  };
  HoldSome();
  OpenWithPages(2);
  slow_ = true;
  EXPECT_TRUE(ClearForGood(*sim_->tier, 7, 1));
  EXPECT_TRUE(sim_->tier->on()) << sim_->tier->stats().devices[0].why;
  EXPECT_EQ(Hits(2), 2u);
  // A read that takes too long is seen beside a sync that may.
  slow_ = false;
  syncs_held_ = reads_held_ = true;
  std::thread clearer([&] { EXPECT_FALSE(ClearForGood(*sim_->tier, 8, 2)); });
  EXPECT_TRUE(Eventually([&] { return sim_->tier->stats().devices[0].counts.in_flight == 1; }));
  std::thread reader([&] { (void)ReadPage(*sim_->tier, KeyOf(0)); });
  EXPECT_TRUE(Eventually([&] { return !sim_->tier->on(); }));
  const auto why = [&] { return sim_->tier->stats().devices[0].why; };
  EXPECT_NE(why().find("an I/O took longer than 1000 ms"), std::string::npos) << why();
  syncs_held_ = reads_held_ = false;
  reader.join();
  clearer.join();
  // And a sync that takes longer than any.
  sim_->options.device.breaker.slow_sync = milliseconds(1500);
  Reopen();
  syncs_held_ = true;
  EXPECT_FALSE(ClearForGood(*sim_->tier, 9, 3));
  EXPECT_NE(why().find("a sync took longer than 1500 ms"), std::string::npos) << why();
  syncs_held_ = false;
}

TEST_F(DiskFaultsTest, ALostDeviceCostsItsOwnPages) {
  OpenWithPages(60, 3);
  sim_->disk(1).SetFault([](const IoRequest&) { return -EIO; });
  uint64_t hits = Hits(60);
  EXPECT_EQ(hits, 40u);
  EXPECT_TRUE(sim_->tier->on());
  // Its batches go to the others.
  ASSERT_TRUE(PutInTime(*sim_->tier, 100 * 3 + 1, 0, kLength));
  EXPECT_FALSE(ClearForGood(*sim_->tier, 9, 9)) << "one drive has missed it";
  // It is lost at the next start, too: the others serve.
  sim_->tier.reset();
  ASSERT_TRUE(sim_->Open(&witness_).ok());
  ASSERT_TRUE(sim_->Recovered());
  EXPECT_FALSE(sim_->tier->stats().devices[1].on);
  EXPECT_EQ(Hits(60), 40u);
  // And when it is back, it has its pages, but those that were cleared meanwhile.
  EXPECT_FALSE(ClearForGood(*sim_->tier, 1, 10));
  sim_->disk(1).SetFault({});
  Reopen();
  EXPECT_TRUE(sim_->tier->stats().devices[1].on);
  EXPECT_EQ(Hits(60), 0u);
}

TEST_F(DiskFaultsTest, ALongBatchGoesThroughInPiecesAndOthersAreRefusedMeanwhile) {
  sim_->options.device.reads = 4;
  sim_->delay = [this](const IoRequest& request) -> Duration {
    return slow_ && request.op == IoRequest::Op::kRead ? Duration(milliseconds(100)) : Duration{};
  };
  HoldSome();
  OpenWithPages(20);
  slow_ = reads_held_ = true;
  AlignedBuffer memory(20 * (32 << 10));
  std::array<DiskRead, 20> reads;
  std::array<DiskRead*, 20> batch;
  for (size_t i = 0; i < 20; ++i) {
    reads[i].key = KeyOf(i);
    reads[i].memory = memory.bytes().subspan(i * (32 << 10), 32 << 10);
    batch[i] = &reads[i];
  }
  std::thread reader([&] { EXPECT_EQ(sim_->tier->Read(batch, Clock::now() + kEndsAHang), 0u); });
  EXPECT_TRUE(
      Eventually([&] { return sim_->tier->stats().devices[0].counts.page_reads_in_flight == 4; }));
  EXPECT_EQ(ReadPage(*sim_->tier, KeyOf(0)).outcome, ReadOutcome::kBusy);
  reads_held_ = false;
  reader.join();
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(reads[i].outcome, ReadOutcome::kHit);
    EXPECT_TRUE(HasRightBytes("page", reads[i].memory.first(kLength), BytesOf(i, 0, kLength)));
  }
  // What does not get its turn before the deadline is late, or was never sent.
  std::atomic<uint64_t> landed{0};
  for (DiskRead& read : reads) {
    read.context = &landed;
    read.landed = [](DiskRead* late) { ++*static_cast<std::atomic<uint64_t>*>(late->context); };
  }
  const uint64_t busy = counts().reads.Of(ReadOutcome::kBusy);
  const uint64_t hits = counts().reads.Of(ReadOutcome::kHit);
  const uint64_t late = sim_->tier->Read(batch, Clock::now() + milliseconds(150));
  EXPECT_GT(late, 0u);
  EXPECT_EQ(late + counts().reads.Of(ReadOutcome::kBusy) - busy +
                counts().reads.Of(ReadOutcome::kHit) - hits,
            20u);
  EXPECT_TRUE(Eventually([&] { return landed == late; }));
}

TEST_F(DiskFaultsTest, OneSlowReadDoesNotKeepTheDriveFromTheOthersOfItsBatch) {
  constexpr size_t kPages = 40;
  sim_->options.device.reads = 2;
  std::atomic<int> begun{0};
  std::atomic<const IoRequest*> first{nullptr};
  sim_->delay = [&](const IoRequest& request) -> Duration {
    if (slow_ && request.op == IoRequest::Op::kRead && begun++ == 0) first = &request;
    return {};
  };
  // It ends when all others have begun.
  sim_->held = [&](const IoRequest& request) {
    return &request == first && begun < static_cast<int>(kPages);
  };
  OpenWithPages(kPages);
  slow_ = true;
  AlignedBuffer memory(kPages * (32 << 10));
  std::array<DiskRead, kPages> reads;
  std::array<DiskRead*, kPages> batch;
  for (size_t i = 0; i < kPages; ++i) {
    reads[i].key = KeyOf(i);
    reads[i].memory = memory.bytes().subspan(i * (32 << 10), 32 << 10);
    batch[i] = &reads[i];
  }
  EXPECT_EQ(sim_->tier->Read(batch, Clock::now() + kEndsAHang), 0u);
  for (const DiskRead& read : reads) EXPECT_EQ(read.outcome, ReadOutcome::kHit);
  EXPECT_EQ(begun, static_cast<int>(kPages));
  begun = kPages;
}

TEST_F(DiskFaultsTest, APageThatIsClearedWhileItIsReadIsNoHit) {
  HoldSome();
  OpenWithPages(1);
  reads_held_ = true;
  std::thread reader(
      [&] { EXPECT_EQ(ReadPage(*sim_->tier, KeyOf(0)).outcome, ReadOutcome::kOvertaken); });
  EXPECT_TRUE(
      Eventually([&] { return sim_->tier->stats().devices[0].counts.page_reads_in_flight == 1; }));
  EXPECT_TRUE(ClearForGood(*sim_->tier, 1, 1));
  reads_held_ = false;
  reader.join();
}

// One flipped bit anywhere: a page or more may be lost, none is wrong.
TEST_F(DiskFaultsTest, FlippedBitsAreMisses) {
  constexpr uint64_t kPages = 60;
  OpenWithPages(kPages);
  std::mt19937_64 random(3);
  const auto flip_and_count = [&](uint64_t from, uint64_t to) {
    const size_t byte = from + random() % (to - from);
    const int bit = static_cast<int>(random() % 8);
    sim_->disk().Flip(byte, bit);
    Reopen();
    const uint64_t hits = Hits(kPages);
    // A superblock has been written anew by then.
    if (byte >= kFirstRegionAt) sim_->disk().Flip(byte, bit);
    return hits;
  };
  uint64_t checksums = 0, corrupt = 0;
  for (int i = 0; i < 20; ++i) {
    EXPECT_GE(flip_and_count(kFirstRegionAt + 4 * kBlock, kFirstRegionAt + 4 * kBlock + 900'000),
              kPages - 1);
    checksums += counts().reads.Of(ReadOutcome::kChecksum);
  }
  EXPECT_GT(checksums, 10u);
  for (int i = 0; i < 20; ++i) {
    (void)flip_and_count(kFirstRegionAt, kFirstRegionAt + 2 * kBlock);
    corrupt += counts().recovered.Of(Recovered::kCorruptBlock);
  }
  EXPECT_GT(corrupt, 3u);
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(flip_and_count(kSuperblockAt[i % 2], kSuperblockAt[i % 2] + kSuperblockBytes), kPages)
        << "the other superblock has it";
}

TEST_F(DiskFaultsTest, AClearIsKnownByEitherSuperblock) {
  constexpr uint64_t kOfTag = 10, kTag = 1, kOther = 2;
  OpenWithPages(0);
  ASSERT_TRUE(PutInTime(*sim_->tier, kOfTag, 0, kLength, kOther));
  for (int i = 0; i < 8; ++i) {
    for (uint64_t page = 0; page < kOfTag; ++page)
      ASSERT_TRUE(PutInTime(*sim_->tier, page, 0, kLength, kTag));
    ASSERT_TRUE(FlushAll(*sim_->tier).ok());
    ASSERT_TRUE(ClearForGood(*sim_->tier, kTag, static_cast<uint64_t>(i) + 1));
    sim_->disk().Flip(kSuperblockAt[i % 2] + 100, 1);
    Reopen();
    EXPECT_EQ(Hits(kOfTag), 0u) << i;
    EXPECT_EQ(ReadAndCheck(*sim_->tier, kOfTag, 0, kLength), ReadOutcome::kHit);
  }
}

// The other copy is whole at each moment of a save.
TEST_F(DiskFaultsTest, ASaveThatIsCutOffLeavesASuperblock) {
  std::mt19937_64 random(7);
  OpenWithPages(3);
  for (int cut = 0; cut < 12; ++cut) {
    std::atomic<int> left{cut % 4};
    // The step that is cut off is torn, or not carried out, and so are all after it.
    sim_->disk().SetFault([&left](const IoRequest& request) -> int {
      if (request.op != IoRequest::Op::kSync && request.offset >= kFirstRegionAt) return 0;
      if (request.op == IoRequest::Op::kRead || left-- > 0) return 0;
      return request.op == IoRequest::Op::kWrite && left == -1 ? SimDisk::kTorn : -EIO;
    });
    EXPECT_EQ(ClearForGood(*sim_->tier, 5, static_cast<uint64_t>(cut) + 1), false);
    sim_->disk().SetFault({});
    sim_->Crash(cut >= 4, &random);
    ASSERT_TRUE(sim_->Open(&witness_).ok());
    ASSERT_TRUE(sim_->Recovered());
    EXPECT_EQ(Hits(3), 3u) << cut;
  }
}

TEST_F(DiskFaultsTest, WithoutASuperblockEverythingIsForgotten) {
  OpenWithPages(5);
  sim_->disk().Flip(kSuperblockAt[0] + 100, 1);
  sim_->disk().Flip(kSuperblockAt[1] + 100, 1);
  Reopen();
  EXPECT_EQ(Hits(5), 0u) << "what was cleared is not known any more";
  EXPECT_EQ(sim_->tier->stats().devices[0].why, "both superblocks are damaged");
  EXPECT_TRUE(sim_->tier->on());
  ASSERT_TRUE(PutInTime(*sim_->tier, 1, 0, kLength));
  ASSERT_TRUE(FlushAll(*sim_->tier).ok());
  Reopen();
  EXPECT_EQ(Hits(5), 1u) << "and not one of the old pages";
}

TEST_F(DiskFaultsTest, AFileThatIsCutOffWhileItIsUsedCostsWhatWasBehind) {
  OpenWithPages(60);
  const size_t all = sim_->disk().size();
  sim_->disk().Resize(kFirstRegionAt + 500'000);
  const uint64_t hits = Hits(60);
  EXPECT_GT(hits, 5u);
  EXPECT_LT(hits, 20u);
  EXPECT_GT(counts().reads.Of(ReadOutcome::kShort), 20u);
  EXPECT_TRUE(sim_->tier->on());
  sim_->disk().Resize(all);
}

TEST_F(DiskFaultsTest, AClearThatCannotBeRecordedSaysSo) {
  OpenWithPages(3);
  sim_->disk().SetFault(
      [](const IoRequest& request) { return request.op == IoRequest::Op::kSync ? -EIO : 0; });
  EXPECT_FALSE(ClearForGood(*sim_->tier, 1, 1));
  EXPECT_EQ(Hits(3), 0u);
  EXPECT_FALSE(sim_->tier->on());
}

// Drives may lie about errors at random, for long.
TEST_F(DiskFaultsTest, RandomErrorsNeverGiveWrongBytes) {
  sim_->options.device.breaker.errors = 1'000'000;
  sim_->options.log.pause = {milliseconds(1), milliseconds(1)};
  ASSERT_TRUE(sim_->Open().ok());
  ASSERT_TRUE(sim_->Recovered());
  std::mt19937_64 random(6);
  sim_->disk().SetFault([faults = std::mt19937_64(5)](const IoRequest& request) mutable {
    return request.op != IoRequest::Op::kSync && faults() % 20 == 0 ? -EIO : 0;
  });
  uint64_t hits = 0;
  for (int i = 0; i < 3000; ++i) {
    const uint64_t number = random() % 200;
    (void)PutPage(*sim_->tier, number, 0, kLength);
    hits += ReadAndCheck(*sim_->tier, random() % 200, 0, kLength) == ReadOutcome::kHit ? 1 : 0;
  }
  EXPECT_GT(hits, 500u);
  EXPECT_GT(counts().reads.Of(ReadOutcome::kError), 20u);
  EXPECT_GT(counts().dropped.Of(Drop::kWriteError), 5u);
  EXPECT_EQ(counts().reads.Of(ReadOutcome::kChecksum), 0u);
}

}  // namespace
}  // namespace peercache::disk
