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
// does the table (ClearsOptions::keep). Else it is lost when all members restart at once, and all
// pages with them.
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
};

// Which pages are to be dropped, and what is to be kept on disk of it.
struct ClearOrder {
  std::optional<uint64_t> tag;  // nothing: pages of all tags
  uint64_t epoch = 0;           // of the clear; 0 before it has one
  // Of ClearState: what this node had forgotten before. With all tags: what it may forget then.
  uint64_t floor = 0, forgotten = 0;
};

struct ClearsStats {
  size_t tags = 0;     // whose last clear is known
  uint64_t floor = 0;  // 0: no clear has been forgotten
  bool current = false;
  size_t unvouched = 0;  // members of the view that this node does not read from
};

class Clears {
 public:
  // Takes the pages out of service; returns how many can still be found.
  using Sweep = std::function<size_t(const ClearOrder& order)>;

  Clears(ClearsOptions options, Peers* peers, const Views* views, Counters* counters, Sweep sweep);
  ~Clears();
  void Start();
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
  // All members of the view that has this mark know it but `unheard`. Of no use where this node
  // sees other members: nobody has asked those.
  void Ended(const ClearEntry& entry, std::span<const uint64_t> unheard, uint32_t view);
  // An answer that can be true.
  static bool Decode(FrameReader body, ClearsAnswer* answer);
  // What the peer has answered.
  void Told(const PeerCall& call, const ClearState& state);

  ClearsStats stats(TimePoint now) const;

 private:
  bool InContact(TimePoint now) const;
  void Run();
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
  bool late_ = false;
  std::vector<PeerRef> differ_;  // have said another digest
  bool alone_ = false;           // the last attempt to catch up has failed
  bool awaited_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace peercache
