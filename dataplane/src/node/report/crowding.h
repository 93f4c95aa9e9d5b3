// Crowding: who goes when too many have come, each from some source.
//
// The oldest of the source that has most. Whoever fills a port so displaces himself; and where all
// are of one source, the newest stay for as long as it takes to send as many again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace peercache {

// An index into `sources`, which are in the order in which they came; at least one. Of sources
// that have as many, the one whose oldest is older. Takes up to size² steps: for hundreds of them.
template <typename Source>
size_t OldestOfTheMost(std::span<const Source> sources) {
  size_t goes = 0;
  std::ptrdiff_t most = 0;
  for (size_t i = 0; i < sources.size(); ++i) {
    if (i > 0 && sources[i] == sources[goes]) continue;
    const auto later = sources.subspan(i);
    const auto count = std::count(later.begin(), later.end(), sources[i]);
    if (count > most) {
      goes = i;
      most = count;
    }
  }
  return goes;
}

}  // namespace peercache
