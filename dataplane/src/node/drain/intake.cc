#include "node/drain/intake.h"

#include <algorithm>
#include <map>
#include <utility>

#include "directory/lease.h"
#include "node/batch/deadline.h"
#include "pool/heat.h"
#include "pool/size_class.h"

namespace peercache {
namespace {

uint8_t HeatOf(const OfferItem& item) {
  return static_cast<uint8_t>(std::min<uint32_t>(item.heat, kMostHeat));
}

}  // namespace

// A page on its way into the pool.
struct Intake::Incoming {
  size_t item = 0;
  Reservation reservation;  // empty when the page is here already
  uint64_t checksum = 0;    // by the record that it was read with
  bool read = false;
};

// The pages that one offer pushes out. They go when upkeep comes round, so each page that is let in
// is weighed against another one.
class Intake::Leaving {
 public:
  Leaving(Pool* pool, size_t most) : pool_(pool), most_(most) {}

  bool IsColder(size_t length, uint8_t heat) {
    const Next& next = NextOf(length);
    return next.gone < next.heats.size() && heat >= next.heats[next.gone];
  }
  void Goes(size_t length) { ++NextOf(length).gone; }

 private:
  struct Next {
    std::vector<uint8_t> heats;
    size_t gone = 0;
  };
  Next& NextOf(size_t length) {
    const auto [next, first] = by_class_.try_emplace(SizeClassOf(length));
    if (first) next->second.heats = pool_->HeatToReplaceNext(length, most_);
    return next->second;
  }

  Pool* const pool_;
  const size_t most_;
  std::map<SizeClass, Next> by_class_;
};

Intake::Intake(IntakeOptions options, Pool* pool, Peers* peers, const Views* views,
               Publisher* publisher, Locator* locator, Room* room, std::vector<PageReader*> readers,
               Counters* counters, std::function<size_t()> reserve)
    : options_(options),
      pool_(pool),
      peers_(peers),
      views_(views),
      publisher_(publisher),
      locator_(locator),
      room_(room),
      counters_(counters),
      reserve_(std::move(reserve)),
      crew_(0),
      reader_(std::move(readers), options.verify, counters, &crew_, /*background=*/true),
      thread_([this] { Run(); }) {}

Intake::~Intake() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

Result<OfferAnswer> Intake::Answer(const OfferRequest& offer) {
  const PoolStats pool = pool_->stats();
  const size_t free = pool.free_bytes + pool.quarantined_bytes, reserve = reserve_();
  OfferAnswer answer;
  answer.room = free > reserve ? free - reserve : 0;
  std::lock_guard lock(mutex_);
  if (closed_) return Status(Code::kAborted, "this node leaves, too");
  if (offer.items.empty()) {
    answer.done = 1;
    return answer;
  }
  if (working_) return answer;
  if (offer.from == offer_.from && offer.batch == offer_.batch &&
      offer.items.size() == outcomes_.size()) {
    claimed_ = true;
    answer.done = 1;
    answer.outcomes = outcomes_;
    return answer;
  }
  // Another leaver: what became of the last offer is not lost to whom it matters.
  if (!claimed_ && Clock::now() < done_at_ + options_.keep) return answer;
  offer_ = offer;
  working_ = true;
  wake_.notify_all();
  return answer;
}

void Intake::Forget() {
  std::lock_guard lock(mutex_);
  ++epoch_;
}

void Intake::Close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
}

void Intake::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return working_ || stop_; });
    if (stop_) return;
    const uint64_t epoch = epoch_;
    lock.unlock();
    std::vector<uint8_t> outcomes = Take(offer_.items, epoch);  // offer_ stays while working_
    lock.lock();
    outcomes_ = std::move(outcomes);
    claimed_ = false;
    done_at_ = Clock::now();
    working_ = false;
  }
}

bool Intake::HasSpare(size_t length) const {
  return pool_->FreeBytes(length) >= reserve_() + length;
}

bool Intake::MakeRoom(const OfferItem& item, TimePoint deadline, Leaving* leaving, Incoming* in) {
  // Not pinned: a clear would have to wait for the rest of the offer.
  if (pool_->Contains(item.key)) return true;
  if (item.length == 0 || item.length > pool_->max_page_bytes()) return false;
  const bool spare = HasSpare(item.length);
  if (!spare && !leaving->IsColder(item.length, HeatOf(item))) return false;
  auto reservation = room_->Reserve(item.length, deadline);
  if (!reservation.ok()) return false;
  if (!spare) leaving->Goes(item.length);
  in->reservation = std::move(*reservation);
  return true;
}

