#include "transport/tcp/inbox.h"

#include <gtest/gtest.h>

namespace peercache {
namespace {

constexpr size_t kMiB = 1 << 20;
const TimePoint kStart = Clock::now();

std::byte ByteOf(size_t at) { return std::byte{static_cast<uint8_t>(at / 1000)}; }

size_t Fill(Inbox* inbox, size_t bytes, TimePoint now = kStart) {
  size_t done = 0;
  while (done < bytes) {
    const auto room = inbox->Room();
    const size_t n = std::min(room.size(), bytes - done);
    for (size_t i = 0; i < n; ++i) room[i] = ByteOf(done + i);
    inbox->Arrived(n, now);
    done += n;
  }
  return done;
}

TEST(InboxTest, MemoryGrowsWithWhatArrivesAndNotWithWhatIsAnnounced) {
  Inbox inbox;
  Fill(&inbox, 100);
  inbox.Want(16 * kMiB);
  EXPECT_FALSE(inbox.Room().empty());
  EXPECT_EQ(inbox.size(), Inbox::kFirst);
}

TEST(InboxTest, MemoryOfALargeFrameIsWaitedFor) {
  FrameMemory memory(kMiB);
  FrameMemory::Hold other(&memory);
  ASSERT_TRUE(other.Ask(kMiB, -1));
  Inbox inbox(&memory);
  inbox.Want(kMiB / 2);
  EXPECT_TRUE(inbox.Ask(-1));
  Fill(&inbox, FrameMemory::kFree);
  EXPECT_FALSE(inbox.Ask(-1));
  other.Release();
  EXPECT_TRUE(inbox.Ask(-1));
  Fill(&inbox, kMiB / 2 - FrameMemory::kFree);
  EXPECT_EQ(memory.stats().held, kMiB / 2);
  inbox.Consume(kMiB / 2);
  inbox.Settle(kStart);
  EXPECT_EQ(memory.stats().held, 0u);
}

TEST(InboxTest, AWholeFrameIsThereAsItCameAndItsMemoryIsGivenBack) {
  Inbox inbox;
  Fill(&inbox, 100);
  inbox.Want(5 * kMiB);
  Fill(&inbox, 5 * kMiB - 100);
  const auto frame = inbox.unread();
  ASSERT_EQ(frame.size(), 5 * kMiB);
  for (size_t i = 100; i < frame.size(); i += 777) ASSERT_EQ(frame[i], ByteOf(i - 100)) << i;
  inbox.Consume(frame.size());
  inbox.Settle(kStart);
  EXPECT_LE(inbox.size(), FrameMemory::kFree);
  EXPECT_EQ(inbox.began(), std::nullopt);
}

TEST(InboxTest, WhatIsLeftBehindALargeFrameStays) {
  Inbox inbox;
  inbox.Want(kMiB);
  Fill(&inbox, kMiB);
  inbox.Consume(kMiB - 2000);
  inbox.Settle(kStart);
  ASSERT_EQ(inbox.unread().size(), 2000u);
  for (size_t i = 0; i < 2000; ++i) ASSERT_EQ(inbox.unread()[i], ByteOf(kMiB - 2000 + i)) << i;
}

TEST(InboxTest, AFrameBeginsOnceHoweverItsBytesDrip) {
  Inbox inbox;
  EXPECT_EQ(inbox.began(), std::nullopt);
  for (int second = 0; second < 5; ++second) {
    Fill(&inbox, 1, kStart + std::chrono::seconds(second));
    inbox.Settle(kStart + std::chrono::seconds(second));
  }
  EXPECT_EQ(inbox.began(), kStart);
  inbox.Consume(3);
  inbox.Settle(kStart + std::chrono::seconds(9));
  EXPECT_EQ(inbox.began(), kStart + std::chrono::seconds(9)) << "the next one";
  EXPECT_EQ(inbox.unread().size(), 2u);
}

}  // namespace
}  // namespace peercache
