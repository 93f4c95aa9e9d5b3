// Keys that somebody has chosen for the hash that SeededHash gives them without a seed, and whether
// a table notices.
#pragma once

#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/key.h"
#include "base/seeded_hash.h"

namespace peercache::testing {

inline constexpr SeededHash::Seed kNoSeed{};

// Its hash with kNoSeed is `hash`. `id` makes keys of one hash differ.
inline Key ChosenKey(uint64_t hash, uint64_t id) {
  Key key;
  const std::array<uint64_t, 4> words{1, hash, 0, id};
  std::memcpy(key.bytes.data(), words.data(), sizeof(words));
  return key;
}

// Expects that `use` takes about as long with as many chosen keys as with others, in time of the
// processor: the best of a few tries, in turn, so that what else the machine does falls on both. A
// table without a seed takes hundreds of times as long with these, each time.
inline void ExpectChosenKeysCostNoMore(const std::function<void(std::span<const Key> keys)>& use) {
  constexpr size_t kKeys = 20'000;
  std::vector<Key> others, chosen;
  for (size_t i = 0; i < kKeys; ++i) {
    others.push_back(ChosenKey(i * 0x9e3779b97f4a7c15, i));
    chosen.push_back(ChosenKey(UINT64_MAX / 3, i));
  }
  const auto time_of = [&](const std::vector<Key>& keys) {
    timespec from{}, to{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    use(keys);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    return std::chrono::seconds(to.tv_sec - from.tv_sec) +
           std::chrono::nanoseconds(to.tv_nsec - from.tv_nsec);
  };
  auto usual = time_of(others), worst = time_of(chosen);
  for (int again = 0; again < 4 && worst >= 20 * usual; ++again) {
    usual = std::min(usual, time_of(others));
    worst = std::min(worst, time_of(chosen));
  }
  EXPECT_LT(worst, 20 * usual) << "others: " << usual.count() << " ns";
}

}  // namespace peercache::testing
