// What the tests of the pool share: small pools, keys by number, and page bytes that follow from
// the key, so that every reader can tell whether it was given the right ones.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "base/splitmix.h"
#include "base/wrong_bytes.h"
#include "pool/pool.h"

namespace peercache {

inline constexpr size_t kKiB = 1024, kMiB = 1024 * kKiB;

inline std::unique_ptr<Pool> MakePool(size_t bytes, size_t max_page_bytes = 64 * kMiB,
                                      EvictionPolicy eviction = EvictionPolicy::kLru) {
  auto pool = Pool::Create({.bytes = bytes,
                            .huge_pages = HugePages::kOff,
                            .max_page_bytes = max_page_bytes,
                            .eviction = eviction});
  EXPECT_TRUE(pool.ok()) << pool.status().ToString();
  return std::move(pool).value();
}

inline Key KeyOf(uint64_t number) { return NumberedKey(number); }

// A page is a block of its key's own, repeated. Block by block, because byte loops are slow without
// optimization and under sanitizers.
using PageBlock = std::array<uint64_t, 128>;

inline PageBlock BlockOf(const Key& key) {
  PageBlock block;
  for (size_t i = 0; i < block.size(); ++i) block[i] = key.Word(3) + i;
  return block;
}

inline void Fill(std::span<std::byte> payload, const Key& key) {
  const PageBlock block = BlockOf(key);
  for (size_t i = 0; i < payload.size(); i += sizeof(block))
    std::memcpy(payload.data() + i, block.data(), std::min(sizeof(block), payload.size() - i));
}

// Whether these are the key's bytes; says what is wrong with them.
inline bool IsPageOf(std::span<const std::byte> payload, const Key& key) {
  const PageBlock block = BlockOf(key);
  size_t i = 0;
  while (i < payload.size() && std::memcmp(payload.data() + i, block.data(),
                                           std::min(sizeof(block), payload.size() - i)) == 0)
    i += sizeof(block);
  if (i >= payload.size()) return !payload.empty();
  std::vector<std::byte> want(payload.size());
  Fill(want, key);
  return HasRightBytes("page of key " + key.ShortHex(), payload, want);
}

inline bool IsPageOf(const PagePin& pin, const Key& key) {
  if (!pin) return false;  // a miss
  if (pin.header().key != key)
    return HasRightBytes("header of key " + key.ShortHex(),
                         std::as_bytes(std::span(pin.header().key.bytes)),
                         std::as_bytes(std::span(key.bytes)));
  return pin.header().magic == SlotHeader::kMagic && pin.header().generation != 0 &&
         pin.header().length == pin.payload().size() && IsPageOf(pin.payload(), key);
}

// Reserves, fills and commits; an empty pin when there is no room.
inline PagePin Put(Pool& pool, uint64_t number, size_t length, uint64_t tag = 0,
                   PageKind kind = PageKind::kOwn) {
  auto reservation = pool.Reserve(length);
  if (!reservation.ok()) return {};
  Fill(reservation->payload(), KeyOf(number));
  bool duplicate = false;
  return pool.Commit(std::move(reservation).value(), KeyOf(number), tag, 0, &duplicate, kind);
}

// Withdraws and frees what eviction takes for `bytes` of pages of `length`.
inline size_t Evict(Pool& pool, size_t bytes, size_t length) {
  const TimePoint now = Clock::now();
  for (const Victim& victim : pool.TakeVictims(bytes, length)) pool.Quarantine(victim, now);
  return pool.Reclaim(now + milliseconds(1));
}

}  // namespace peercache
