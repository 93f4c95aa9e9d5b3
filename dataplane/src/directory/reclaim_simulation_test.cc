#include "directory/reclaim_simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace peercache {

ReclaimSimulation::ReclaimSimulation(uint64_t seed, Guards guards) : guards_(guards), rng_(seed) {
  // Weather of this run: from a nearly healthy network to one that hardly works.
  loss_ = Chance(0.5) ? 0.002 : 0.03;
  copies_ = Chance(0.5) ? 0 : 0.05;
  slow_ = Chance(0.5) ? 0.005 : 0.05;
  faults_ = Chance(0.3) ? 0.2 : 1;
  for (int s = 0; s < kShards; ++s) shards_.push_back({NewInstance(1), {}, 0});
  for (int r = 0; r < kReaders; ++r) readers_.push_back(NewClock());
  owners_.resize(kOwners);
  for (int o = 0; o < kOwners; ++o) {
    owners_[o].clock = NewClock();
    StartOwner(o, 1);
  }
}

void ReclaimSimulation::Run() {
  for (int o = 0; o < kOwners; ++o) {
    Every(kSecond / 2, [=, this] {
      if (now_ < owners_[o].stalled_until) return;
      for (int s = 0; s < kShards; ++s) Contact(o, s);
    });
    Every(kSecond / 10, [=, this] {
      if (now_ >= owners_[o].stalled_until && !calm_) Set(o);
      for (int s = 0; s < kShards; ++s) RepublishIfRaised(o, s);
    });
  }
  for (int r = 0; r < kReaders; ++r) Every(kSecond / 25, [=, this] { Lookup(r); });
  Every(kSecond, [this] {
    for (ShardHost& host : shards_) host.now.shard->Expire(Read(host.now.clock));
    if (!calm_ && Chance(faults_ * 0.3)) Fault();
  });
  RunUntil(60 * kSecond);
  if (!violation_.empty()) return;
  calm_ = true;
  for (Owner& owner : owners_) owner.stalled_until = 0;
  RunUntil(now_ + 15 * kSecond);
  CheckServed();
}

// ---- chance, time and the network ---------------------------------------------------------------

ReclaimSimulation::MachineClock ReclaimSimulation::NewClock() {
  return {Between(kSecond, 1'000'000 * kSecond),
          1 + 1e-3 * std::uniform_real_distribution<>(-1, 1)(rng_)};
}

TimePoint ReclaimSimulation::Read(const MachineClock& clock) const {
  return TimePoint(Duration(clock.origin + std::llround(static_cast<double>(now_) * clock.rate)));
}

ReclaimSimulation::Nanos ReclaimSimulation::Real(const MachineClock& clock, Duration local) {
  return std::llround(static_cast<double>(local.count()) / clock.rate);
}

void ReclaimSimulation::Deliver(int owner, int shard, std::function<void()> run) {
  const int messages = 1 + (!calm_ && Chance(copies_) ? 1 : 0);
  for (int i = 0; i < messages; ++i) {
    if (!calm_ && Chance(loss_)) continue;
    if (!calm_ && owner >= 0 && blocked_until_[owner][shard] > now_) continue;
    Nanos delay = Between(kSecond / 2000, kSecond / 50);
    if (!calm_ && Chance(slow_)) delay += Between(0, Chance(0.5) ? kSecond : 9 * kSecond);
    At(now_ + delay, run);
  }
}

void ReclaimSimulation::RunUntil(Nanos end) {
  while (!events_.empty() && events_.top().at <= end && violation_.empty()) {
    const Event event = events_.top();
    events_.pop();
    now_ = event.at;
    event.run();
  }
  now_ = end;
}

void ReclaimSimulation::Every(Nanos period, std::function<void()> run) {
  At(now_ + Between(period / 2, period + period / 2), [=, this] {
    run();
    Every(period, run);
  });
}

void ReclaimSimulation::Fault() {
  const int owner = Pick(kOwners), shard = Pick(kShards);
  switch (Pick(6)) {
    case 0:
    case 1: blocked_until_[owner][shard] = now_ + Between(kSecond / 2, 12 * kSecond); break;
    case 2: owners_[owner].stalled_until = now_ + Between(kSecond, 10 * kSecond); break;
    case 3: RestartShard(shard); break;
    case 4:
      if (Chance(0.3)) StartOwner(owner, owners_[owner].incarnation + 1);
      break;
    case 5: shards_[shard].now.shard->Forget(NodeOf(owner)); break;
  }
}

// ---- the owner ----------------------------------------------------------------------------------

Key ReclaimSimulation::KeyOf(int key) {
  Key result;
  for (size_t i = 0; i < result.bytes.size(); ++i)
    result.bytes[i] = static_cast<uint8_t>(key * 37 + static_cast<int>(i) * 11 + 1);
  return result;
}

void ReclaimSimulation::StartOwner(int o, uint64_t incarnation) {
  Owner& owner = owners_[o];
  owner.incarnation = incarnation;
  owner.slots.assign(kSlots, {});
  owner.fences.assign(kShards, Fence(NodeOf(o), incarnation, kTtl));
  owner.published_epoch.assign(kShards, 1);
  owner.last_begin.assign(kShards, Read(owner.clock));
}

