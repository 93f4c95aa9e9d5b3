// Worth: which of the pages that were found at other nodes are worth bringing, to an engine that
// has said what it costs to compute one of them anew. All places are read at the same time, so each
// may take as long as all pages of the batch are worth together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "node/peer/peers.h"
#include "node/peer/read_cost.h"
#include "wire/record.h"

namespace peercache {

// What `pages` are worth: the time that the engine needs to compute them. `page`: of one.
inline Duration WorthOf(Duration page, size_t pages) { return page * static_cast<int64_t>(pages); }

// How long they are waited for.
inline Duration PatienceFor(Duration page, size_t pages) {
  return std::max<Duration>(WorthOf(page, pages), ReadCost::kLeastPatience);
}

// The indexes of the pages that are not, in order. Records of node 0 are of pages that were not
// found, and all are worth bringing from a place that nothing is known of.
std::vector<size_t> NotWorth(const Peers& peers, std::span<const Record> records, Duration worth,
                             Purpose purpose, TimePoint now);

}  // namespace peercache
