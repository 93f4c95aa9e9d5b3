// Clears: this node's part in making clears true: a page that was set before an engine's clear is
// given to nobody after it, also not by a member that was away meanwhile.
//
//   as one that may have been away   Current() is false while a clear may have been missed: this
//                                    process was stopped, or no member has answered it for
//                                    member_ttl. It gives no page then, and catches up first
//   as one that hears of a clear     drops the pages, and only then says that it knows the clear
//   as a reader                      reads from, and asks for places, only members that have said
//                                    that they know every clear that this node knows
//                                    (Peers::Vouched)
//
// What a member knows comes with the answer to every contact, i.e. about twice a second from every
// member to every other, as a digest; where two differ they tell each other all (kClears). So every
// member has the table, and no discovery host is needed for it. Where pages outlive the process, so
// does the table (ClearsOptions). Else it is lost when all members restart at once, and all pages
// with them.
//
// A clear is in force from when this node knows it. Its drives may take seconds to record it: one
// thread waits for them, and nobody else but who has to answer an engine (AwaitRecorded).
//
// Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/tag.h"
#include "membership/clear_table.h"
#include "node/count/counters.h"
#include "node/peer/peers.h"
#include "node/peer/views.h"
#include "wire/clears.h"

namespace peercache {

struct ClearsOptions {
  Duration peer_timeout{};
  Duration stall{};
  Duration member_ttl{};
  // What has been applied to all pages of a process before this one that this one has; and what
  // that one knew, of which the rest is applied before any of them is given to anybody.
  ClearState known = {}, heard = {};
  // Pages were there when this process started, and others may have heard of clears before. So who
  // sees no member yet waits for some.
  bool pages_of_before = false;
  // Keeps what this node knows for the process after it, before anybody is told that it knows.
  std::function<void(const ClearState&)> keep = {};
  // Waits until the drives have recorded what was swept for. Null without drives.
  std::function<void()> record = {};
};

// Which pages are to be dropped, and what is to be kept on disk of it.
struct ClearOrder {
  TagRange tags;
  uint64_t epoch = 0;  // of the clear; 0 before it has one
  // Of ClearState: what this node had forgotten before, and of a group what it may forget then.
  std::vector<ForgottenClears> forgotten = {};
};

struct ClearsStats {
  size_t tags = 0;    // whose last clear is known
  size_t groups = 0;  // of which clears have been forgotten
  bool current = false;
  size_t unvouched = 0;  // members of the view that this node does not read from
};

class Clears {
 public:
  // Takes the pages out of service; returns how many can still be found.
  using Sweep = std::function<size_t(const ClearOrder& order)>;

  Clears(ClearsOptions options, Peers* peers, const Views* views, Counters* counters, Sweep sweep);
  ~Clears();
  Status Start();
  void Stop();

  // No clear that has ended can have been missed. Lock-free.
  bool Current(TimePoint now) const;
  // Waits until it is so, while there is hope; at the longest until the deadline.
  bool Await(TimePoint now, TimePoint deadline);

  // Of this node, for its answer to a contact.
  ClearsVoice Voice(TimePoint now) const;
  // An answer to a contact that was sent at `asked`; nothing: the peer's release keeps no clears.
  void Heard(const PeerRef& peer, uint64_t incarnation, const std::optional<ClearsVoice>& voice,
             TimePoint asked);
  // A peer's kClears. Fails when it cannot be true.
  Result<ClearsAnswer> Answer(const ClearsMessage& message);

  // ---- for an engine's clear (clearing.h)
  // The entry of a clear that is made now.
  ClearEntry New(uint64_t tag) const;
  // Applies it here. False: pages are still in use.
  bool Made(const ClearEntry& entry);
  // Whether the drives have recorded it by then.
  bool AwaitRecorded(const ClearEntry& entry, TimePoint deadline);
  // All members of the view that has this mark know it but `unheard`. Of no use where this node
  // sees other members: nobody has asked those.
  void Ended(const ClearEntry& entry, std::span<const uint64_t> unheard, uint32_t view);
  // An answer that can be true.
  static bool Decode(FrameReader body, ClearsAnswer* answer);
  // What the peer has answered.
  void Told(const PeerCall& call, const ClearState& state);

  // For pages of before that are found now, of which `known` has been applied: the clears that only
  // one side knows. Nothing: this node may have missed some itself.
  std::optional<std::vector<ClearOrder>> Differing(const ClearState& known) const;

  ClearsStats stats(TimePoint now) const;

 private:
  bool InContact(TimePoint now) const;
  void Run();
  void Record();
  // Under the lock.
  bool Recorded(const ClearEntry& entry) const {
    return !options_.record || EpochIn(recorded_, entry.tag) >= entry.epoch;
  }
  // Tells `peers` what this node knows and hears what they know. True: nothing can have been
  // missed.
  bool Exchange(std::span<const PeerRef> peers, TimePoint now);
  // Sweeps for what has been heard of; when nothing is left, this node knows it.
  bool Apply();
  // `late`: not from its clearer.
  void Learn(const ClearState& heard, bool late);

  const ClearsOptions options_;
  Peers* const peers_;
  const Views* const views_;
  Counters* const counters_;
  const Sweep sweep_;

  // As times of the clock. `good_` is the last time since which nothing has been missed; it counts
  // when this process was not stopped since (`need_`) and the thread below has not been (`alive_`).
  std::atomic<TimePoint> good_{TimePoint{}}, need_{TimePoint{}}, alive_{TimePoint{}};
  std::atomic<bool> pending_{false};

  std::mutex applying_;  // one sweep at a time; taken before the next
  mutable std::mutex mutex_;
  std::condition_variable wake_, changed_;
  ClearTable known_;                  // applied
  ClearTable heard_;                  // and what is to be applied
  int64_t version_ = 0;               // of known_
  std::optional<ClearEntry> latest_;  // all that this version has and the one before has not
  ClearState recorded_;               // what the drives have of known_
  int64_t recorded_version_ = 0;
  bool late_ = false;
  std::vector<PeerRef> differ_;  // have said another digest
  bool alone_ = false;           // the last attempt to catch up has failed
  bool awaited_ = false;
  bool stop_ = false;
  std::thread thread_, recorder_;
};

}  // namespace peercache