void ReclaimSimulation::Send(int o, int s, Processed processed, Over over) {
  Owner& owner = owners_[o];
  const uint64_t incarnation = owner.incarnation;
  const OwnerStamp stamp = owner.fences[s].Begin(Read(owner.clock));
  owner.last_begin[s] = Read(owner.clock);
  auto done = std::make_shared<bool>(false);

  const auto fail = [=, this] {
    if (guards_.raise_epoch) owners_[o].fences[s].Failed(stamp, Read(owners_[o].clock));
    over(false, false);
  };
  const auto answered = [=, this](Code code, int64_t shard_stamp, uint64_t shard_incarnation,
                                  bool stored_only) {
    if (*done || owners_[o].incarnation != incarnation) return;
    *done = true;
    if (code != Code::kOk) return fail();
    owners_[o].fences[s].Answered(stamp, shard_stamp, shard_incarnation, Read(owners_[o].clock));
    over(true, stored_only);
  };
  Deliver(o, s, [=, this] {
    Instance* instance = Reach(s);
    const TimePoint at = Read(instance->clock);
    OwnerStamp heard = stamp;
    if (!guards_.own_echo) heard.echo = instance->shard->Stamp(at);
    if (!guards_.drop_copies) heard.sequence = 0;
    const Code code = processed(instance->shard.get(), heard, at).code();
    // kStored shows in the outcome of a publish; the model contacts after any message without echo.
    Deliver(
        o, s,
        [=, shard_stamp = instance->shard->Stamp(at), shard_incarnation = instance->incarnation] {
          answered(code, shard_stamp, shard_incarnation, heard.echo == 0);
        });
  });
  At(now_ + Real(owner.clock, kTimeout), [=, this] {
    if (*done || owners_[o].incarnation != incarnation) return;
    *done = true;
    fail();
  });
}

void ReclaimSimulation::Contact(int o, int s) {
  Send(
      o, s,
      [](Shard* shard, const OwnerStamp& stamp, TimePoint at) { return shard->Contact(stamp, at); },
      [](bool, bool) {});
}

void ReclaimSimulation::Publish(int o, int s, const std::vector<int>& slots) {
  Owner& owner = owners_[o];
  std::vector<PublishItem> items;
  for (int i : slots) {
    Slot& slot = owner.slots[i];
    slot.published_to.insert(s);
    ++slot.in_flight;
    items.push_back({KeyOf(slot.key), Record{.node = NodeOf(o),
                                             .incarnation = owner.incarnation,
                                             .offset = static_cast<uint64_t>(i),
                                             .generation = slot.generation,
                                             .length = 1}});
  }
  Send(
      o, s,
      [items](Shard* shard, const OwnerStamp& stamp, TimePoint at) {
        std::vector<uint8_t> outcome(items.size());
        return shard->Publish(stamp, items, outcome, at);
      },
      [=, this](bool answered, bool stored_only) {
        for (int i : slots) --owners_[o].slots[i].in_flight;
        if (answered && stored_only) Contact(o, s);
      });
}

void ReclaimSimulation::RepublishIfRaised(int o, int s) {
  Owner& owner = owners_[o];
  if (owner.published_epoch[s] == owner.fences[s].epoch()) return;
  owner.published_epoch[s] = owner.fences[s].epoch();
  std::vector<int> slots;
  for (int i = 0; i < kSlots; ++i) {
    const Slot& slot = owner.slots[i];
    if (slot.state == SlotState::kReady && slot.published_to.contains(s)) slots.push_back(i);
  }
  if (!slots.empty()) Publish(o, s, slots);
}

void ReclaimSimulation::Set(int o) {
  Owner& owner = owners_[o];
  const TimePoint local = Read(owner.clock);
  for (Slot& slot : owner.slots) {
    if (slot.state != SlotState::kResting || local <= slot.reuse_at) continue;
    const uint64_t generation = slot.generation;
    slot = Slot();
    slot.generation = generation;
  }

  const int key = Pick(kKeys);
  int free = -1;
  for (int i = 0; i < kSlots; ++i) {
    const Slot& slot = owner.slots[i];
    if (slot.state == SlotState::kReady && slot.key == key) return;
    if (slot.state == SlotState::kFree) free = i;
  }
  if (free < 0) return Withdraw(o, Pick(kSlots));
  Slot& slot = owner.slots[free];
  if (slot.generation != 0) ++reuses_;
  slot.state = SlotState::kReady;
  slot.key = key;
  slot.generation = ++generations_;  // here the memory is overwritten
  Publish(o, key % kShards, {free});
  if (Chance(0.3)) Publish(o, (key + 1) % kShards, {free});
}

