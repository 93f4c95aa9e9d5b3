// OwnerTable: the owners a shard has heard of: who is fresh, and whose messages still count.
//
// An owner's (incarnation, epoch) is represented by an era: a number that grows whenever everything
// the owner has published so far becomes void. A stored record carries the era of its publishing;
// it is alive while that is the owner's present era. So voiding millions of records is one
// increment; their memory comes back when the shard sweeps.
//
// Admit judges one message and, when it counts, returns the owner locked: its messages are
// processed one after another, so none can finish its work after a later one has voided it.
//
// Reading for lookups (Serves) is lock-free. A raise stores era, then incarnation and lease, then
// freshness; a reader loads freshness first and compares the era last. Whoever sees the newer
// freshness or incarnation therefore sees the newer era, and drops the old record.
//
// A place is kept (as a tombstone with its pair) after the owner's records are dropped, and given
// to another owner only when all places are taken, and then only after forget_after of silence. It
// is also begun anew for a process of the same owner with a lower incarnation (a wall clock that
// was set back), once the former process has been silent for owner_ttl.
// Each beginning of a place is an instance of its own in the sense of directory/fence.h: it has its
// own origin of stamps, drawn at random so that a stamp of another instance is never taken for a
// recent one, and the origin is also its name. So to an owner that was forgotten the shard looks as
// if it had restarted: echoes of before are void, and the owner publishes everything again.
//
// Thread-safety: all methods from any thread.
#pragma once

#include <atomic>
#include <bitset>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "directory/record_table.h"
#include "directory/shard.h"

namespace peercache {

// Which sequence numbers have been seen, among the newest kSpan.
class SequenceWindow {
 public:
  // More than any publisher keeps in flight to one peer.
  static constexpr uint64_t kSpan = 512;
  // True once per number; false for a copy or a number too old to tell.
  bool Take(uint64_t sequence);
  void Reset() { *this = {}; }

 private:
  uint64_t newest_ = 0;
  std::bitset<kSpan> seen_;  // of n at n % kSpan, for n in (newest_ - kSpan, newest_]
};

class OwnerTable {
 public:
  explicit OwnerTable(const ShardOptions& options);

  struct Admission {
    std::unique_lock<std::mutex> lock;
    uint16_t owner = 0;
    uint32_t era = 0;
    bool fresh = false;
  };
  Result<Admission> Admit(const OwnerStamp& stamp, TimePoint now);
  // What an answer to `node` carries. Nothing (0) for a node that has no place.
  ShardVoice Voice(uint64_t node, TimePoint now) const;

  bool Alive(const StoredRecord& record) const {
    return owners_[record.owner].era.load() == record.era;
  }
  enum class Service : uint8_t { kServed, kSilent, kDead };
  // kServed: `out` is filled in. `now` as nanoseconds of the clock.
  Service Serves(const StoredRecord& record, int64_t now, Record* out) const;
  // The owners whose records are served, each as it is at one moment; but for those whose message
  // is just being processed.
  std::vector<ServedOwner> Served(TimePoint now) const;
  bool Fresh(uint16_t owner, TimePoint now) const {
    return owners_[owner].fresh_until.load() > now.time_since_epoch().count();
  }
  // Called for every record that is stored or erased.
  void Count(uint16_t owner, int change) {
    owners_[owner].records.fetch_add(change, std::memory_order_relaxed);
  }

  // Voids the records of owners silent for forget_after.
  void DropSilent(TimePoint now);
  void Drop(uint64_t node);
  // Changes whenever some stored records have become void: time to sweep.
  uint64_t voided() const { return voided_.load(); }
  void AddTo(ShardStats* stats, TimePoint now) const;

 private:
  struct alignas(64) Owner {
    // Read by lookups.
    std::atomic<uint32_t> era{1};
    std::atomic<uint64_t> node{0};
    std::atomic<uint64_t> incarnation{0};
    std::atomic<int64_t> fresh_until{0};  // of this machine's clock, in nanoseconds
    std::atomic<uint16_t> lease_ms{0};
    std::atomic<int64_t> records{0};  // stored, alive or not
    // Under mutex.
    alignas(64) std::mutex mutex;
    std::atomic<int64_t> base{0};  // of the stamps it is given; read without the mutex
    uint64_t epoch = 0;
    uint32_t ttl_ms = 0;     // as the pair has stated it
    bool dropped = false;    // the pair is refused
    bool went_back = false;  // an incarnation has followed a higher one
    TimePoint heard{};
    SequenceWindow window;
  };

  // The owner's place, found or taken, locked.
  Result<std::unique_lock<std::mutex>> Lock(uint64_t node, TimePoint now, uint16_t* place);
  Result<uint16_t> Place(uint64_t node, TimePoint now);
  // All that is known of the owner, as by a restart of the shard. Under its mutex.
  void Forget(Owner* owner, TimePoint now);
  void Void(Owner* owner);
  int64_t NewBase();

  const uint64_t self_;
  const uint16_t max_owners_;
  const Duration owner_ttl_;
  const Duration forget_after_;
  const int64_t first_base_;  // 0: random ones
  std::unique_ptr<Owner[]> owners_;
  std::atomic<uint64_t> voided_{0};

  mutable std::mutex mutex_;  // taken before an owner's mutex, or released before it
  std::unordered_map<uint64_t, uint16_t> places_;
  std::atomic<int64_t> bases_{0};  // given out
};

}  // namespace peercache
