// Why eras. An owner may void all its records at any moment: it restarts, gets no answer to a
// message, or falls silent. A shard may hold millions of them, and lookups must not wait meanwhile.
//
// Benefits: voiding is one increment of the owner's era, and a lookup finds out by one comparison.
// Lookups take no lock. The memory of void records comes back later, when the shard sweeps.
// Costs: 6 bytes in each record (place and era); a table of max_owners places. When all are taken
// by owners that are not silent, a further owner is refused.
//
// Admit does these steps for a message, under the lock of its owner:
//   1. (incarnation, epoch) below the known pair: refused; the owner raises its epoch and publishes
//      again. Above it: all records become void, before anything else changes.
//   2. A sequence number that was seen in this epoch, or is too old to know: refused.
//   3. The echo counts if this instance of the place issued it: the owner is fresh until echo +
//      ttl.
// Serves reads in the opposite order of these stores, freshness first and the era last. So a record
// of before never counts by the freshness of after.
//
// Rejected:
// - a list of records for each owner: more bytes in each record, and a lock for as long as it is
//   walked;
// - freshness from the arrival of a message: one that was under way for long would extend it after
//   the owner has counted on silence (guard own_echo);
// - wall-clock times in messages: they would need synchronized clocks; an echo needs none.
#include "directory/owner_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <tuple>
#include <utility>