void ReclaimSimulation::Withdraw(int o, int i) {
  Owner& owner = owners_[o];
  Slot& slot = owner.slots[i];
  if (slot.state != SlotState::kReady || (guards_.settle_publish && slot.in_flight > 0)) return;
  slot.state = SlotState::kWithdrawing;
  slot.reuse_at = Read(owner.clock);
  slot.pending = static_cast<int>(slot.published_to.size());
  for (int s : slot.published_to) {
    if (guards_.raise_epoch && Chance(0.03)) {  // as with an open breaker
      owner.fences[s].GiveUp();
      WithdrawnFrom(o, s, i, false);
      continue;
    }
    const std::vector<WithdrawItem> items{{KeyOf(slot.key), slot.generation}};
    Send(
        o, s,
        [items](Shard* shard, const OwnerStamp& stamp, TimePoint at) {
          return shard->Withdraw(stamp, items, at);
        },
        [=, this](bool answered, bool) { WithdrawnFrom(o, s, i, answered); });
  }
}

void ReclaimSimulation::WithdrawnFrom(int o, int s, int i, bool answered) {
  Owner& owner = owners_[o];
  Slot& slot = owner.slots[i];
  const Duration lease = guards_.wait_lease ? kLease : Duration{};
  const TimePoint local = Read(owner.clock);
  TimePoint reuse_at = local + Padded(lease);
  if (guards_.wait_silence) reuse_at = owner.fences[s].ReuseAfter(local, lease);
  if (!guards_.raise_epoch && !answered)
    reuse_at = owner.last_begin[s] + Padded(kTtl) + Padded(lease);
  slot.reuse_at = std::max(slot.reuse_at, reuse_at);
  if (--slot.pending == 0) slot.state = SlotState::kResting;
}

// ---- shards and readers -------------------------------------------------------------------------

ReclaimSimulation::Instance ReclaimSimulation::NewInstance(uint64_t incarnation) {
  ShardOptions options;
  options.self = 1;
  options.max_owners = 8;
  options.owner_ttl = guards_.check_fresh ? kTtl : Duration(milliseconds(3600'000));
  options.forget_after = guards_.check_fresh ? milliseconds(6000) : milliseconds(3600'000);
  options.stamp_base = Between(1, INT64_MAX / 4);
  return {incarnation, NewClock(), std::make_unique<Shard>(options)};
}

ReclaimSimulation::Instance* ReclaimSimulation::Reach(int s) {
  ShardHost& host = shards_[s];
  const bool haunted = !calm_ && host.ghost.shard && now_ < host.ghost_until;
  return haunted && Chance(0.3) ? &host.ghost : &host.now;
}

void ReclaimSimulation::RestartShard(int s) {
  ShardHost& host = shards_[s];
  const uint64_t incarnation = host.now.incarnation + 1;
  host.ghost = std::move(host.now);
  host.ghost_until = Chance(0.5) ? now_ + Between(kSecond, 8 * kSecond) : 0;
  host.now = NewInstance(incarnation);
}

void ReclaimSimulation::Lookup(int r) {
  const int key = Pick(kKeys);
  const int s = (key + Pick(2)) % kShards;
  const TimePoint use_until = Read(readers_[r]) + kLease;
  Deliver(-1, s, [=, this] {
    Instance* instance = Reach(s);
    const Key keys[] = {KeyOf(key)};
    Record records[1];
    instance->shard->Lookup(keys, 1000 + r, {}, records, Read(instance->clock));
    Deliver(-1, s, [=, this, record = records[0]] {
      if (record.node == 0 || Read(readers_[r]) >= use_until) return;
      ++uses_;
      Use(record, key, s);
      // Reuse is for good, so the last moment of the lease tells about the whole of it.
      const Nanos left = Real(readers_[r], use_until - Read(readers_[r])) - 1000;
      if (left > 0) At(now_ + left, [=, this] { Use(record, key, s); });
    });
  });
}

void ReclaimSimulation::Use(const Record& record, int key, int shard) {
  const Owner& owner = owners_[record.node - 100];
  if (record.incarnation != owner.incarnation) return;  // that process and its memory are gone
  const Slot& slot = owner.slots[record.offset];
  if (slot.generation == record.generation || !violation_.empty()) return;
  violation_ = fmt::format(
      "at {} ms: page {} of owner {} slot {}, generation {}, given by shard {}, is "
      "overwritten by generation {}",
      now_ / 1'000'000, key, record.node, record.offset, record.generation, shard, slot.generation);
}

void ReclaimSimulation::CheckServed() {
  for (int o = 0; o < kOwners; ++o) {
    const uint64_t others[] = {NodeOf(1 - o)};
    for (const Slot& slot : owners_[o].slots) {
      if (slot.state != SlotState::kReady) continue;
      for (int s : slot.published_to) {
        const Instance& instance = shards_[s].now;
        const Key keys[] = {KeyOf(slot.key)};
        Record records[1];
        instance.shard->Lookup(keys, 1000, others, records, Read(instance.clock));
        if (records[0].node == NodeOf(o) && records[0].generation == slot.generation) continue;
        unserved_ += fmt::format("page {} of owner {} at shard {}; ", slot.key, NodeOf(o), s);
      }
    }
  }
}

}  // namespace peercache
