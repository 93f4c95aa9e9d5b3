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
  Ring current, next, previous;
  TimePoint previous_until{};  // grace end of `previous`; empty ring otherwise
  bool HasMember(uint64_t node) const { return by_node.contains(node); }
  const Member* Find(uint64_t node) const;
};

struct ViewOptions {
  uint32_t vnodes = 160;
  Duration grace = milliseconds(6000);
};

// The view that follows `before` (may be null) given what is known. Returns `before` itself when
// nothing that matters changed (same members, incarnations, states, addresses, synced sets) and the
// grace of `previous` is not over.
std::shared_ptr<const View> BuildView(const std::shared_ptr<const View>& before,
                                      const KnownMembers& known, const ViewOptions& options,
                                      TimePoint now);

// True when every other member of the view has synced `self`'s pending change (see Member::synced).
bool EveryoneSynced(const View& view, const Member& self);
// Tokens of the joining and draining members of the view: what this node should sync and announce.
std::vector<uint64_t> PendingChanges(const View& view);

}  // namespace peercache
