#include "directory/shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <random>

#include "base/device_order.h"
#include "directory/buckets.h"
#include "directory/by_stripe.h"
#include "directory/fence.h"
#include "directory/owner_table.h"
#include "directory/preference.h"
#include "directory/record_table.h"

namespace peercache {
namespace {

constexpr size_t kStripes = 64;

// All keys of a bucket are in one stripe, since both go by the low bits of word 2 and there are at
// least as many buckets.
size_t StripeOf(const Key& key) { return key.Word(2) % kStripes; }

struct Tally {
  uint64_t hits = 0, suppressed = 0;
};

uint64_t RandomSeed() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace

class Shard::Impl {
 public:
  explicit Impl(const ShardOptions& options)
      : options_(options),
        owners_(options),
        seed_(RandomSeed()),
        buckets_(options.buckets, kStripes, seed_) {}

  ShardVoice Voice(uint64_t node, TimePoint now) const { return owners_.Voice(node, now); }
  Result<OwnerTable::Admission> Admit(const OwnerStamp& owner, TimePoint now) {
    auto admission = owners_.Admit(owner, now);
    if (!admission.ok()) refused_stale_.fetch_add(1, std::memory_order_relaxed);
    return admission;
  }
  PublishOutcome Store(const OwnerTable::Admission& owner, const PublishItem& item);
  // For how long the record has not been served, as Withdraw tells.
  uint32_t Remove(const OwnerTable::Admission& owner, const WithdrawItem& item, TimePoint now);
  // The same of what readers may have found in the buckets.
  uint32_t UnseenMillis(TimePoint now) const;
  void Lookup(std::span<const Key> keys, uint64_t reader, std::span<const uint64_t> exclude,
              std::span<Record> out, TimePoint now, std::vector<OtherRecord>* others);
  void DropSilent(TimePoint now) { owners_.DropSilent(now); }
  void Drop(uint64_t node) { owners_.Drop(node); }
  size_t Sweep();
  DirectoryOk Directory(TimePoint now);
  ShardStats stats(TimePoint now) const;

 private:
  struct alignas(64) Stripe {
    mutable std::mutex mutex;
    RecordTable table;
    uint64_t swept = 0;  // OwnerTable::voided() of the last sweep
  };

  // All under the stripe's lock.
  void Erase(Stripe* stripe, StoredRecord* record);
  bool MakeRoom(Stripe* stripe, const Key& key);
  size_t SweepStripe(Stripe* stripe);
  void LookupOne(Stripe* stripe, const Key& key, uint64_t reader, std::span<const uint64_t> exclude,
                 TimePoint now, Record* out, Preferred preferred, Tally* tally);

