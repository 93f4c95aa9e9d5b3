// Clearing: carries an engine's clear to every member.
//
//   1. sweep   all members drop the pages of the tag (ClearTag), again while some are in use
//   2. tell    those that did are told the clear (Clears, kMade). They drop what has come since,
//              know it, and read from nobody who has not said that it knows it
//   3. vouch   they are told who does (kHeard), so that they do not have to wait for each one's
//              word
//   4. wait    the others are told, too, also those at whose address nobody listened, and waited
//              for as long as a member that is stopped notices: it was stopped all the time since
//              those of 2 knew, or it has answered
//   5. drives  and members are asked until their drives have recorded it. Clears of other tags go
//              on meanwhile
//
// For the result 2, 4 and 5 are enough; 1 is there so that 2 is short, and for older releases.
//
// Members that were lost a moment ago are asked as well. Clears of a node are made one after
// another, but for 5; calls for the same tag that wait together are one clear.
//
// Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "node/clear/clears.h"
#include "node/count/counters.h"
#include "node/peer/peers.h"

namespace peercache {

struct ClearingOptions {
  std::string self;         // this node's name
  Duration peer_timeout{};  // for the sweep
  Duration stall{};         // longest without an answer of one exchange
  Duration remember{};      // who was lost longer ago is taken for gone
  // A drive of this node has missed the clear: pages of it come back when it is used again, unless
  // somebody tells of the clear then.
  std::function<bool()> unrecorded = [] { return false; };
};

class Clearing {
 public:
  Clearing(ClearingOptions options, Peers* peers, Clears* clears, Counters* counters,
           Clears::Sweep sweep);

  // ok: nobody gives a page that was set under the tag before. Else kUnavailable, with the names of
  // those that have not heard of it, which give none either before they have. Nor does a member
  // that was lost longer ago than `remember`, but it is not named. Or the clear is kept nowhere.
  Status Clear(uint64_t tag);

 private:
  struct Run {
    bool done = false;
    Status status;
  };
  // How far a member is.
  enum class Stage : uint8_t { kHasPages, kSwept, kKnows, kSilent, kGone };
  struct Target {
    PeerRef peer;
    Stage stage = Stage::kHasPages;
    bool tells = true;   // its release keeps clears
    bool noted = false;  // it knows, but its drives have not recorded it
  };

  Status Make(uint64_t tag);
  // Adds members that are in the view now and are not among the targets.
  bool AddNew(std::vector<Target>* targets) const;
  void Sweep(uint64_t tag, std::vector<Target>* targets, TimePoint deadline);
  // Those that have no pages any more. The clear as they know it; nothing: pages are in use here.
  std::optional<ClearEntry> Tell(uint64_t tag, std::vector<Target>* targets, TimePoint deadline);
  void Vouch(const ClearEntry& entry, std::vector<Target>* targets);
  // What a member that was told has answered. The epoch of the tag as it knows it.
  uint64_t Take(const ClearEntry& entry, const PeerCall& call, const ClearsAnswer& answer,
                Target* target);
  // True: somebody knows a later clear of the tag, and has to be told of this one by another epoch.
  bool AwaitOthers(const ClearEntry& entry, std::vector<Target>* targets);
  // Whether this node's drives have recorded it. Of the others' the targets say so.
  bool AwaitDrives(const ClearEntry& entry, std::vector<Target>* targets, TimePoint deadline);
  Status Outcome(const std::vector<Target>& targets, bool busy_here, bool noted_here) const;

  const ClearingOptions options_;
  Peers* const peers_;
  Clears* const clears_;
  Counters* const counters_;
  const Clears::Sweep sweep_;

  std::mutex making_;  // one clear at a time
  std::mutex mutex_;
  std::condition_variable ended_;
  std::map<uint64_t, std::shared_ptr<Run>> waiting_;  // by tag: not begun yet
};

}  // namespace peercache
