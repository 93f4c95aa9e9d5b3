#include "node/drain/mover.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <thread>

namespace peercache {
namespace {

// Candidates that are remembered: bounds the memory that leaving takes. So many of 64 KiB are 16
// GiB.
constexpr size_t kMostPages = size_t{256} << 10;
// Between two looks at what became of an offer, which takes some milliseconds at least.
constexpr milliseconds kLook{5};

uint64_t BytesOf(std::span<const OfferItem> items) {
  uint64_t bytes = 0;
  for (const OfferItem& item : items) bytes += item.length;
  return bytes;
}

}  // namespace

Mover::Mover(uint64_t incarnation, Duration stall, const Pool* pool, Peers* peers,
             const Views* views, Counters* counters)
    : stall_(stall),
      pool_(pool),
      peers_(peers),
      views_(views),
      counters_(counters),
      next_batch_(incarnation) {}

void Mover::Move(uint64_t budget, TimePoint deadline) {
  const TimePoint start = Clock::now();
  std::vector<MovePage> pages;
  uint64_t bytes = 0, count = 0;
  pool_->ForEachReady([&](const PageInfo& page) {
    if (page.replica) return;  // another node holds it
    pages.push_back({{page.key, page.tag, page.length, page.heat}, page.last_use});
    bytes += page.length;
    ++count;
    if (pages.size() == 2 * kMostPages) KeepHottest(kMostPages, &pages);
  });
  const std::vector<OfferItem> chosen = ChooseForMove(std::move(pages), budget);
  counters_->drain_planned.Add(chosen.size());
  counters_->drain_planned_bytes.Add(BytesOf(chosen));
  std::vector<Lane> lanes;
  if (!chosen.empty()) lanes = Ask(deadline);
  if (!lanes.empty()) {
    Assign(&lanes, chosen);
    while (Clock::now() < deadline && Round(&lanes, deadline)) {
    }
  }
  const Counters& c = *counters_;
  const auto n = [](const Counter& counter) { return static_cast<uint64_t>(counter); };
  counters_->drain_left.Add(count - c.drain_moved - c.drain_refused - c.drain_failed);
  counters_->drain_left_bytes.Add(bytes - c.drain_moved_bytes - c.drain_refused_bytes -
                                  c.drain_failed_bytes);
  spdlog::info(
      "drain: {} of {} pages ({} of {} MiB) are with {} peers now; {} refused, {} failed, {} left "
      "behind; {} ms",
      n(c.drain_moved), count, c.drain_moved_bytes >> 20, bytes >> 20, lanes.size(),
      n(c.drain_refused), n(c.drain_failed), n(c.drain_left),
      (Clock::now() - start) / milliseconds(1));
}

std::vector<Mover::Lane> Mover::Ask(TimePoint deadline) {
  std::vector<Lane> lanes;
  const auto view = views_->Get();
  if (view == nullptr) return lanes;
  for (const Member& member : view->members) {
    const uint64_t node = NodeHash(member.id);
    if (member.state != MemberState::kActive || view->IsUnreachable(node)) continue;
    if (PeerRef peer = peers_->Find(node); peer != nullptr) {
      Lane lane;
      lane.peer = std::move(peer);
      lanes.push_back(std::move(lane));
    }
  }
  std::vector<Lane*> all;
  for (Lane& lane : lanes) all.push_back(&lane);
  Offer(all, deadline);
  std::erase_if(lanes, [](const Lane& lane) { return !lane.alive; });
  return lanes;
}

void Mover::Assign(std::vector<Lane>* lanes, std::span<const OfferItem> items) {
  std::vector<MovePeer> peers;
  for (const Lane& lane : *lanes) peers.push_back({lane.peer->node(), lane.room});
  const std::vector<size_t> to = SpreadOver(peers, items);
  for (size_t i = 0; i < items.size(); ++i) (*lanes)[to[i]].queue.push_back(items[i]);
}

bool Mover::Round(std::vector<Lane>* lanes, TimePoint deadline) {
  std::vector<Lane*> busy, idle;
  uint64_t on_offer = 0;
  for (Lane& lane : *lanes) {
    if (lane.rest().empty()) continue;
    busy.push_back(&lane);
    if (lane.offered == 0) idle.push_back(&lane);
    on_offer += BytesOf(lane.offer());
  }
  if (busy.empty()) return false;
  const uint64_t share = ShareOfOffers(on_offer, idle.size());
  for (Lane* lane : idle) {
    lane->offered = OneOffer(lane->rest(), share);
    lane->batch = ++next_batch_;
  }
  Offer(busy, deadline);
  const bool waiting = std::any_of(
      busy.begin(), busy.end(), [](const Lane* lane) { return lane->alive && lane->offered > 0; });
  std::vector<OfferItem> orphans;
  for (const Lane& lane : *lanes)
    if (!lane.alive) orphans.insert(orphans.end(), lane.rest().begin(), lane.rest().end());
  std::erase_if(*lanes, [](const Lane& lane) { return !lane.alive; });
  if (lanes->empty()) return false;
  if (!orphans.empty()) Assign(lanes, orphans);
  if (waiting) std::this_thread::sleep_for(kLook);
  return true;
}

void Mover::Offer(std::span<Lane* const> lanes, TimePoint deadline) {
  CallGroup calls(*peers_, CallGroup::Breaker::kRespect);
  for (const Lane* lane : lanes)
    EncodeOffer(peers_->self(), lane->batch, lane->offer(),
                &calls.Add(lane->peer, MessageType::kOffer).request);
  calls.Run(MessageType::kOfferOk, {stall_, deadline});
  for (size_t i = 0; i < lanes.size(); ++i) {
    Lane& lane = *lanes[i];
    const PeerCall& call = *calls.calls()[i];
    FrameReader reader = call.answer;
    OfferAnswer answer;
    lane.alive = call.status.ok() && answer.Decode(&reader) &&
                 (answer.done == 0 || answer.outcomes.size() == lane.offered);
    if (!lane.alive) continue;
    lane.room = answer.room;
    if (answer.done == 0) continue;
    Count(lane, answer.outcomes);
    lane.next += lane.offered;
    lane.offered = 0;
  }
}

void Mover::Count(const Lane& lane, std::span<const uint8_t> outcomes) {
  const auto items = lane.offer();
  for (size_t i = 0; i < items.size(); ++i) {
    switch (outcomes[i]) {
      case kTaken:
        counters_->drain_moved.Add(1);
        counters_->drain_moved_bytes.Add(items[i].length);
        break;
      case kNoRoom:
        counters_->drain_refused.Add(1);
        counters_->drain_refused_bytes.Add(items[i].length);
        break;
      default:
        counters_->drain_failed.Add(1);
        counters_->drain_failed_bytes.Add(items[i].length);
        break;
    }
  }
}

}  // namespace peercache
