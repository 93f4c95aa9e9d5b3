// Lookups: counts what one engine looks up and what it gets of that (docs/hit-ratio.md).
//
// A page is looked up once: by the exists that asks for it, or by its get if no exists did. Engines
// ask before they get, and get what was found; so what exists calls find announces as many pages,
// and gets are lookups of their own only beyond that. Which pages they are is not compared: that
// would cost every call a look at every key.
//
// Thread-safe, without locks.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>

#include "node/count/counters.h"
#include "wire/frame.h"

namespace peercache {

class Lookups {
 public:
  // Of an exists call: how many pages it asked for, and how many of them lead.
  void Asked(Counting counting, uint64_t pages, uint64_t found, Counters* counters) {
    if (!counting.counted) return;
    counters->lookup_exists.Add(pages, Tokens(counting));
    counters->found.Add(found, Tokens(counting));
    announced_.fetch_add(found, std::memory_order_relaxed);
  }
  // Of a get call: the PageSource of each page.
  void Got(Counting counting, std::span<const uint8_t> sources, Counters* counters) {
    if (!counting.counted) return;
    uint64_t announced = announced_.load(std::memory_order_relaxed);
    while (!announced_.compare_exchange_weak(
        announced, announced - std::min(announced, sources.size()), std::memory_order_relaxed)) {
    }
    const uint64_t tokens = Tokens(counting);
    counters->lookup_get.Add(sources.size() - std::min(announced, sources.size()), tokens);
    std::array<uint64_t, kPageSources> from{};
    for (const uint8_t source : sources) ++from[source];
    for (size_t s = 1; s < from.size(); ++s)
      if (from[s] > 0) counters->delivered[s].Add(from[s], tokens);
  }

 private:
  // An engine says what it likes; sums of what it says must not run over.
  static uint64_t Tokens(Counting counting) {
    return std::min(counting.page_tokens, uint32_t{1} << 20);
  }
  std::atomic<uint64_t> announced_{0};  // pages found, and not got yet
};

}  // namespace peercache
