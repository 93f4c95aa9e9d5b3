// ReclaimSimulation (tests only): owners, shards and readers in virtual time over a bad network,
// with the real Shard and Fence and a small model of an owner (slots, lease, withdraw, fence,
// reuse).
//
//   ReclaimSimulation simulation(seed, Guards{});
//   simulation.Run();
//   simulation.violation()   what a reader was given that had been reused; empty: nothing
//   simulation.unserved()    pages that are not found although all faults are over; empty: none
//
// Messages are lost, delayed, copied and overtake each other; pairs are partitioned; owners stall,
// owners and shards restart, and a shard's former instance lives on as a ghost that still answers.
// Readers ask shards, or READ their buckets, also those of an instance that does not run any more.
// A READ takes time. Every machine has its own clock with its own origin and rate, and machines are
// paused, whose clocks then stand still. Everything follows from the seed.
//
// Each member of Guards is one rule of the protocol; a test turns it off to see the rule matter.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "directory/buckets.h"
#include "directory/fence.h"
#include "directory/shard.h"

namespace peercache {

// Named as in dataplane/model/reclaim.pml, which says what each is about.
struct Guards {
  // reader
  bool lease_from_ask = true;  // off: from when the lookup's answer came
  bool check_lease = true;
  bool same_life = true;
  bool owners_times = true;  // off: reader and shard go by their own lease and ttl
  bool read_in_time = true;  // of reads by request
  bool time_last = true;     // of READs; off: when they are posted
  // reader, of lookups in a shard's memory
  bool check_grant = true;
  bool grant_from_ask = true;  // off: from when the grant came
  bool same_era = true;
  // holder, of reads by request
  bool check_slot = true;
  bool pin_till_acked = true;
  // memory, of READs that count by their slots' headers (Setting)
  bool header_last = true;
  bool void_first = true;
  // owner
  bool wait_lease = true;
  bool wait_silence = true;
  bool pad_waits = true;
  bool raise_epoch = true;
  bool raise_on_restart = true;
  bool count_from_hearing = true;  // off: from the first hearing, not the newest
  bool former_life = true;
  bool settle_publish = true;
  bool note_first = true;
  bool keep_note_in_flight = true;
  bool keep_note_till_silent = true;
  bool gone_gives_up = true;
  bool served_elsewhere = true;
  bool served_directly = true;
  // owner, whose memory outlives its process (Setting)
  bool rest_adopted = true;
  bool rest_longest = true;
  bool rest_kept = true;
  // shard
  bool check_fresh = true;
  bool own_echo = true;  // off: any message makes its owner fresh, whenever it was begun
  bool own_stamps = true;
  bool drop_copies = true;
  bool refuse_lower = true;
  bool void_lower = true;
  bool rewrite_first = true;  // off: buckets are rewritten some time later
  bool new_name = true;
  bool served_stamp = true;     // off: it says of every record that nobody was told of it
  bool served_unknown = true;   // off: it says so of those that it does not have
  bool served_by_grant = true;  // off: it says what it has answered, whoever may look into it
  // everybody
  bool raw_clock = true;  // off: clocks are slewed as chrony does
};

// Which machines are paused, and what readers do.
struct Setting {
  bool owners_pause = true, shards_pause = false, readers_pause = false;
  bool one_sided = true;  // READs of pages, too
  // READs count by their slots' headers, as they do in the code. Without them all holds while the
  // clocks of readers and shards run, so the other rules are tried without.
  bool headers = false;
  // Owners' memory outlives their processes, which do not all have the same lease.
  bool files = false;
};

class ReclaimSimulation {
 public:
  ReclaimSimulation(uint64_t seed, Guards guards, Setting setting = {});
  void Run();
  const std::string& violation() const { return violation_; }
  const std::string& unserved() const { return unserved_; }
  uint64_t uses() const { return uses_; }      // records used by readers within their lease
  uint64_t looks() const { return looks_; }    // of these, records that were found in buckets
  uint64_t reuses() const { return reuses_; }  // slots that were used again
  uint64_t early() const { return early_; }    // of these, in less than a lease

