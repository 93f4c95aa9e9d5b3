// Shards and readers of the simulation. NOT-IN-A-GROUP: members of a class.
#include <fmt/format.h>

#include <algorithm>

#include "directory/bucket_lookup.h"
#include "directory/reclaim_simulation.h"

namespace peercache {

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
  return {incarnation, clock, std::move(memory), std::make_unique<Shard>(options), {}, {}, {}};
}

// What the shard does with a message: the real thing, unless a guard is off.
ReclaimSimulation::Heard ReclaimSimulation::Hear(Instance* instance, int o, OwnerStamp stamp,
                                                 const Processed& processed) {
  const TimePoint at = Read(instance->clock);
  if (!guards_.new_name && instance->name[o] != 0 && stamp.echo != 0)
    stamp.echo +=
        static_cast<int64_t>(instance->shard->Voice(NodeOf(o), at).instance - instance->name[o]);
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
  const Heard heard = processed(instance, stamp, at);
  if (said.first != known.first && heard.code == Code::kOk) known = said;
  if (said.first == known.first) known = std::max(known, said);
  return heard;
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
  if (Paused(readers_[r])) return;
  const TimePoint asked = Read(readers_[r]);
  const auto look = [=, this] {
    Instance* instance = Reach(s);
    const Key keys[] = {KeyOf(key)};
    Record records[1];
    instance->shard->Lookup(keys, 1000 + r, {}, records, Read(instance->clock));
    if (records[0].node != 0)
      instance->served[{static_cast<int>(records[0].node - NodeOf(0)), records[0].generation}]
          .Raise(Read(instance->clock));
    Deliver(-1, s, [=, this, record = records[0]] {
      OnMachine(readers_[r], [=, this] { Found(r, record, key, s, asked); });
    });
  };
  Deliver(-1, s, [=, this] { OnMachine(shards_[s].now.clock, look); });
}

void ReclaimSimulation::Found(int r, const Record& record, int key, int s, TimePoint asked) {
  if (record.node == 0) return;
  if (!setting_.one_sided || Chance(0.3)) Ask(r, record, key, s);
  if (!setting_.one_sided) return;
  const TimePoint local = Read(readers_[r]);
  TimePoint use_until = (guards_.lease_from_ask ? asked : local) + LeaseOf(record);
  if (!guards_.check_lease) use_until = local + 3 * kLease;
  if (local >= use_until) return;
  ++uses_;
  ReadSlowly(r, record, key, s, use_until);
  // With headers it is they that tell, at whatever time.
  if (setting_.headers) return;
  Use(record, key, s);
  UseUntil(r, record, key, s, use_until);
}

// Reuse is for good, so the last moment of the lease tells about the whole of it.
void ReclaimSimulation::UseUntil(int r, const Record& record, int key, int s, TimePoint until) {
  const Nanos left = Real(readers_[r], until - Read(readers_[r])) - 1000;
  if (left <= 0) return;
  At(now_ + left, [=, this] {
    OnMachine(readers_[r], [=, this] {
      if (Read(readers_[r]) < until) Use(record, key, s);
      UseUntil(r, record, key, s, until);
    });
  });
}

// A READ: posted now, by and by carried out, then judged.
void ReclaimSimulation::ReadSlowly(int r, const Record& record, int key, int s, TimePoint until) {
  const auto right_header = [=, this] { return SlotOf(record).header == record.generation; };
  if (setting_.headers && !guards_.header_last && !right_header()) return;
  At(now_ + Between(0, kSecond), [=, this] {
    OnMachine(readers_[r], [=, this] {
      if (Dead(record)) return;
      const uint64_t brought = SlotOf(record).generation;
      At(now_ + Between(0, kSecond / 20), [=, this] {
        if (guards_.time_last && guards_.check_lease && Read(readers_[r]) >= until) return;
        if (setting_.headers && guards_.header_last && (Dead(record) || !right_header())) return;
        Given(record, key, s, brought);
      });
    });
  });
}

