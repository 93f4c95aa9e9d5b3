// View: one node's immutable picture of the membership, with the rings that follow from it.
//
//   current    members that are active or draining: where records are looked up first
//   next       members that are active or joining: where they will be once every change is through
//   previous   the current ring before the last change, for a grace time: nodes do not change their
//              views at one instant, so a lookup that misses at the new owner asks the old one
//
// Owners publish every record to its owner in `current` and in `next` (one message when they
// agree). When nobody is active yet (a cluster just starting) `current` equals `next`; when
// everybody drains, `next` equals `current`.
//
// Members that most others cannot reach are in no ring, though they are heard of: one that is
// frozen or cut off before its silence says so, and one that heartbeats but cannot be connected to.
// Each member lists in its heartbeats whom it gets no answers from. The voters on a member are the
// others that a host has heard of lately; so a node that no host answers goes by its own
// experience. Nobody is dropped for that: when the reports end, the member is back in the rings.
//
// Why a change costs no hit. Beginning a change (a member joins, or starts to drain) alters only
// `next`; completing it (it becomes active, or is gone) alters only `current`. So two views one
// change apart agree in `current` or in `next`, and a reader with either view, who asks current,
// then next, then previous, reaches a shard that an owner with the other view has published to. Two
// changes are no such steps, and cost what they must: a death loses the records that only the dead
// shard held, until the owners re-publish; and while nobody is active at all, joiners enter both
// rings at once, so a node is ready only when it has become active.
//
// MergeLists and BuildView are pure. A View is shared as shared_ptr<const View>.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "directory/ring.h"
#include "membership/table.h"
#include "wire/member.h"

namespace peercache {

// What a node remembers about members between polls of the discovery hosts.
struct KnownMember {
  Member member;
  TimePoint heard;  // newest evidence of life, on this node's clock
};
using KnownMembers = std::unordered_map<std::string, KnownMember>;  // by id

// Merges the answers of the reachable hosts into `known`, by (incarnation, age); within an
// incarnation a state never goes back. A member is dropped when its evidence is older than
// member_ttl and at least one host that is not warming answered; while no such host answers, nobody
// is dropped: the data plane keeps its last picture. A member that said Leave disappears from all
// hosts' lists; it is dropped with the same rule, but at once when every answering, non-warming
// host omits it and it was last seen draining. A node keeps its own entry itself: what hosts say of
// it is old.
void MergeLists(std::span<const MemberList> answers, Duration member_ttl, TimePoint now,
                KnownMembers* known);

struct View {
  uint64_t epoch = 0;           // grows with every change of `current` or `next` on this node
  std::vector<Member> members;  // sorted by id
  std::unordered_map<uint64_t, size_t> by_node;  // NodeHash -> index
  std::vector<uint64_t> unreachable;             // NodeHashes, sorted: in no ring
  Ring current, next, previous;
  TimePoint previous_until{};  // grace end of `previous`; empty ring otherwise
  bool IsUnreachable(uint64_t node) const;
  bool HasMember(uint64_t node) const { return by_node.contains(node); }
  const Member* Find(uint64_t node) const;
};

struct ViewOptions {
  uint32_t vnodes = 160;
  Duration grace = milliseconds(6000);
  // A member votes on who is unreachable for so long after it was heard of.
  Duration voting = milliseconds(1500);
  uint64_t self = 0;  // this node
};

// The view that follows `before` (may be null) given what is known. Returns `before` itself when
// nothing that matters changed (same members, incarnations, states, addresses, synced sets, same
// unreachable ones) and the grace of `previous` is not over. While there are members, its rings are
// not empty.
std::shared_ptr<const View> BuildView(const std::shared_ptr<const View>& before,
                                      const KnownMembers& known, const ViewOptions& options,
                                      TimePoint now);

// True when every other member of the view that can be reached has synced `self`'s pending change
// (see Member::synced).
bool EveryoneSynced(const View& view, const Member& self);
// Tokens of the joining and draining members of the view, at most kMostListed: what this node
// should sync and announce.
std::vector<uint64_t> PendingChanges(const View& view);

}  // namespace peercache