 private:
  using Nanos = int64_t;
  static constexpr Nanos kSecond = 1'000'000'000;
  static constexpr int kOwners = 2, kShards = 3, kReaders = 2, kSlots = 3, kKeys = 6;
  // 65ths, because Padded adds one 64th and pad_waits = false takes it off again without remainder.
  static constexpr milliseconds kLease{1300}, kTtl{3250}, kTimeout{1000};
  // Clocks differ by up to 1.55 %, waits are longer by 1.56 %.
  static constexpr double kMaxDrift = 0.0077, kMaxSlew = 1.0 / 12;

  struct MachineClock {
    Nanos origin = 0;
    double rate = 1;
    Nanos stands_from = 0, stands_until = 0, stood = 0;  // the latest pause, all before it
  };
  enum class SlotState : uint8_t { kFree, kReady, kWithdrawing, kResting };
  struct Slot {
    SlotState state = SlotState::kFree;
    int key = -1;
    uint64_t generation = 0;  // of what the memory holds
    uint64_t header = 0;      // of what it says it holds
    int reads = 0;            // by request, from another machine, under way
    int in_flight = 0;        // publishes
    int pending = 0;          // withdrawals
    TimePoint reuse_at{};
    TimePoint withdrawn{};         // when that began
    LastTime told{};               // as Victim::told
    std::set<int> published_to{};  // notes: shards that may have the record
    std::set<int> wanted{};        // shards that should have it
    std::set<int> removing{};      // shards with a removal on its way
  };
  struct Owner {
    uint64_t incarnation = 1;
    MachineClock clock;
    Nanos stalled_until = 0;
    std::vector<Slot> slots;
    bool shorter = false;                   // lease, with Setting::files
    Duration kept{};                        // rest that the file remembers, as the next
    TimePoint rests_until{};                // no slot is written before
    std::vector<Fence> fences;              // by shard
    std::vector<uint64_t> published_epoch;  // by shard: what the last re-publishing was for
    std::vector<TimePoint> first_heard;     // by shard
    std::vector<TimePoint> heard;           // by shard; stands in for SilentAfter without epochs
  };
  // Of one instance of a shard; what readers READ, for as long as any of them can.
  struct Memory {
    std::vector<Bucket> buckets = std::vector<Bucket>(64);
    std::vector<Bucket> seen;  // what is READ without rewrite_first
  };
  struct Granted {
    std::shared_ptr<const Memory> memory;  // null: nothing was granted
    DirectoryOk said;
    TimePoint asked{};
  };
  struct Instance {
    uint64_t incarnation = 1;
    MachineClock clock;
    std::shared_ptr<Memory> memory;
    std::unique_ptr<Shard> shard;
    std::pair<uint64_t, uint64_t> known[kOwners];         // (incarnation, epoch)
    uint64_t name[kOwners] = {};                          // the only one, without new_name
    std::map<std::pair<int, uint64_t>, LastTime> served;  // by owner and generation
  };
  struct ShardHost {
    Instance now;
    Instance ghost;  // of the former incarnation; no shard: none
    Nanos ghost_until = 0;
    // It hears copies and cannot answer, instead of answering in place of the present one.
    bool ghost_listens = false;
  };
  struct Event {
    Nanos at;
    uint64_t order;
    std::function<void()> run;
    bool operator>(const Event& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };
  // What a shard has done with a message, and what it says of a withdrawn record.
  struct Heard {
    Code code = Code::kOk;
    uint32_t unserved_ms = 0;
  };
  using Processed = std::function<Heard(Instance*, const OwnerStamp&, TimePoint)>;
  using Over = std::function<void(bool answered, bool stored_only, uint32_t unserved_ms)>;