PagePin Intake::Settle(const OfferItem& item, uint64_t epoch, Incoming* in) {
  std::lock_guard lock(mutex_);
  PagePin pin;
  if (epoch != epoch_) return pin;
  if (in->read) {
    bool duplicate = false;
    pin = pool_->Commit(std::move(in->reservation), item.key, item.tag, in->checksum, &duplicate);
  } else if (!in->reservation) {
    pin = pool_->Find(item.key);
    if (pin && pin.replica()) pool_->Adopt(&pin, item.tag);
  }
  if (pin) pool_->Warm(pin, HeatOf(item));
  return pin;
}

std::vector<uint8_t> Intake::Take(std::span<const OfferItem> items, uint64_t epoch) {
  std::vector<uint8_t> outcomes(items.size(), kNotTaken);
  const TimePoint deadline = Clock::now() + options_.peer_timeout;
  std::vector<Incoming> incoming;
  Leaving leaving(pool_, items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    Incoming in;
    in.item = i;
    if (MakeRoom(items[i], deadline, &leaving, &in)) {
      incoming.push_back(std::move(in));
    } else {
      outcomes[i] = kNoRoom;
    }
  }
  Read(items, incoming);

  std::vector<HeldPage> pages;
  std::vector<size_t> which;
  for (Incoming& in : incoming) {
    PagePin pin = Settle(items[in.item], epoch, &in);
    if (!pin) continue;
    pages.push_back(publisher_->Held(std::move(pin)));
    which.push_back(in.item);
  }
  std::vector<uint8_t> published(pages.size());
  publisher_->Publish(pages, published, Clock::now() + options_.peer_timeout);
  for (size_t p = 0; p < pages.size(); ++p) {
    if (!published[p]) continue;
    outcomes[which[p]] = kTaken;
    counters_->taken_bytes.Add(pages[p].record.length);
  }
  const auto count = [&](OfferOutcome outcome) {
    return static_cast<uint64_t>(std::count(outcomes.begin(), outcomes.end(), outcome));
  };
  counters_->taken.Add(count(kTaken));
  counters_->not_taken_room.Add(count(kNoRoom));
  counters_->not_taken_failed.Add(count(kNotTaken));
  return outcomes;
}

void Intake::Read(std::span<const OfferItem> items, std::span<Incoming> incoming) {
  std::vector<size_t> wanted;
  std::vector<Key> keys;
  std::vector<Bytes> segments;
  uint64_t bytes = 0;
  for (size_t i = 0; i < incoming.size(); ++i) {
    if (!incoming[i].reservation) continue;
    wanted.push_back(i);
    keys.push_back(items[incoming[i].item].key);
    segments.push_back(incoming[i].reservation.payload());
    bytes += segments.back().size();
  }
  const auto view = views_->Get();
  if (wanted.empty() || view == nullptr) return;
  const TimePoint start = Clock::now();
  const TimePoint deadline = DeadlineFor(bytes, options_.peer_timeout, start);
  // What is offered is no proof of where the page is: it is asked for, and the lease counts from
  // then on, as for every reader.
  std::vector<Record> records(keys.size());
  const uint64_t self[] = {peers_->self()};
  locator_->Lookup(*view, keys, records, start + options_.stall, self);
  std::vector<RemotePage> remote;
  for (size_t w = 0; w < wanted.size(); ++w) {
    if (records[w].node == 0 || records[w].length != segments[w].size()) continue;
    remote.push_back({keys[w], records[w], w, Lease(options_.lease, records[w]).EndsAfter(start)});
  }
  std::vector<ReadOutcome> outcomes(remote.size());
  reader_.Read(remote, {segments, 1, nullptr}, outcomes, deadline);
  for (size_t r = 0; r < remote.size(); ++r) {
    if (!Arrived(outcomes[r])) continue;
    incoming[wanted[remote[r].page]].read = true;
    incoming[wanted[remote[r].page]].checksum = remote[r].record.checksum;
  }
}

}  // namespace peercache
