#include "node/read/flights.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <thread>

#include "base/chosen_keys_testing.h"
#include "base/wrong_bytes.h"

namespace peercache {
namespace {

using std::chrono::seconds;

Key KeyOf(uint64_t number) {
  Key key;
  std::memcpy(key.bytes.data() + 8, &number, sizeof(number));
  return key;
}

// One engine's batch: pages of 64 bytes, cut in `per_page` segments.
struct Batch {
  explicit Batch(std::vector<uint64_t> numbers, size_t per_page = 1)
      : memory(numbers.size() * 64), ok(numbers.size()), wanted(numbers.size()) {
    for (const uint64_t n : numbers) keys.push_back(KeyOf(n));
    std::iota(wanted.begin(), wanted.end(), size_t{0});
    const size_t each = 64 / per_page;
    for (size_t i = 0; i < numbers.size() * per_page; ++i)
      segments.push_back(std::span(memory).subspan(i * each, each));
    to = {segments, per_page};
  }
  void Bring(size_t page, uint8_t fill) {
    std::fill_n(memory.begin() + static_cast<std::ptrdiff_t>(page * 64), 64, std::byte{fill});
    ok[page] = 1;
  }
  bool Holds(size_t page, uint8_t fill) const {
    const std::vector<std::byte> want(64, std::byte{fill});
    return HasRightBytes("page " + std::to_string(page), std::span(memory).subspan(page * 64, 64),
                         want);
  }
  std::vector<std::byte> memory;
  std::vector<uint8_t> ok;
  std::vector<size_t> wanted, led;
  std::vector<Key> keys;
  std::vector<Bytes> segments;
  Destinations to;
  std::vector<Flights::Followed> followed;
};

std::shared_ptr<Flights::Call> Begin(const Batch& batch, uint64_t epoch) {
  return std::make_shared<Flights::Call>(batch.to, epoch);
}

TimePoint Soon() { return Clock::now() + seconds(20); }

TEST(FlightsTest, TheSecondCallFollowsTheFirst) {
  Flights flights;
  Batch a({1, 2}), b({2, 3}, 4);
  const auto call_a = Begin(a, 1), call_b = Begin(b, 1);
  flights.Join(a.keys, a.wanted, call_a.get(), &a.led, &a.followed);
  flights.Join(b.keys, b.wanted, call_b.get(), &b.led, &b.followed);
  EXPECT_EQ(a.led, (std::vector<size_t>{0, 1}));
  EXPECT_EQ(b.led, (std::vector<size_t>{1}));
  ASSERT_EQ(b.followed.size(), 1u);

  std::thread follower([&] {
    b.Bring(1, 33);
    flights.Land(call_b.get(), b.ok);
    EXPECT_TRUE(flights.Copy(b.followed[0], b.to, Soon()));
    flights.Leave(b.keys, b.led, call_b.get(), Soon());
  });
  std::this_thread::sleep_for(milliseconds(20));
  a.Bring(0, 11);
  a.Bring(1, 22);
  flights.Land(call_a.get(), a.ok);
  flights.Leave(a.keys, a.led, call_a.get(), Soon());
  // The leader may reuse its pages now; the follower has its copy.
  std::fill(a.memory.begin(), a.memory.end(), std::byte{0});
  follower.join();
  EXPECT_TRUE(b.Holds(0, 22));
  EXPECT_TRUE(b.Holds(1, 33));

  Batch c({1, 2, 3});
  const auto call_c = Begin(c, 1);
  flights.Join(c.keys, c.wanted, call_c.get(), &c.led, &c.followed);
  EXPECT_EQ(c.led.size(), 3u) << "all earlier flights are over";
  flights.Land(call_c.get(), c.ok);
  flights.Leave(c.keys, c.led, call_c.get(), Soon());
}

TEST(FlightsTest, AKeyThatComesTwiceInOneCallIsFetchedOnce) {
  Flights flights;
  Batch a({7, 8, 7, 7});
  const auto call = Begin(a, 1);
  flights.Join(a.keys, a.wanted, call.get(), &a.led, &a.followed);
  EXPECT_EQ(a.led, (std::vector<size_t>{0, 1}));
  ASSERT_EQ(a.followed.size(), 2u);
  a.Bring(0, 5);
  flights.Land(call.get(), a.ok);
  for (const auto& f : a.followed) EXPECT_TRUE(flights.Copy(f, a.to, Soon()));
  flights.Leave(a.keys, a.led, call.get(), Soon());
  EXPECT_TRUE(a.Holds(2, 5));
  EXPECT_TRUE(a.Holds(3, 5));
}

TEST(FlightsTest, WhatTheLeaderDidNotFindIsAMissOfItsFollowersToo) {
  Flights flights;
  Batch a({1}), b({1});
  const auto call_a = Begin(a, 1), call_b = Begin(b, 1);
  flights.Join(a.keys, a.wanted, call_a.get(), &a.led, &a.followed);
  flights.Join(b.keys, b.wanted, call_b.get(), &b.led, &b.followed);
  flights.Land(call_a.get(), a.ok);
  flights.Land(call_b.get(), b.ok);
  EXPECT_FALSE(flights.Copy(b.followed[0], b.to, Soon()));
  flights.Leave(a.keys, a.led, call_a.get(), Soon());
  flights.Leave(b.keys, b.led, call_b.get(), Soon());
}

// The engine of the leader has given its page to somebody else, whose bytes these are.
TEST(FlightsTest, WhatIsCopiedFromPagesThatWereTakenBackDoesNotCount) {
  Flights flights;
  Permit permit = Permit::Create().value(), other = Permit::Create().value();
  Batch a({1}), b({1}), c({1});
  a.to.permit = &permit;
  c.to.permit = &other;
  const auto call_a = Begin(a, 1), call_b = Begin(b, 1), call_c = Begin(c, 1);
  flights.Join(a.keys, a.wanted, call_a.get(), &a.led, &a.followed);
  flights.Join(b.keys, b.wanted, call_b.get(), &b.led, &b.followed);
  flights.Join(c.keys, c.wanted, call_c.get(), &c.led, &c.followed);
  a.Bring(0, 5);
  flights.Land(call_a.get(), a.ok);
  other.Revoke();
  EXPECT_FALSE(flights.Copy(c.followed[0], c.to, Soon()));
  EXPECT_TRUE(c.Holds(0, 0)) << "its own page was taken back";
  permit.Revoke();
  EXPECT_FALSE(flights.Copy(b.followed[0], b.to, Soon()));
  flights.Leave(a.keys, a.led, call_a.get(), Soon());
}

TEST(FlightsTest, AFollowerWaitsNoLongerThanItsDeadline) {
  Flights flights;
  Batch a({1}), b({1});
  const auto call_a = Begin(a, 1), call_b = Begin(b, 1);
  flights.Join(a.keys, a.wanted, call_a.get(), &a.led, &a.followed);
  flights.Join(b.keys, b.wanted, call_b.get(), &b.led, &b.followed);
  flights.Land(call_b.get(), b.ok);
  EXPECT_FALSE(flights.Copy(b.followed[0], b.to, Clock::now() + milliseconds(30)));
  flights.Leave(b.keys, b.led, call_b.get(), Soon());
  a.Bring(0, 1);
  flights.Land(call_a.get(), a.ok);
  flights.Leave(a.keys, a.led, call_a.get(), Soon());  // does not wait for the one that has left
}

// A follower still waits for pages of its own, from a holder that is slow.
TEST(FlightsTest, ALeaderWaitsNoLongerThanItsDeadline) {
  Flights flights;
  Batch a({1}), b({1, 2});
  const auto call_a = Begin(a, 1), call_b = Begin(b, 1);
  flights.Join(a.keys, a.wanted, call_a.get(), &a.led, &a.followed);
  flights.Join(b.keys, b.wanted, call_b.get(), &b.led, &b.followed);
  a.Bring(0, 1);
  flights.Land(call_a.get(), a.ok);
  const TimePoint deadline = Clock::now() + milliseconds(30);
  flights.Leave(a.keys, a.led, call_a.get(), deadline);
  EXPECT_GE(Clock::now(), deadline) << "followers have until then";
  std::fill(a.memory.begin(), a.memory.end(), std::byte{9});
  b.Bring(1, 2);
  flights.Land(call_b.get(), b.ok);
  EXPECT_FALSE(flights.Copy(b.followed[0], b.to, Soon())) << "these are not its pages any more";
  EXPECT_TRUE(b.Holds(0, 0));
  flights.Leave(b.keys, b.led, call_b.get(), Soon());
}

TEST(FlightsTest, WhatTookOffBeforeAClearIsNotSharedAfterIt) {
  Flights flights;
  Batch a({1}), b({1}), c({1});
  const auto call_a = Begin(a, 1), call_b = Begin(b, 2), call_c = Begin(c, 2);
  flights.Join(a.keys, a.wanted, call_a.get(), &a.led, &a.followed);
  flights.Join(b.keys, b.wanted, call_b.get(), &b.led, &b.followed);
  EXPECT_EQ(b.led.size(), 1u);
  flights.Land(call_b.get(), b.ok);
  flights.Leave(b.keys, b.led, call_b.get(), Soon());  // takes nothing away from the older flight
  flights.Land(call_a.get(), a.ok);
  flights.Leave(a.keys, a.led, call_a.get(), Soon());
  flights.Join(c.keys, c.wanted, call_c.get(), &c.led, &c.followed);
  EXPECT_EQ(c.led.size(), 1u);
  flights.Land(call_c.get(), c.ok);
  flights.Leave(c.keys, c.led, call_c.get(), Soon());
}

// Threads want overlapping, random batches; every page must be right and nobody may hang.
TEST(FlightsTest, ManyCallsThatLeadAndFollowEachOther) {
  Flights flights;
  std::atomic<uint64_t> fetched{0}, shared{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      uint64_t random = t + 1;
      for (int round = 0; round < 1500; ++round) {
        std::vector<uint64_t> numbers;
        for (int i = 0; i < 12; ++i) {
          random = random * 6364136223846793005u + 1442695040888963407u;
          numbers.push_back((random >> 40) % 40);
        }
        Batch batch(numbers);
        const auto call = Begin(batch, 1);
        flights.Join(batch.keys, batch.wanted, call.get(), &batch.led, &batch.followed);
        for (const size_t page : batch.led) batch.Bring(page, static_cast<uint8_t>(numbers[page]));
        if (round % 16 == 0) std::this_thread::yield();
        flights.Land(call.get(), batch.ok);
        for (const auto& f : batch.followed) batch.ok[f.page] = flights.Copy(f, batch.to, Soon());
        flights.Leave(batch.keys, batch.led, call.get(), Soon());
        for (size_t i = 0; i < numbers.size(); ++i)
          ASSERT_TRUE(batch.ok[i] && batch.Holds(i, static_cast<uint8_t>(numbers[i])));
        fetched += batch.led.size();
        shared += batch.followed.size();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(fetched + shared, 6u * 1500 * 12);
  EXPECT_GT(shared, 0u);
}

TEST(FlightsTest, ChosenKeysCostNoMoreThanOthers) {
  testing::ExpectChosenKeysCostNoMore([](std::span<const Key> keys) {
    Flights flights;
    Batch batch(std::vector<uint64_t>(keys.size()));
    batch.keys.assign(keys.begin(), keys.end());
    const auto call = Begin(batch, 1);
    flights.Join(batch.keys, batch.wanted, call.get(), &batch.led, &batch.followed);
    ASSERT_EQ(batch.led.size(), keys.size());
    flights.Land(call.get(), batch.ok);
    flights.Leave(batch.keys, batch.led, call.get(), Soon());
  });
}

}  // namespace
}  // namespace peercache
