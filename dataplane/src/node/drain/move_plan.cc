#include "node/drain/move_plan.h"

#include <algorithm>
#include <unordered_map>

#include "directory/ring.h"

namespace peercache {
namespace {

// Points of a peer: shares are within a tenth of what they should be.
constexpr uint32_t kPoints = 64;

bool Before(const MovePage& a, const MovePage& b) {
  return a.item.heat != b.item.heat ? a.item.heat > b.item.heat : a.last_use > b.last_use;
}

}  // namespace

void KeepHottest(size_t most, std::vector<MovePage>* pages) {
  if (pages->size() <= most) return;
  std::nth_element(pages->begin(), pages->begin() + static_cast<ptrdiff_t>(most), pages->end(),
                   Before);
  pages->resize(most);
}

std::vector<OfferItem> ChooseForMove(std::vector<MovePage> pages, uint64_t budget) {
  std::sort(pages.begin(), pages.end(), Before);
  std::vector<OfferItem> items;
  for (const MovePage& page : pages) {
    if (page.item.length > budget) break;
    budget -= page.item.length;
    items.push_back(page.item);
  }
  return items;
}

std::vector<size_t> SpreadOver(std::span<const MovePeer> peers, std::span<const OfferItem> items) {
  std::vector<RingMember> members;
  std::unordered_map<uint64_t, size_t> index;
  for (const MovePeer& peer : peers) {
    index.emplace(peer.node, members.size());
    members.push_back({peer.node, peer.room});
  }
  const Ring ring(members, kPoints);
  std::vector<size_t> to;
  for (const OfferItem& item : items) to.push_back(index.at(ring.OwnerOf(item.key)));
  return to;
}

uint64_t ShareOfOffers(uint64_t on_offer, size_t idle) {
  const uint64_t left = kUnderWay - std::min(on_offer, kUnderWay);
  return std::min(left / std::max<size_t>(idle, 1), kMaxOfferedBytes);
}

size_t OneOffer(std::span<const OfferItem> items, uint64_t most) {
  uint64_t bytes = 0;
  size_t count = 0;
  for (const OfferItem& item : items.first(std::min<size_t>(items.size(), kMaxOffered))) {
    bytes += item.length;
    if (count > 0 && bytes > most) break;
    ++count;
  }
  return count;
}

}  // namespace peercache
