#include "node/read/worth.h"

namespace peercache {
namespace {

struct Place {
  uint64_t node;
  Tier tier;
  uint64_t bytes = 0;
  std::vector<size_t> pages{};
};

}  // namespace

std::vector<size_t> NotWorth(const Peers& peers, std::span<const Record> records, Duration worth,
                             Purpose purpose, TimePoint now) {
  std::vector<Place> places;  // few nodes hold the pages of a batch
  for (size_t i = 0; i < records.size(); ++i) {
    const Record& r = records[i];
    if (r.node == 0) continue;
    auto at = std::ranges::find_if(
        places, [&](const Place& place) { return place.node == r.node && place.tier == r.tier; });
    if (at == places.end()) at = places.insert(at, {r.node, r.tier});
    at->bytes += r.length;
    at->pages.push_back(i);
  }
  std::vector<size_t> dropped;
  for (const Place& place : places) {
    const PeerRef peer = peers.Find(place.node);
    if (peer == nullptr) continue;
    const size_t kept =
        peer->cost(place.tier)
            .ToAskFor(place.pages.size(), place.bytes, peer->under_way(), worth, purpose, now);
    dropped.insert(dropped.end(), place.pages.begin() + static_cast<ptrdiff_t>(kept),
                   place.pages.end());
  }
  std::ranges::sort(dropped);
  return dropped;
}

}  // namespace peercache