namespace peercache {
namespace {

constexpr int64_t kAlways = INT64_MAX;

// Below 2^61, so that stamps stay positive for longer than machines do.
int64_t RandomBase() {
  std::random_device device;
  const uint64_t word = (uint64_t{device()} << 32) | device();
  return static_cast<int64_t>(word >> 3) + 1;
}

}  // namespace

bool SequenceWindow::Take(uint64_t sequence) {
  if (sequence > newest_) {
    if (sequence - newest_ >= kSpan) {
      seen_.reset();
    } else {
      // Not up to `sequence` inclusive: the last number has none above it.
      for (uint64_t n = newest_; n != sequence;) seen_.reset(++n % kSpan);
    }
    newest_ = sequence;
  } else if (newest_ - sequence >= kSpan || seen_.test(sequence % kSpan)) {
    return false;
  }
  seen_.set(sequence % kSpan);
  return true;
}

OwnerTable::OwnerTable(const ShardOptions& options)
    : self_(options.self),
      max_owners_(static_cast<uint16_t>(std::clamp<size_t>(options.max_owners, 1, UINT16_MAX))),
      owner_ttl_(options.owner_ttl),
      forget_after_(std::max(options.forget_after, options.owner_ttl)),
      first_base_(options.stamp_base),
      owners_(std::make_unique<Owner[]>(max_owners_)) {}

Result<OwnerTable::Admission> OwnerTable::Admit(const OwnerStamp& stamp, TimePoint now) {
  if (stamp.node == 0) return InvalidArgument("stamp.node is 0: send the NodeHash of the owner");
  uint16_t place = 0;  // model: Admit
  auto locked = Lock(stamp.node, now, &place);
  if (!locked.ok()) return locked.status();
  Owner& owner = owners_[place];

  // The process that spoke last may have started under a clock that was ahead. When it has been
  // silent for long, another one speaks for the owner, whatever its number. model: new_name
  if (stamp.incarnation < owner.incarnation.load() && stamp.node != self_ &&
      owner.heard + owner_ttl_ < now) {
    Forget(&owner, now);
    owner.went_back = true;
  }
  const auto said = std::tuple(stamp.incarnation, stamp.epoch);
  const auto known = std::tuple(owner.incarnation.load(), owner.epoch);
  if (said < known) {  // model: refuse_lower
    return Status(
        Code::kAborted,
        fmt::format("owner {:016x} speaks as incarnation {} epoch {}, incarnation {} epoch {} "
                    "is known: raise the epoch and re-publish",
                    stamp.node, stamp.incarnation, stamp.epoch, std::get<0>(known),
                    std::get<1>(known)));
  }
  if (said == known && owner.dropped) {
    return Status(Code::kAborted,
                  fmt::format("the records of owner {:016x} were dropped after a long "
                              "silence: raise the epoch and re-publish",
                              stamp.node));
  }
  if (said > known) {
    Void(&owner);  // model: void_lower
    const bool other_process = stamp.incarnation != owner.incarnation.exchange(stamp.incarnation);
    owner.lease_ms.store(stamp.lease_ms);
    // It may be the former process's, under way for long: what the present one has proven must not
    // make that fresh. Nor may the former one, for longer than the present one counts on.
    const bool shorter = stamp.ttl_ms < std::exchange(owner.ttl_ms, stamp.ttl_ms);
    if (other_process && (owner.went_back || shorter)) owner.fresh_until.store(0);
    owner.epoch = stamp.epoch;
    owner.dropped = false;
    owner.window.Reset();
  }
  if (stamp.sequence != 0 && !owner.window.Take(stamp.sequence)) {  // model: drop_copies
    return Status(Code::kAborted,
                  fmt::format("message {} of owner {:016x} has been seen before, or is "
                              "more than {} messages late: raise the epoch and re-publish",
                              stamp.sequence, stamp.node, SequenceWindow::kSpan));
  }
  owner.heard = std::max(owner.heard, now);
  // An echo of the future was never issued by this instance; nor was one below the base. What the
  // owner proved under a former pair stays proven: it was alive then. model: own_echo, own_stamps
  const int64_t base = owner.base.load();
  const int64_t issued = stamp.echo >= base ? stamp.echo - base : INT64_MAX;
  if (stamp.node != self_ && issued <= now.time_since_epoch().count()) {
    // model: owners_times
    const Duration ttl = std::min<Duration>(owner_ttl_, milliseconds(stamp.ttl_ms));
    const int64_t until = issued + ttl.count();
    if (until > owner.fresh_until.load()) owner.fresh_until.store(until);
  }
  return Admission{std::move(*locked), place, owner.era.load(), Fresh(place, now)};
}

OwnerTable::Service OwnerTable::Serves(const StoredRecord& record, int64_t now, Record* out) const {
  const Owner& owner = owners_[record.owner];
  const bool fresh = owner.fresh_until.load() > now;  // model: check_fresh
  const uint64_t incarnation = owner.incarnation.load();
  const uint64_t node = owner.node.load();
  const uint16_t lease_ms = owner.lease_ms.load();
  if (owner.era.load() != record.era) return Service::kDead;  // last: see the header
  if (!fresh) return Service::kSilent;
  *out = Record{.node = node,
                .incarnation = incarnation,
                .offset = record.offset,
                .generation = record.generation,
                .checksum = record.checksum,
                .length = record.length,
                .tier = record.tier,
                .replica = record.replica,
                .lease_ms = lease_ms};
  return Service::kServed;
}

std::vector<ServedOwner> OwnerTable::Served(TimePoint now) const {  // model: Served
  uint16_t places = 0;
  {
    std::lock_guard guard(mutex_);
    places = static_cast<uint16_t>(places_.size());
  }
  std::vector<ServedOwner> served;
  const int64_t now_ns = now.time_since_epoch().count();
  for (uint16_t place = 0; place < places; ++place) {
    Owner& owner = owners_[place];
    // Era, incarnation and freshness change together under this. The owner of a long message is
    // left out: its entries are asked for until the next grant.
    const std::unique_lock lock(owner.mutex, std::try_to_lock);
    if (!lock) continue;
    const int64_t fresh_until = owner.fresh_until.load();
    if (owner.dropped || fresh_until <= now_ns) continue;
    // A node serves its own records always; what it withdraws it takes out of the buckets itself.
    const Duration fresh = std::min<Duration>(Duration(fresh_until - now_ns), owner_ttl_);
    served.push_back(
        {.node = owner.node.load(),
         .incarnation = owner.incarnation.load(),
         .era = owner.era.load(),
         .fresh_us = static_cast<uint32_t>(std::min<int64_t>(
             std::chrono::duration_cast<std::chrono::microseconds>(fresh).count(), UINT32_MAX)),
         .place = place,
         .lease_ms = owner.lease_ms.load()});
  }
  return served;
}

Result<std::unique_lock<std::mutex>> OwnerTable::Lock(uint64_t node, TimePoint now,
                                                      uint16_t* place) {
  for (;;) {
    auto found = Place(node, now);
    if (!found.ok()) return found.status();
    *place = *found;
    std::unique_lock lock(owners_[*found].mutex);
    // The place may have been given away between the two locks.
    if (owners_[*found].node.load() == node) return lock;
  }
}

Result<uint16_t> OwnerTable::Place(uint64_t node, TimePoint now) {
  std::lock_guard guard(mutex_);
  if (const auto it = places_.find(node); it != places_.end()) return it->second;
  uint16_t place = static_cast<uint16_t>(places_.size());
  std::unique_lock<std::mutex> lock;
  if (place < max_owners_) {
    lock = std::unique_lock(owners_[place].mutex);
  } else {
    TimePoint oldest = now - forget_after_;
    for (uint16_t i = 0; i < max_owners_; ++i) {
      std::unique_lock candidate(owners_[i].mutex, std::try_to_lock);
      if (!candidate || !owners_[i].dropped || owners_[i].heard >= oldest) continue;
      oldest = owners_[i].heard;
      place = i;
      lock = std::move(candidate);
    }
    if (!lock) {
      return ResourceExhausted(fmt::format(
          "the shard knows {} owners, its bound: raise max_owners or remove members", max_owners_));
    }
    places_.erase(owners_[place].node.load());
  }
  Owner& owner = owners_[place];
  Forget(&owner, now);
  owner.node.store(node);
  owner.fresh_until.store(node == self_ ? kAlways : 0);
  places_.emplace(node, place);
  return place;
}

ShardVoice OwnerTable::Voice(uint64_t node, TimePoint now) const {
  std::lock_guard guard(mutex_);
  const auto it = places_.find(node);
  if (it == places_.end()) return {};
  const int64_t base = owners_[it->second].base.load();
  return {base + now.time_since_epoch().count(), static_cast<uint64_t>(base)};
}

int64_t OwnerTable::NewBase() {
  // Far enough apart that no uptime leads from one to another.
  constexpr int64_t kApart = int64_t{1} << 54;
  return first_base_ == 0 ? RandomBase() : first_base_ + kApart * bases_++;
}

void OwnerTable::Forget(Owner* owner, TimePoint now) {
  Void(owner);                   // eras of a place only grow: nothing of before comes alive again
  owner->base.store(NewBase());  // model: RestartShard
  owner->incarnation.store(0);
  owner->fresh_until.store(0);
  owner->epoch = 0;
  owner->ttl_ms = 0;
  owner->dropped = false;
  owner->went_back = false;
  owner->heard = now;
  owner->window.Reset();
}

void OwnerTable::Void(Owner* owner) {
  owner->era.fetch_add(1);
  if (owner->records.load(std::memory_order_relaxed) != 0) voided_.fetch_add(1);
}

void OwnerTable::DropSilent(TimePoint now) {  // model: Drop
  std::lock_guard guard(mutex_);
  for (const auto& [node, place] : places_) {
    if (node == self_) continue;
    Owner& owner = owners_[place];
    const std::unique_lock lock(owner.mutex, std::try_to_lock);
    if (!lock) continue;  // it is speaking, so it is not silent
    if (owner.dropped || owner.heard + forget_after_ >= now) continue;
    owner.dropped = true;
    Void(&owner);
  }
}

void OwnerTable::Drop(uint64_t node) {
  std::lock_guard guard(mutex_);
  const auto it = places_.find(node);
  if (it == places_.end()) return;
  Owner& owner = owners_[it->second];
  std::lock_guard owner_guard(owner.mutex);
  owner.dropped = true;
  Void(&owner);
}

void OwnerTable::AddTo(ShardStats* stats, TimePoint now) const {
  std::lock_guard guard(mutex_);
  stats->owners += places_.size();
  for (const auto& [node, place] : places_) stats->fresh_owners += Fresh(place, now) ? 1 : 0;
}

}  // namespace peercache