  // Chance, time and the network.
  bool Chance(double p) { return std::uniform_real_distribution<>(0, 1)(rng_) < p; }
  Nanos Between(Nanos low, Nanos high) {
    return std::uniform_int_distribution<Nanos>(low, high)(rng_);
  }
  int Pick(int n) { return static_cast<int>(Between(0, n - 1)); }
  MachineClock NewClock();
  TimePoint Read(const MachineClock& clock) const;
  static Nanos Real(const MachineClock& clock, Duration local);
  bool Paused(const MachineClock& clock) const { return now_ < clock.stands_until; }
  // Runs it when the machine does.
  void OnMachine(const MachineClock& clock, std::function<void()> run);
  void Pause(MachineClock* clock);
  void EndPause(MachineClock* clock) const;
  void PauseSome();
  void At(Nanos when, std::function<void()> run) { events_.push({when, ++order_, std::move(run)}); }
  void Deliver(int owner, int shard, std::function<void()> run);  // owner -1: a reader
  void RunUntil(Nanos end);
  void Every(Nanos period, std::function<void()> run);

  // The owner.
  static uint64_t NodeOf(int owner) { return 100 + owner; }
  static Key KeyOf(int key);
  OwnerTimes TimesOf(int owner) const;
  uint64_t NextIncarnation(int owner);
  void StartOwner(int owner, uint64_t incarnation);
  void Adopt(int owner);
  void Restart(int owner);
  void Send(int owner, int shard, Processed processed, Over over);
  void Contact(int owner, int shard);
  void Publish(int owner, int shard, const std::vector<int>& slots);
  void RepublishIfRaised(int owner, int shard);
  void Set(int owner);
  void Tidy(int owner);
  void Remove(int owner, int shard, int slot);
  void ForgetGone(int owner, int shard, int slot);
  void Withdraw(int owner, int slot);
  void WithdrawnFrom(int owner, int shard, int slot, bool answered, uint32_t unserved_ms);
  Processed Withdrawal(int owner, int slot);
  void Rest(int owner, int slot);
  void Rewrite(int owner, int slot, uint64_t incarnation, uint64_t generation);
  void Fill(int owner, int slot);

  // Shards and readers.
  Instance NewInstance(uint64_t incarnation, MachineClock clock, int64_t stamp_base);
  Heard Hear(Instance* instance, int owner, OwnerStamp stamp, const Processed& processed);
  bool Haunted(const ShardHost& host) const;
  Instance* Reach(int shard);
  void RestartShard(int shard);
  void Lookup(int reader);
  void AskForGrant(int reader, int shard);
  void LookInto(int reader);
  void Found(int reader, const Record& record, int key, int shard, TimePoint asked);
  void Ask(int reader, const Record& record, int key, int shard);
  Duration LeaseOf(const Record& record) const;
  void UseUntil(int reader, const Record& record, int key, int shard, TimePoint until);
  void ReadSlowly(int reader, const Record& record, int key, int shard, TimePoint until);
  const Slot& SlotOf(const Record& record) const;
  bool Dead(const Record& record) const;
  void Use(const Record& record, int key, int shard);
  void Given(const Record& record, int key, int shard, uint64_t generation);
  void Fault();
  void HearOfThePast(int owner, int shard);
  void CheckServed();

  const Guards guards_;
  const Setting setting_;
  std::mt19937_64 rng_;
  Nanos now_ = 0;
  uint64_t order_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  double loss_, copies_, slow_, faults_, sweeps_;
  bool grants_;        // readers look into shards' memory
  bool calm_ = false;  // all faults are over
  static constexpr int kPast = 32;
  std::function<void()> past_[kOwners][kShards][kPast];  // arrivals of recent messages
  std::function<void()> former_[kOwners][kShards];       // of one of the process before
  Nanos blocked_until_[kOwners][kShards] = {};

  std::vector<Owner> owners_;
  static constexpr uint64_t kFirstIncarnation = uint64_t{1} << 40;  // far from where it would wrap
  std::set<uint64_t> incarnations_;                                 // of all processes so far
  std::vector<ShardHost> shards_;
  std::vector<MachineClock> readers_;
  uint64_t generations_ = 0;
  std::string violation_, unserved_;
  Granted granted_[kReaders][kShards];
  uint64_t uses_ = 0, looks_ = 0, reuses_ = 0, early_ = 0;
};

}  // namespace peercache
