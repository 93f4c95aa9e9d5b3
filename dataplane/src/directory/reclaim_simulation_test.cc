// NOT-IN-A-GROUP: members of a class.
#include "directory/reclaim_simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace peercache {

ReclaimSimulation::ReclaimSimulation(uint64_t seed, Guards guards, Setting setting)
    : guards_(guards), setting_(setting), rng_(seed) {
  // Weather of this run: from a nearly healthy network to one that hardly works.
  loss_ = Chance(0.5) ? 0.002 : 0.03;
  copies_ = Chance(0.5) ? 0 : 0.05;
  slow_ = Chance(0.5) ? 0.005 : 0.05;
  faults_ = Chance(0.3) ? 0.2 : 1;
  sweeps_ = Chance(0.5) ? 1 : 0.05;
  grants_ = Chance(0.6);
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
      if (now_ < owners_[o].stalled_until || Paused(owners_[o].clock)) return;
      for (int s = 0; s < kShards; ++s) Contact(o, s);
    });
    Every(kSecond / 10, [=, this] {
      if (Paused(owners_[o].clock)) return;
      if (now_ >= owners_[o].stalled_until && !calm_) {
        Set(o);
        Tidy(o);
      }
      for (int s = 0; s < kShards; ++s) RepublishIfRaised(o, s);
    });
  }
  for (int r = 0; r < kReaders; ++r) {
    Every(kSecond / 25, [=, this] { Lookup(r); });
    if (!grants_) continue;
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
    if (!calm_ && Chance(faults_ * 0.3)) PauseSome();
    if (!calm_ && Chance(copies_ * 4)) {  // somebody has kept a message
      const auto& arrive = past_[Pick(kOwners)][Pick(kShards)][Pick(kPast)];
      if (arrive) At(now_ + Between(0, kSecond), arrive);
    }
  });
  RunUntil(60 * kSecond);
  if (!violation_.empty()) return;
  calm_ = true;
  for (Owner& owner : owners_) {
    owner.stalled_until = 0;
    EndPause(&owner.clock);
  }
  for (ShardHost& host : shards_) EndPause(&host.now.clock);
  RunUntil(now_ + 15 * kSecond);
  CheckServed();
}

// ---- chance, time and the network ---------------------------------------------------------------

ReclaimSimulation::MachineClock ReclaimSimulation::NewClock() {
  const double most = guards_.raw_clock ? kMaxDrift : kMaxSlew;
  return {Between(kSecond, 1'000'000 * kSecond), 1 + most * (Pick(3) - 1)};
}

TimePoint ReclaimSimulation::Read(const MachineClock& clock) const {
  const Nanos stood = clock.stood + std::min(now_, clock.stands_until) - clock.stands_from;
  return TimePoint(
      Duration(clock.origin + std::llround(static_cast<double>(now_ - stood) * clock.rate)));
}

void ReclaimSimulation::Pause(MachineClock* clock) {
  if (Paused(*clock)) return;
  clock->stood += clock->stands_until - clock->stands_from;
  clock->stands_from = now_;
  clock->stands_until = now_ + Between(kSecond / 10, 8 * kSecond);
}

void ReclaimSimulation::EndPause(MachineClock* clock) const {
  clock->stands_until = std::min(clock->stands_until, now_);
}

void ReclaimSimulation::PauseSome() {
  switch (Pick(3)) {
    case 0:
      if (setting_.owners_pause) Pause(&owners_[Pick(kOwners)].clock);
      break;
    case 1:
      if (setting_.shards_pause) {
        ShardHost& host = shards_[Pick(kShards)];
        Pause(&host.now.clock);
        host.ghost.clock = host.now.clock;
      }
      break;
    case 2:
      if (setting_.readers_pause) Pause(&readers_[Pick(kReaders)]);
      break;
  }
}

void ReclaimSimulation::OnMachine(const MachineClock& clock, std::function<void()> run) {
  if (!Paused(clock)) return run();
  At(clock.stands_until + Between(0, kSecond / 50), std::move(run));
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
  switch (Pick(8)) {
    case 0:
    case 1: blocked_until_[owner][shard] = now_ + Between(kSecond / 2, 12 * kSecond); break;
    case 2: owners_[owner].stalled_until = now_ + Between(kSecond, 10 * kSecond); break;
    case 3: RestartShard(shard); break;
    case 4:
      if (Chance(0.3)) Restart(owner);
      break;
    case 5: shards_[shard].now.shard->Forget(NodeOf(owner)); break;
    case 6:
      RestartShard(shard);
      Restart(owner);
      break;
    case 7: HearOfThePast(owner, shard); break;
  }
}

