// Replay: runs a trace through a real Pool, as a node does for its engines: ask for the prompt, use
// the leading run of pages that are there, compute the rest and set it, then set the answer. Room
// is made by the pool's own eviction; pages are as small as slots get, since only their number
// matters.
//
//   ReplayResult lru = Replay(trace, 0.1, EvictionPolicy::kLru).value();
//   lru.page_hits / double(lru.pages)      share of the prompts' pages that were there
//   lru.prefix_hits / double(lru.pages)    share in leading runs: what saves prefill work
//   ReplayBest(trace, lru.capacity)        most page hits that any policy could have
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "bench/eviction/trace.h"
#include "pool/eviction.h"

namespace peercache::bench {

struct ReplayResult {
  size_t capacity = 0;     // pages that the pool holds
  uint64_t pages = 0;      // asked for
  uint64_t page_hits = 0;  // of these, found
  uint64_t prefix_hits = 0;
  uint64_t evictions = 0;
  double seconds = 0;

  double page_ratio() const { return Ratio(page_hits); }
  double prefix_ratio() const { return Ratio(prefix_hits); }

 private:
  double Ratio(uint64_t hits) const {
    return pages == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(pages);
  }
};

// `share` of the trace's footprint fits into the pool, rounded to what a pool can be.
Result<ReplayResult> Replay(const Trace& trace, double share, EvictionPolicy policy);

// The optimum for page hits: Belady's choice with the future in view, which need not even store a
// page. No policy has more prefix hits than this has page hits.
ReplayResult ReplayBest(const Trace& trace, size_t capacity);

}  // namespace peercache::bench