void ReclaimSimulation::AskForGrant(int r, int s) {
  if (Paused(readers_[r])) return;
  const TimePoint asked = Read(readers_[r]);
  const auto grant = [=, this] {
    const Instance* instance = Reach(s);
    const DirectoryOk said = instance->shard->Directory(Read(instance->clock));
    Deliver(-1, s, [=, this, memory = instance->memory] {
      granted_[r][s] = {memory, said, guards_.grant_from_ask ? asked : Read(readers_[r])};
    });
  };
  Deliver(-1, s, [=, this] { OnMachine(shards_[s].now.clock, grant); });
}

// Whatever has become of the instance whose memory it is.
void ReclaimSimulation::LookInto(int r) {
  const int key = Pick(kKeys);
  const int s = (key + Pick(2)) % kShards;
  const Granted granted = granted_[r][s];
  if (granted.memory == nullptr || Paused(readers_[r])) return;
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
// The bytes are read where they lie when they arrive. For a reader on the holder's machine that is
// by the same clock, and after they were acknowledged.
void ReclaimSimulation::Ask(int r, const Record& record, int key, int shard) {
  const int o = static_cast<int>(record.node - NodeOf(0));
  const bool local = Chance(0.5);
  const MachineClock* const clock = local ? &owners_[o].clock : &readers_[r];
  const auto ask = [=, this] {
    const TimePoint sent = Read(*clock);
    const auto arrive = [=, this] {
      // Its connection is gone, but not what a kernel has by reference of memory that stays.
      if (Dead(record) && !(local && setting_.files)) return;
      if (guards_.read_in_time && Read(*clock) - sent >= LeaseOf(record)) return;
      ++uses_;
      if (setting_.files) return Given(record, key, shard, SlotOf(record).generation);
      Use(record, key, shard);
    };
    Deliver(-1, shard, [=, this] {
      Owner& owner = owners_[o];
      Slot& slot = owner.slots[record.offset];
      if (record.incarnation != owner.incarnation) return;
      const bool there = slot.state == SlotState::kReady && slot.generation == record.generation;
      if (guards_.check_slot && !there) return;
      if (guards_.served_directly) slot.told.Raise(Read(owner.clock));
      if (local) {  // they are here at once, and read when the reader comes to it
        if (setting_.files && Chance(0.1)) {  // the page goes, and then the process
          Withdraw(o, static_cast<int>(record.offset));
          At(now_ + Between(0, kLease.count() * 250'000), [=, this] { Restart(o); });
        }
        return At(now_ + Between(0, kLease.count() * 1'000'000),
                  [=, this] { OnMachine(*clock, arrive); });
      }
      if (!guards_.pin_till_acked)
        return Deliver(-1, shard, [=, this] { OnMachine(*clock, arrive); });
      // Pinned until the bytes have arrived or the connection is reset.
      ++slot.reads;
      auto over = std::make_shared<bool>(false);
      const auto end = [=, this, incarnation = owner.incarnation] {
        *over = true;
        if (owners_[o].incarnation == incarnation) --owners_[o].slots[record.offset].reads;
      };
      Deliver(-1, shard, [=, this] {
        OnMachine(*clock, [=] {
          if (*over) return;
          arrive();
          end();
        });
      });
      At(now_ + 12 * kSecond, [=] {
        if (!*over) end();
      });
    });
  };
  At(now_ + Between(0, 2 * kSecond), [=, this] { OnMachine(*clock, ask); });
}

const ReclaimSimulation::Slot& ReclaimSimulation::SlotOf(const Record& record) const {
  return owners_[record.node - NodeOf(0)].slots[record.offset];
}

// That process and its memory are gone.
bool ReclaimSimulation::Dead(const Record& record) const {
  return record.incarnation != owners_[record.node - NodeOf(0)].incarnation;
}

void ReclaimSimulation::Use(const Record& record, int key, int shard) {
  if (guards_.same_life && Dead(record)) return;
  Given(record, key, shard, SlotOf(record).generation);
}

void ReclaimSimulation::Given(const Record& record, int key, int shard, uint64_t generation) {
  if (generation == record.generation || !violation_.empty()) return;
  violation_ = fmt::format(
      "at {} ms: page {} of owner {} slot {}, generation {}, given by shard {}, is "
      "overwritten by generation {}",
      now_ / 1'000'000, key, record.node, record.offset, record.generation, shard, generation);
}

}  // namespace peercache