  const ShardOptions options_;
  OwnerTable owners_;
  const uint64_t seed_;
  Buckets buckets_;  // each under the lock of its keys' stripe
  std::array<Stripe, kStripes> stripes_;
  std::atomic<size_t> records_{0};
  std::atomic<int64_t> granted_until_{0};  // when the last grant has ended everywhere; as Clock's
  mutable std::atomic<uint64_t> lookups_{0}, hits_{0}, suppressed_{0};
  std::atomic<uint64_t> refused_full_{0}, refused_stale_{0};
};

void Shard::Impl::Erase(Stripe* stripe, StoredRecord* record) {
  owners_.Count(record->owner, -1);
  buckets_.Remove(*record);
  stripe->table.Erase(record);
  records_.fetch_sub(1, std::memory_order_relaxed);
}

size_t Shard::Impl::SweepStripe(Stripe* stripe) {
  const uint64_t voided = owners_.voided();
  if (stripe->swept == voided) return 0;
  stripe->swept = voided;
  const size_t erased = stripe->table.EraseIf([&](const StoredRecord& record) {
    if (owners_.Alive(record)) return false;
    owners_.Count(record.owner, -1);
    buckets_.Remove(record);
    return true;
  });
  records_.fetch_sub(erased, std::memory_order_relaxed);
  return erased;
}

size_t Shard::Impl::Sweep() {
  size_t erased = 0;
  for (Stripe& stripe : stripes_) {
    std::lock_guard guard(stripe.mutex);
    erased += SweepStripe(&stripe);
  }
  return erased;
}

// Room for one more record of the key, counted in records_ already when true.
bool Shard::Impl::MakeRoom(Stripe* stripe, const Key& key) {
  while (StoredRecord* dead = stripe->table.Find(
             key, [&](const StoredRecord& record) { return !owners_.Alive(record); })) {
    Erase(stripe, dead);
  }
  if (records_.fetch_add(1, std::memory_order_relaxed) < options_.max_records) return true;
  if (SweepStripe(stripe) > 0) return true;
  records_.fetch_sub(1, std::memory_order_relaxed);
  refused_full_.fetch_add(1, std::memory_order_relaxed);
  return false;
}

PublishOutcome Shard::Impl::Store(const OwnerTable::Admission& owner, const PublishItem& item) {
  const PublishOutcome stored = owner.fresh ? kServed : kStored;
  Stripe& stripe = stripes_[StripeOf(item.key)];
  std::lock_guard guard(stripe.mutex);
  StoredRecord* record = stripe.table.Find(item.key, [&](const StoredRecord& other) {
    return other.owner == owner.owner && other.era == owner.era;
  });
  std::optional<StoredRecord> before;
  if (record == nullptr) {
    // The last eighth is for pages in memory: sets are not refused for pages on disk.
    if (item.record.tier == Tier::kDisk &&
        records_.load(std::memory_order_relaxed) >= options_.max_records / 8 * 7)
      return kRefused;
    if (!MakeRoom(&stripe, item.key)) return kRefused;  // model: CrowdOut
    record = stripe.table.Insert(item.key);
    record->owner = owner.owner;
    owners_.Count(owner.owner, +1);
  } else if (record->generation > item.record.generation) {
    return stored;
  } else {
    if (buckets_.count() != 0) before = *record;
    if (record->generation < item.record.generation) record->served = {};  // model: Replace
  }
  record->era = owner.era;
  record->offset = item.record.offset;
  record->generation = item.record.generation;
  record->checksum = item.record.checksum;
  record->length = item.record.length;
  record->tier = item.record.tier;
  record->replica = item.record.replica;
  buckets_.Put(*record, before ? &*before : nullptr);
  return stored;
}

uint32_t Shard::Impl::Remove(const OwnerTable::Admission& owner, const WithdrawItem& item,
                             TimePoint now) {
  Stripe& stripe = stripes_[StripeOf(item.key)];
  std::lock_guard guard(stripe.mutex);
  StoredRecord* record = stripe.table.Find(item.key, [&](const StoredRecord& other) {
    return other.owner == owner.owner && other.era == owner.era;
  });
  // It may have gone a moment ago, as what is void does. model: served_unknown
  if (record == nullptr || record->generation != item.generation) return 0;
  const uint32_t unserved = record->served.MillisAgo(now);
  Erase(&stripe, record);
  return unserved;
}

// Read when all that is withdrawn is out of the buckets: who is granted a look later finds nothing.
uint32_t Shard::Impl::UnseenMillis(TimePoint now) const {
  OrderForDevices();
  const int64_t until = granted_until_.load(std::memory_order_relaxed);
  if (until == 0) return kNeverServed;
  const Duration unseen = now.time_since_epoch() - Duration(until);
  return static_cast<uint32_t>(std::clamp<int64_t>(ToMillis(unseen), 0, kNeverServed - 1));
}

DirectoryOk Shard::Impl::Directory(TimePoint now) {
  if (buckets_.count() == 0) return {};
  // Before anybody hears of the grant, which readers count by clocks of their own.
  // model: served_by_grant
  const int64_t until = (now.time_since_epoch() + Padded(options_.owner_ttl)).count();
  int64_t before = granted_until_.load(std::memory_order_relaxed);
  while (before < until &&
         !granted_until_.compare_exchange_weak(before, until, std::memory_order_relaxed)) {
  }
  OrderForDevices();  // either the reader's look finds nothing, or UnseenMillis sees this grant
  return {.instance = seed_, .buckets = buckets_.count(), .owners = owners_.Served(now)};
}

void Shard::Impl::LookupOne(Stripe* stripe, const Key& key, uint64_t reader,
                            std::span<const uint64_t> exclude, TimePoint now, Record* out,
                            Preferred preferred, Tally* tally) {
  bool silent = false;
  size_t named = 0;
  *out = Record{};
  stripe->table.VisitOf(key, [&](StoredRecord& stored) {
    Record record;
    switch (owners_.Serves(stored, now.time_since_epoch().count(), &record)) {
      case OwnerTable::Service::kDead: return true;
      case OwnerTable::Service::kSilent: silent = true; return true;
      case OwnerTable::Service::kServed: break;
    }
    if (record.node == reader ||
        std::find(exclude.begin(), exclude.end(), record.node) != exclude.end()) {
      return true;
    }
    // Under the lock that a withdrawal takes: what it tells covers answers that are still to be
    // sent. The reader's lease has begun before `now`. model: served_stamp
    stored.served.Raise(now);
    preferred.Offer(record);
    return ++named < kHoldersNamed;
  });
  if (out->node != 0) {
    ++tally->hits;
  } else if (silent) {
    ++tally->suppressed;
  }
}

void Shard::Impl::Lookup(std::span<const Key> keys, uint64_t reader,
                         std::span<const uint64_t> exclude, std::span<Record> out, TimePoint now,
                         std::vector<OtherRecord>* others) {  // model: Lookup
  Tally tally;
  const auto place_of = [&](const Key& key) { return &stripes_[StripeOf(key)]; };
  ByStripe<kStripes>(
      keys, StripeOf, place_of, [&](size_t s, size_t first, std::span<const uint16_t> which) {
        Stripe& stripe = stripes_[s];
        std::lock_guard guard(stripe.mutex);
        for (const size_t i : which) stripe.table.Prefetch(keys[first + i]);
        for (const size_t i : which) {
          const size_t at = first + i;
          LookupOne(&stripe, keys[at], reader, exclude, now, &out[at],
                    {reader, keys[at], static_cast<uint32_t>(at), &out[at], others}, &tally);
        }
      });
  lookups_.fetch_add(keys.size(), std::memory_order_relaxed);
  hits_.fetch_add(tally.hits, std::memory_order_relaxed);
  suppressed_.fetch_add(tally.suppressed, std::memory_order_relaxed);
}

ShardStats Shard::Impl::stats(TimePoint now) const {
  ShardStats stats;
  stats.records = records_.load(std::memory_order_relaxed);
  stats.lookups = lookups_.load(std::memory_order_relaxed);
  stats.hits = hits_.load(std::memory_order_relaxed);
  stats.suppressed = suppressed_.load(std::memory_order_relaxed);
  stats.refused_full = refused_full_.load(std::memory_order_relaxed);
  stats.refused_stale = refused_stale_.load(std::memory_order_relaxed);
  owners_.AddTo(&stats, now);
  return stats;
}

Shard::Shard(ShardOptions options) : impl_(std::make_unique<Impl>(options)) {}
Shard::~Shard() = default;

ShardVoice Shard::Voice(uint64_t node, TimePoint now) const { return impl_->Voice(node, now); }

Status Shard::Contact(const OwnerStamp& owner, TimePoint now) {
  return impl_->Admit(owner, now).status();
}

Status Shard::Publish(const OwnerStamp& owner, std::span<const PublishItem> items,
                      std::span<uint8_t> outcome, TimePoint now) {
  if (outcome.size() != items.size()) {
    return InvalidArgument(fmt::format("outcome has {} places for {} items: give one for each",
                                       outcome.size(), items.size()));
  }
  for (const PublishItem& item : items) {
    if (item.record.node != owner.node || item.record.incarnation != owner.incarnation) {
      return InvalidArgument(fmt::format(
          "record of page {} names node {:016x} incarnation {}, the owner that publishes it is "
          "{:016x} incarnation {}: owners publish only their own pages",
          item.key.ShortHex(), item.record.node, item.record.incarnation, owner.node,
          owner.incarnation));
    }
  }
  const auto admission = impl_->Admit(owner, now);
  if (!admission.ok()) return admission.status();
  for (size_t i = 0; i < items.size(); ++i) outcome[i] = impl_->Store(*admission, items[i]);
  return {};
}

Status Shard::Withdraw(const OwnerStamp& owner, std::span<const WithdrawItem> items, TimePoint now,
                       std::span<uint32_t> unserved_ms) {
  if (!unserved_ms.empty() && unserved_ms.size() != items.size()) {
    return InvalidArgument(
        fmt::format("unserved_ms has {} places for {} items: give one for each, or none",
                    unserved_ms.size(), items.size()));
  }
  const auto admission = impl_->Admit(owner, now);
  if (!admission.ok()) return admission.status();
  for (size_t i = 0; i < items.size(); ++i) {
    const uint32_t unserved = impl_->Remove(*admission, items[i], now);
    if (!unserved_ms.empty()) unserved_ms[i] = unserved;
  }
  const uint32_t unseen = impl_->UnseenMillis(now);
  for (uint32_t& unserved : unserved_ms) unserved = std::min(unserved, unseen);
  return {};
}

void Shard::Lookup(std::span<const Key> keys, uint64_t reader, std::span<const uint64_t> exclude,
                   std::span<Record> out, TimePoint now, std::vector<OtherRecord>* others) const {
  impl_->Lookup(keys, reader, exclude, out, now, others);
}

DirectoryOk Shard::Directory(TimePoint now) const { return impl_->Directory(now); }

size_t Shard::Expire(TimePoint now) {
  impl_->DropSilent(now);
  return impl_->Sweep();
}

size_t Shard::Forget(uint64_t node) {
  impl_->Drop(node);
  return impl_->Sweep();
}

ShardStats Shard::stats(TimePoint now) const { return impl_->stats(now); }

}  // namespace peercache