// The owner says nothing for long. Somebody delivers a message of its former process, and when that
// has been silent for a ttl, some of its own.
void ReclaimSimulation::HearOfThePast(int o, int s) {
  const Nanos ttl = std::chrono::nanoseconds(kTtl).count(), silence = ttl + 2 * kSecond;
  owners_[o].stalled_until = now_ + silence;
  if (former_[o][s]) At(now_ + Between(0, kSecond / 5), former_[o][s]);
  for (int i = 0; i < kPast / 2; ++i) {
    const auto& arrive = past_[o][s][Pick(kPast)];
    if (arrive) At(now_ + ttl + Between(kSecond / 2, 3 * kSecond / 2), arrive);
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
OwnerTimes ReclaimSimulation::TimesOf(int o) const {
  return {kLease / (1 + o) / (owners_[o].shorter ? 2 : 1), kTtl / (1 + o)};
}

// One process in three starts under a wall clock that has gone back.
uint64_t ReclaimSimulation::NextIncarnation(int o) {
  constexpr Nanos kClockJump = 1000;
  const uint64_t now = owners_[o].incarnation;
  uint64_t next = Chance(0.33) ? now - static_cast<uint64_t>(Between(1, kClockJump))
                               : now + static_cast<uint64_t>(Between(1, kClockJump));
  while (!incarnations_.insert(next).second) ++next;  // no two processes start at one instant
  return next;
}

// With a file it may end again before it has rested.
void ReclaimSimulation::Restart(int o) {
  StartOwner(o, NextIncarnation(o));
  if (!setting_.files || Chance(0.5)) return;
  const Nanos soon = std::chrono::nanoseconds(kLease).count() / 2;
  At(now_ + Between(0, soon), [=, this] { StartOwner(o, NextIncarnation(o)); });
}

// What the process before has left in memory that outlives it.
void ReclaimSimulation::Adopt(int o) {
  Owner& owner = owners_[o];
  const Duration former = TimesOf(o).lease;
  const TimePoint now = Read(owner.clock);
  const bool rested = now > owner.rests_until;
  owner.shorter = Chance(0.7);
  const Duration own = Padded(TimesOf(o).lease);
  Duration longest = Padded(former);
  if (guards_.rest_kept && !rested) longest = std::max(longest, owner.kept);
  owner.kept = guards_.rest_longest ? std::max(own, longest) : own;
  owner.rests_until = guards_.rest_adopted ? now + owner.kept : now;
  for (Slot& slot : owner.slots) {
    const bool there = slot.state == SlotState::kReady;
    slot = Slot{.state = there ? SlotState::kReady : SlotState::kFree,
                .key = there ? slot.key : -1,
                .generation = slot.generation,
                .header = there ? slot.header : 0};
  }
}

void ReclaimSimulation::StartOwner(int o, uint64_t incarnation) {
  Owner& owner = owners_[o];
  for (int s = 0; s < kShards; ++s) former_[o][s] = past_[o][s][Pick(kPast)];
  owner.incarnation = incarnation;
  if (setting_.files && !owner.slots.empty()) {
    Adopt(o);
  } else {
    owner.slots.assign(kSlots, {});
  }
  OwnerTimes times = TimesOf(o);
  if (!guards_.pad_waits) times = {times.lease * 64 / 65, times.owner_ttl * 64 / 65};
  if (!guards_.wait_lease) times.lease = {};
  const TimePoint start = guards_.former_life ? Read(owner.clock) : TimePoint();
  owner.fences.assign(kShards, Fence(NodeOf(o), incarnation, times, start));
  owner.published_epoch.assign(kShards, 1);
  owner.first_heard.assign(kShards, {});
  owner.heard.assign(kShards, Read(owner.clock));
  for (int i = 0; i < kSlots; ++i) {  // all pages anew
    const Slot& slot = owner.slots[i];
    if (slot.state == SlotState::kReady) Publish(o, slot.key % kShards, {i});
  }
}

void ReclaimSimulation::Send(int o, int s, Processed processed, Over over) {
  Owner& owner = owners_[o];
  const uint64_t incarnation = owner.incarnation;
  const OwnerStamp stamp = owner.fences[s].Begin();
  auto done = std::make_shared<bool>(false);

  const auto fail = [=, this] {
    if (guards_.raise_epoch) owners_[o].fences[s].Failed(stamp);
    over(false, false, 0);
  };
  const auto answered = [=, this](Heard heard, ShardVoice voice) {
    if (*done || owners_[o].incarnation != incarnation) return;
    *done = true;
    if (heard.code != Code::kOk) return fail();
    Owner& self = owners_[o];
    self.heard[s] = Read(self.clock);
    if (self.first_heard[s] == TimePoint()) self.first_heard[s] = self.heard[s];
    self.fences[s].Answered(stamp, voice.stamp, guards_.raise_on_restart ? voice.instance : 1,
                            guards_.count_from_hearing ? self.heard[s] : self.first_heard[s]);
    over(self.fences[s].Counts(stamp), stamp.echo == 0, heard.unserved_ms);
  };
  const auto hear = [=, this] {
    ShardHost& host = shards_[s];
    if (host.ghost_listens && Haunted(host) && Chance(0.5))
      (void)Hear(&host.ghost, o, stamp, processed);
    Instance* instance = host.ghost_listens ? &host.now : Reach(s);
    const Heard heard = Hear(instance, o, stamp, processed);
    ShardVoice voice = instance->shard->Voice(NodeOf(o), Read(instance->clock));
    if (!guards_.own_stamps) voice.instance = instance->incarnation;
    if (!guards_.new_name && voice.instance != 0) {
      uint64_t& name = instance->name[o];
      if (name == 0) name = voice.instance;
      voice.stamp += static_cast<int64_t>(name - voice.instance);
      voice.instance = name;
    }
    // kStored shows in the outcome of a publish; the model contacts after any message without echo.
    Deliver(o, s, [=] { answered(heard, voice); });
  };
  const auto arrive = [=, this] { OnMachine(shards_[s].now.clock, hear); };
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
      [](Instance* instance, const OwnerStamp& stamp, TimePoint at) {
        return Heard{instance->shard->Contact(stamp, at).code()};
      },
      [](bool, bool, uint32_t) {});
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
      [items](Instance* instance, const OwnerStamp& stamp, TimePoint at) {
        std::vector<uint8_t> outcome(items.size());
        return Heard{instance->shard->Publish(stamp, items, outcome, at).code()};
      },
      [=, this](bool answered, bool stored_only, uint32_t) {
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
    slot = Slot{.generation = slot.generation, .header = slot.header};
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
    if (slot.state == SlotState::kFree && local > owner.rests_until) free = i;
  }
  if (free < 0) return Withdraw(o, Pick(kSlots));
  Slot& slot = owner.slots[free];
  if (slot.generation != 0) ++reuses_;
  slot.state = SlotState::kReady;
  slot.key = key;
  Fill(o, free);
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
  Send(o, s, Withdrawal(o, i), [=, this](bool answered, bool, uint32_t) {
    Owner& owner = owners_[o];
    Slot& page = owner.slots[i];
    --page.in_flight;
    page.removing.erase(s);
    const bool silent = Read(owner.clock) > owner.fences[s].SilentAfter();
    const bool over = answered && (silent || !guards_.keep_note_till_silent);
    if (guards_.keep_note_in_flight && !over) page.published_to.insert(s);
    if (!guards_.keep_note_in_flight && over) page.published_to.erase(s);
    if (guards_.served_elsewhere) page.told.Raise(Read(owner.clock));
  });
}

// The shard has left, as far as this owner knows; it may live all the same.
void ReclaimSimulation::ForgetGone(int o, int s, int i) {
  Owner& owner = owners_[o];
  if (guards_.gone_gives_up) owner.fences[s].GiveUp();
  const bool unheld = Read(owner.clock) > owner.fences[s].UnheldAfter();
  if (unheld || !guards_.keep_note_till_silent) owner.slots[i].published_to.erase(s);
}

ReclaimSimulation::Processed ReclaimSimulation::Withdrawal(int o, int i) {
  const Slot& slot = owners_[o].slots[i];
  const std::vector<WithdrawItem> items{{KeyOf(slot.key), slot.generation}};
  return [=, this](Instance* instance, const OwnerStamp& stamp, TimePoint at) {
    std::vector<uint32_t> unserved(1);
    const uint64_t before = instance->shard->stats(at).records;
    const Code code = instance->shard->Withdraw(stamp, items, at, unserved).code();
    const bool there = instance->shard->stats(at).records != before;
    uint32_t says = unserved[0];
    if (!guards_.served_by_grant)
      says = there ? instance->served[{o, items[0].generation}].MillisAgo(at) : 0;
    if ((!guards_.served_unknown && !there) || !guards_.served_stamp) says = kNeverServed;
    return Heard{code, says};
  };
}

void ReclaimSimulation::Withdraw(int o, int i) {
  Owner& owner = owners_[o];
  Slot& slot = owner.slots[i];
  if (slot.state != SlotState::kReady || (guards_.settle_publish && slot.in_flight > 0)) return;
  if (slot.reads > 0) return;
  slot.state = SlotState::kWithdrawing;
  slot.withdrawn = Read(owner.clock);
  const Duration lease = owner.fences[0].UnheldAfter() - owner.fences[0].SilentAfter();
  slot.reuse_at = slot.withdrawn;
  if (const uint32_t ago = slot.told.MillisAgo(slot.withdrawn); ago != LastTime::kNever)
    slot.reuse_at = std::max(slot.reuse_at, slot.withdrawn - milliseconds(ago) + lease);
  slot.pending = static_cast<int>(slot.published_to.size());
  if (slot.pending == 0) return Rest(o, i);
  for (int s : slot.published_to) {
    if (guards_.raise_epoch && Chance(0.03)) {  // as with an open breaker
      owner.fences[s].GiveUp();
      WithdrawnFrom(o, s, i, false, 0);
      continue;
    }
    Send(o, s, Withdrawal(o, i), [=, this](bool answered, bool, uint32_t unserved_ms) {
      WithdrawnFrom(o, s, i, answered, answered ? unserved_ms : 0);
    });
  }
}

void ReclaimSimulation::WithdrawnFrom(int o, int s, int i, bool answered, uint32_t unserved_ms) {
  Owner& owner = owners_[o];
  Slot& slot = owner.slots[i];
  const Fence& fence = owner.fences[s];
  const TimePoint local = Read(owner.clock);
  const Duration lease = fence.UnheldAfter() - fence.SilentAfter();
  TimePoint reuse_at = fence.ReuseAfter(local, unserved_ms);
  if (!guards_.wait_silence) reuse_at = local + lease;
  if (!guards_.raise_epoch && !answered)
    reuse_at = std::max(reuse_at, owner.heard[s] + Padded(TimesOf(o).owner_ttl) + lease);
  slot.reuse_at = std::max(slot.reuse_at, reuse_at);
  if (--slot.pending == 0) Rest(o, i);
}

void ReclaimSimulation::Rest(int o, int i) {
  Owner& owner = owners_[o];
  Slot& slot = owner.slots[i];
  const TimePoint local = Read(owner.clock);
  slot.reuse_at = std::max(slot.reuse_at, slot.withdrawn);
  if (slot.reuse_at - slot.withdrawn < TimesOf(o).lease) ++early_;
  slot.reuse_at = std::max(slot.reuse_at, owner.rests_until);
  slot.state = SlotState::kResting;
  // Most slots are written as soon as they may be, the others with some set.
  const uint64_t incarnation = owner.incarnation, generation = slot.generation;
  if (Chance(0.2)) return;
  At(now_ + Real(owner.clock, std::max(Duration::zero(), slot.reuse_at - local)) + 1000,
     [=, this] { Rewrite(o, i, incarnation, generation); });
}

void ReclaimSimulation::Rewrite(int o, int i, uint64_t incarnation, uint64_t generation) {
  const Owner& owner = owners_[o];
  const Slot& slot = owner.slots[i];
  if (owner.incarnation != incarnation || slot.generation != generation ||
      slot.state != SlotState::kResting) {
    return;
  }
  if (const Duration left = slot.reuse_at - Read(owner.clock); left >= Duration::zero()) {
    const Nanos pause = std::max<Nanos>(0, owner.clock.stands_until - now_);
    At(now_ + pause + Real(owner.clock, left) + 1000,
       [=, this] { Rewrite(o, i, incarnation, generation); });
    return;
  }
  owners_[o].slots[i] = Slot{.generation = slot.generation, .header = slot.header};
  Fill(o, i);
  ++reuses_;
}

// The memory is overwritten.
void ReclaimSimulation::Fill(int o, int i) {
  Slot& slot = owners_[o].slots[i];
  slot.generation = ++generations_;
  if (guards_.void_first) {
    slot.header = slot.generation;
    return;
  }
  At(now_ + Between(0, kSecond / 5), [=, this, generation = slot.generation] {
    Slot& filled = owners_[o].slots[i];
    filled.header = std::max(filled.header, generation);
  });
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
