#include "directory/reclaim_simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "directory/bucket_lookup.h"

namespace peercache {

ReclaimSimulation::ReclaimSimulation(uint64_t seed, Guards guards) : guards_(guards), rng_(seed) {
  // Weather of this run: from a nearly healthy network to one that hardly works.
  loss_ = Chance(0.5) ? 0.002 : 0.03;
  copies_ = Chance(0.5) ? 0 : 0.05;
  slow_ = Chance(0.5) ? 0.005 : 0.05;
  faults_ = Chance(0.3) ? 0.2 : 1;
  sweeps_ = Chance(0.5) ? 1 : 0.05;
  for (int s = 0; s < kShards; ++s) {
    shards_.push_back(
        {NewInstance(1, NewClock(), guards_.own_stamps ? Between(1, INT64_MAX / 4) : 1), {}, 0});
  }
  for (int r = 0; r < kReaders; ++r) readers_.push_back(NewClock());
  owners_.resize(kOwners);
  for (int o = 0; o < kOwners; ++o) {
    owners_[o].clock = NewClock();
    StartOwner(o, kFirstIncarnation + static_cast<uint64_t>(o));
  }
}

void ReclaimSimulation::Run() {
  for (int o = 0; o < kOwners; ++o) {
    Every(kSecond / 2, [=, this] {
      if (now_ < owners_[o].stalled_until) return;
      for (int s = 0; s < kShards; ++s) Contact(o, s);
    });
    Every(kSecond / 10, [=, this] {
      if (now_ >= owners_[o].stalled_until && !calm_) {
        Set(o);
        Tidy(o);
      }
      for (int s = 0; s < kShards; ++s) RepublishIfRaised(o, s);
    });
  }
  for (int r = 0; r < kReaders; ++r) {
    Every(kSecond / 25, [=, this] { Lookup(r); });
    Every(kSecond / 25, [=, this] { LookInto(r); });
    Every(kSecond / 2, [=, this] {
      for (int s = 0; s < kShards; ++s) AskForGrant(r, s);
    });
  }
  Every(kSecond, [this] {
    for (ShardHost& host : shards_) {
      host.now.memory->seen = host.now.memory->buckets;
      if (calm_ || Chance(sweeps_)) host.now.shard->Expire(Read(host.now.clock));
    }
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
  return {Between(kSecond, 1'000'000 * kSecond), 1 + kMaxDrift * (Pick(3) - 1)};
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
  switch (Pick(7)) {
    case 0:
    case 1: blocked_until_[owner][shard] = now_ + Between(kSecond / 2, 12 * kSecond); break;
    case 2: owners_[owner].stalled_until = now_ + Between(kSecond, 10 * kSecond); break;
    case 3: RestartShard(shard); break;
    case 4:
      if (Chance(0.3)) StartOwner(owner, NextIncarnation(owner));
      break;
    case 5: shards_[shard].now.shard->Forget(NodeOf(owner)); break;
    case 6:
      RestartShard(shard);
      StartOwner(owner, NextIncarnation(owner));
      break;
  }
}

// ---- the owner ----------------------------------------------------------------------------------

Key ReclaimSimulation::KeyOf(int key) {
  Key result;
  for (size_t i = 0; i < result.bytes.size(); ++i)
    result.bytes[i] = static_cast<uint8_t>(key * 37 + static_cast<int>(i) * 11 + 1);
  return result;
}

// Owner 1 has been configured to half the times.
OwnerTimes ReclaimSimulation::TimesOf(int o) { return {kLease / (1 + o), kTtl / (1 + o)}; }

// One process in three starts under a wall clock that has gone back.
uint64_t ReclaimSimulation::NextIncarnation(int o) {
  constexpr Nanos kClockJump = 1000;
  const uint64_t now = owners_[o].incarnation;
  uint64_t next = Chance(0.33) ? now - static_cast<uint64_t>(Between(1, kClockJump))
                               : now + static_cast<uint64_t>(Between(1, kClockJump));
  while (!incarnations_.insert(next).second) ++next;  // no two processes start at one instant
  return next;
}

void ReclaimSimulation::StartOwner(int o, uint64_t incarnation) {
  Owner& owner = owners_[o];
  owner.incarnation = incarnation;
  owner.slots.assign(kSlots, {});
  OwnerTimes times = TimesOf(o);
  if (!guards_.pad_waits) times = {times.lease * 64 / 65, times.owner_ttl * 64 / 65};
  if (!guards_.wait_lease) times.lease = {};
  const TimePoint start = guards_.former_life ? Read(owner.clock) : TimePoint();
  owner.fences.assign(kShards, Fence(NodeOf(o), incarnation, times, start));
  owner.published_epoch.assign(kShards, 1);
  owner.first_heard.assign(kShards, {});
  owner.heard.assign(kShards, Read(owner.clock));
}

void ReclaimSimulation::Send(int o, int s, Processed processed, Over over) {
  Owner& owner = owners_[o];
  const uint64_t incarnation = owner.incarnation;
  const OwnerStamp stamp = owner.fences[s].Begin();
  auto done = std::make_shared<bool>(false);

  const auto fail = [=, this] {
    if (guards_.raise_epoch) owners_[o].fences[s].Failed(stamp);
    over(false, false);
  };
  const auto answered = [=, this](Code code, ShardVoice voice) {
    if (*done || owners_[o].incarnation != incarnation) return;
    *done = true;
    if (code != Code::kOk) return fail();
    Owner& self = owners_[o];
    self.heard[s] = Read(self.clock);
    if (self.first_heard[s] == TimePoint()) self.first_heard[s] = self.heard[s];
    self.fences[s].Answered(stamp, voice.stamp, guards_.raise_on_restart ? voice.instance : 1,
                            guards_.count_from_hearing ? self.heard[s] : self.first_heard[s]);
    over(self.fences[s].Counts(stamp), stamp.echo == 0);
  };
  const auto arrive = [=, this] {
    ShardHost& host = shards_[s];
    if (host.ghost_listens && Haunted(host) && Chance(0.5))
      (void)Hear(&host.ghost, o, stamp, processed);
    Instance* instance = host.ghost_listens ? &host.now : Reach(s);
    const Code code = Hear(instance, o, stamp, processed);
    ShardVoice voice = instance->shard->Voice(NodeOf(o), Read(instance->clock));
    if (!guards_.own_stamps) voice.instance = instance->incarnation;
    // kStored shows in the outcome of a publish; the model contacts after any message without echo.
    Deliver(o, s, [=] { answered(code, voice); });
  };
  past_[o][s][stamp.sequence % kPast] = arrive;
  Deliver(o, s, arrive);
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
    if (guards_.note_first) slot.published_to.insert(s);
    slot.wanted.insert(s);
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
        for (int i : slots) {
          Slot& slot = owners_[o].slots[i];
          --slot.in_flight;
          if (answered && slot.state == SlotState::kReady) slot.published_to.insert(s);
        }
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
    if (slot.state == SlotState::kReady && slot.wanted.contains(s)) slots.push_back(i);
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
    if (slot.state == SlotState::kReady && slot.key == key) {
      // Set again, or wanted by another shard, as while the ring changes.
      const int s = (key + Pick(2)) % kShards;
      if (Chance(0.3) && !slot.removing.contains(s)) Publish(o, s, {i});
      return;
    }
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

// Repair after a change of the ring: some shard need not know some page any more.
void ReclaimSimulation::Tidy(int o) {
  const int i = Pick(kSlots), s = Pick(kShards);
  Slot& slot = owners_[o].slots[i];
  if (slot.state != SlotState::kReady || !slot.published_to.contains(s) ||
      slot.removing.contains(s) || (slot.wanted.contains(s) && Chance(0.5)) ||
      (guards_.keep_note_in_flight && slot.in_flight > 0)) {
    return;
  }
  slot.wanted.erase(s);
  Chance(0.5) ? Remove(o, s, i) : ForgetGone(o, s, i);
}

void ReclaimSimulation::Remove(int o, int s, int i) {
  Slot& slot = owners_[o].slots[i];
  if (guards_.keep_note_in_flight) slot.published_to.erase(s);
  slot.removing.insert(s);
  ++slot.in_flight;
  const std::vector<WithdrawItem> items{{KeyOf(slot.key), slot.generation}};
  Send(
      o, s,
      [items](Shard* shard, const OwnerStamp& stamp, TimePoint at) {
        return shard->Withdraw(stamp, items, at);
      },
      [=, this](bool answered, bool) {
        Owner& owner = owners_[o];
        Slot& page = owner.slots[i];
        --page.in_flight;
        page.removing.erase(s);
        const bool silent = Read(owner.clock) > owner.fences[s].SilentAfter();
        const bool over = answered && (silent || !guards_.keep_note_till_silent);
        if (guards_.keep_note_in_flight && !over) page.published_to.insert(s);
        if (!guards_.keep_note_in_flight && over) page.published_to.erase(s);
      });
}

// The shard has left, as far as this owner knows; it may live all the same.
void ReclaimSimulation::ForgetGone(int o, int s, int i) {
  Owner& owner = owners_[o];
  if (guards_.gone_gives_up) owner.fences[s].GiveUp();
  const bool silent = Read(owner.clock) > owner.fences[s].SilentAfter();
  if (silent || !guards_.keep_note_till_silent) owner.slots[i].published_to.erase(s);
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
  const TimePoint local = Read(owner.clock);
  TimePoint reuse_at = owner.fences[s].ReuseAfter(local);
  const Duration lease = reuse_at - std::max(local, owner.fences[s].SilentAfter());
  if (!guards_.wait_silence) reuse_at = local + lease;
  if (!guards_.raise_epoch && !answered)
    reuse_at = std::max(reuse_at, owner.heard[s] + Padded(TimesOf(o).owner_ttl) + lease);
  slot.reuse_at = std::max(slot.reuse_at, reuse_at);
  if (--slot.pending > 0) return;
  slot.state = SlotState::kResting;
  // Most slots are written as soon as they may be, the others with some set.
  const uint64_t incarnation = owner.incarnation, generation = slot.generation;
  if (Chance(0.2)) return;
  At(now_ + Real(owner.clock, slot.reuse_at - local) + 1000, [=, this] {
    Slot& rested = owners_[o].slots[i];
    if (owners_[o].incarnation != incarnation || rested.generation != generation ||
        rested.state != SlotState::kResting) {
      return;
    }
    rested = Slot();
    rested.generation = ++generations_;
    ++reuses_;
  });
}

// ---- shards and readers -------------------------------------------------------------------------

ReclaimSimulation::Instance ReclaimSimulation::NewInstance(uint64_t incarnation, MachineClock clock,
                                                           int64_t stamp_base) {
  ShardOptions options;
  options.self = 1;
  options.max_owners = 8;
  options.owner_ttl = guards_.check_fresh ? kTtl : milliseconds(3600'000);
  options.forget_after = guards_.check_fresh ? milliseconds(6500) : milliseconds(3600'000);
  options.stamp_base = stamp_base;
  auto memory = std::make_shared<Memory>();
  options.buckets = std::as_writable_bytes(std::span(memory->buckets));
  return {incarnation, clock, std::move(memory), std::make_unique<Shard>(options), {}};
}

// What the shard does with a message: the real thing, unless a guard is off.
Code ReclaimSimulation::Hear(Instance* instance, int o, OwnerStamp stamp,
                             const Processed& processed) {
  const TimePoint at = Read(instance->clock);
  stamp.ttl_ms = static_cast<uint32_t>(TimesOf(o).owner_ttl.count());
  stamp.lease_ms = static_cast<uint16_t>(TimesOf(o).lease.count());
  if (!guards_.own_echo) stamp.echo = instance->shard->Voice(NodeOf(o), at).stamp;
  if (!guards_.drop_copies) stamp.sequence = 0;
  if (!guards_.check_fresh) stamp.ttl_ms = 3600'000;
  if (!guards_.owners_times) stamp.ttl_ms = static_cast<uint32_t>(kTtl.count());
  auto& known = instance->known[o];
  const auto said = std::pair(stamp.incarnation, stamp.epoch);
  if (said.first == known.first && said < known && !guards_.refuse_lower)
    stamp.epoch = known.second;
  if (!guards_.void_lower) stamp.epoch = 1;
  const Code code = processed(instance->shard.get(), stamp, at).code();
  if (said.first != known.first && code == Code::kOk) known = said;
  if (said.first == known.first) known = std::max(known, said);
  return code;
}

bool ReclaimSimulation::Haunted(const ShardHost& host) const {
  return !calm_ && host.ghost.shard && now_ < host.ghost_until;
}

ReclaimSimulation::Instance* ReclaimSimulation::Reach(int s) {
  ShardHost& host = shards_[s];
  return Haunted(host) && Chance(0.3) ? &host.ghost : &host.now;
}

void ReclaimSimulation::RestartShard(int s) {
  ShardHost& host = shards_[s];
  const uint64_t incarnation = host.now.incarnation + 1;
  const MachineClock clock = host.now.clock;
  host.ghost = std::move(host.now);
  host.ghost_listens = Chance(0.5);
  host.ghost_until = Chance(0.5) ? now_ + Between(kSecond, 8 * kSecond) : 0;
  // Without stamps of its own, an instance is as good as the one before for an owner's echo.
  const int64_t base = Between(1, INT64_MAX / 4);
  for (auto& past : past_) {  // its first messages are those that somebody has kept
    const auto& arrive = past[s][Pick(kPast)];
    if (arrive && Chance(0.5)) At(now_ + Between(0, kSecond / 5), arrive);
  }
  host.now = NewInstance(incarnation, clock, guards_.own_stamps ? base : 1);
}

void ReclaimSimulation::Lookup(int r) {
  const int key = Pick(kKeys);
  const int s = (key + Pick(2)) % kShards;
  const TimePoint asked = Read(readers_[r]);
  Deliver(-1, s, [=, this] {
    Instance* instance = Reach(s);
    const Key keys[] = {KeyOf(key)};
    Record records[1];
    instance->shard->Lookup(keys, 1000 + r, {}, records, Read(instance->clock));
    Deliver(-1, s, [=, this, record = records[0]] { Found(r, record, key, s, asked); });
  });
}

void ReclaimSimulation::Found(int r, const Record& record, int key, int s, TimePoint asked) {
  if (record.node == 0) return;
  if (Chance(0.3)) Ask(r, record, key, s);
  const TimePoint local = Read(readers_[r]);
  TimePoint use_until = (guards_.lease_from_ask ? asked : local) + LeaseOf(record);
  if (!guards_.check_lease) use_until = local + 3 * kLease;
  if (local >= use_until) return;
  ++uses_;
  Use(record, key, s);
  // Reuse is for good, so the last moment of the lease tells about the whole of it.
  const Nanos left = Real(readers_[r], use_until - Read(readers_[r])) - 1000;
  if (left > 0) At(now_ + left, [=, this] { Use(record, key, s); });
}

void ReclaimSimulation::AskForGrant(int r, int s) {
  const TimePoint asked = Read(readers_[r]);
  Deliver(-1, s, [=, this] {
    const Instance* instance = Reach(s);
    const DirectoryOk said = instance->shard->Directory(Read(instance->clock));
    Deliver(-1, s, [=, this, memory = instance->memory] {
      granted_[r][s] = {memory, said, guards_.grant_from_ask ? asked : Read(readers_[r])};
    });
  });
}

// Whatever has become of the instance whose memory it is.
void ReclaimSimulation::LookInto(int r) {
  const int key = Pick(kKeys);
  const int s = (key + Pick(2)) % kShards;
  const Granted granted = granted_[r][s];
  if (granted.memory == nullptr) return;
  const TimePoint asked = Read(readers_[r]);
  Deliver(-1, s, [=, this] {
    const auto& memory = guards_.rewrite_first || granted.memory->seen.empty()
                             ? granted.memory->buckets
                             : granted.memory->seen;
    const Grant grant(granted.said, 1, granted.asked, Duration::max());
    const uint64_t index = grant.IndexOf(KeyOf(key));
    Bucket bucket = memory[index];
    if (!guards_.same_era && bucket.checksum != 0) {
      for (BucketEntry& entry : bucket.entries)
        for (const ServedOwner& owner : granted.said.owners)
          if (owner.place == entry.owner) entry.era = owner.era;
      bucket.checksum = BucketChecksum(bucket, index, grant.seed());
    }
    Record record;
    const TimePoint now = guards_.check_grant ? asked : granted.asked;
    const auto answer = LookUpIn(std::as_bytes(std::span(&bucket, 1)), grant, KeyOf(key), 1000 + r,
                                 {}, now, &record);
    if (answer != BucketAnswer::kFound) return;
    Deliver(-1, s, [=, this] {
      ++looks_;
      Found(r, record, key, s, asked);
    });
  });
}

Duration ReclaimSimulation::LeaseOf(const Record& record) const {
  const milliseconds owners(record.lease_ms);
  return guards_.owners_times ? std::min(kLease, owners) : kLease;
}

// A read by request: the holder looks at its slot, the reader at the time. The record may be old.
void ReclaimSimulation::Ask(int r, const Record& record, int key, int shard) {
  const int o = static_cast<int>(record.node - NodeOf(0));
  At(now_ + Between(0, 2 * kSecond), [=, this] {
    const TimePoint sent = Read(readers_[r]);
    Deliver(-1, shard, [=, this] {
      const Owner& owner = owners_[o];
      const Slot& slot = owner.slots[record.offset];
      if (record.incarnation != owner.incarnation) return;
      const bool there = slot.state == SlotState::kReady && slot.generation == record.generation;
      if (guards_.check_slot && !there) return;
      Deliver(-1, shard, [=, this] {
        if (record.incarnation != owners_[o].incarnation) return;  // its connection is gone
        if (guards_.read_in_time && Read(readers_[r]) - sent >= LeaseOf(record)) return;
        Use(record, key, shard);
      });
    });
  });
}

void ReclaimSimulation::Use(const Record& record, int key, int shard) {
  const Owner& owner = owners_[record.node - 100];
  // That process and its memory are gone.
  if (guards_.same_life && record.incarnation != owner.incarnation) return;
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
      for (int s : slot.wanted) {
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
