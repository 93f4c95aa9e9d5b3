#include "membership/view.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace peercache {
namespace {

bool Same(const Member& a, const Member& b) {
  return a.id == b.id && a.incarnation == b.incarnation && a.state == b.state && a.host == b.host &&
         a.peer_port == b.peer_port && a.http_port == b.http_port &&
         a.capacity_bytes == b.capacity_bytes && a.synced == b.synced;
}

std::vector<Member> Sorted(const KnownMembers& known) {
  std::vector<Member> members;
  members.reserve(known.size());
  for (const auto& [id, item] : known) {
    members.push_back(item.member);
    SharedList& synced = members.back().synced;
    if (std::ranges::is_sorted(synced)) continue;
    std::vector<uint64_t> sorted(synced.begin(), synced.end());
    std::ranges::sort(sorted);
    synced = std::move(sorted);
  }
  std::sort(members.begin(), members.end(),
            [](const Member& a, const Member& b) { return a.id < b.id; });
  return members;
}

// NodeHashes, sorted, of the members that more than half of the voters on them cannot reach.
// Cost: entries of distinct lists, not of all lists, are counted with a look-up each.
std::vector<uint64_t> ReportedUnreachable(const KnownMembers& known, Duration voting,
                                          TimePoint now) {
  struct Said {
    const SharedList* list;
    size_t voters = 0;
  };
  std::unordered_map<const void*, Said> said;
  std::unordered_map<uint64_t, size_t> reports;
  std::unordered_set<uint64_t> voters;
  std::vector<uint64_t> of_themselves;
  for (const auto& [id, item] : known) {
    if (item.heard + voting < now) continue;
    const uint64_t voter = NodeHash(id);
    voters.insert(voter);
    const SharedList& list = item.member.unreachable;
    if (list.empty()) continue;
    ++said.try_emplace(list.identity(), Said{&list}).first->second.voters;
    if (list.Contains(voter)) of_themselves.push_back(voter);
  }
  for (const auto& [identity, same] : said) {
    // Who names a member twice has one vote.
    const std::unordered_set<uint64_t> nodes(same.list->begin(), same.list->end());
    for (const uint64_t node : nodes) reports[node] += same.voters;
  }
  for (const uint64_t voter : of_themselves) --reports[voter];
  std::vector<uint64_t> unreachable;
  for (const auto& [node, count] : reports) {
    const size_t others = voters.size() - voters.count(node);
    if (2 * count > others) unreachable.push_back(node);
  }
  std::sort(unreachable.begin(), unreachable.end());
  return unreachable;
}

bool Contains(const std::vector<uint64_t>& sorted, uint64_t node) {
  return std::binary_search(sorted.begin(), sorted.end(), node);
}

// The members that cannot be reached, of those in `members`.
std::vector<uint64_t> Unreachable(const std::vector<Member>& members, const KnownMembers& known,
                                  const ViewOptions& options, TimePoint now) {
  auto unreachable = ReportedUnreachable(known, options.voting, now);
  const bool anybody = std::any_of(members.begin(), members.end(), [&](const Member& member) {
    return !Contains(unreachable, NodeHash(member.id));
  });
  // Everybody is out of most others' reach: only what this node can reach is of use to it.
  if (!anybody) {
    unreachable.clear();
    for (const Member& member : members) {
      if (NodeHash(member.id) == options.self)
        unreachable.assign(member.unreachable.begin(), member.unreachable.end());
    }
    std::erase(unreachable, options.self);
    std::sort(unreachable.begin(), unreachable.end());
  }
  std::unordered_set<uint64_t> nodes;
  for (const Member& member : members) nodes.insert(NodeHash(member.id));
  std::erase_if(unreachable, [&](uint64_t node) { return !nodes.contains(node); });
  return unreachable;
}

Ring RingWithout(const std::vector<Member>& members, const std::vector<uint64_t>& unreachable,
                 MemberState omitted, uint32_t vnodes, const View* before) {
  std::vector<RingMember> ring;
  for (const Member& member : members) {
    const uint64_t node = NodeHash(member.id);
    if (member.state == omitted || Contains(unreachable, node)) continue;
    ring.push_back({node, member.capacity_bytes});
  }
  if (before == nullptr) return Ring(ring, vnodes);
  // Most changes of the membership leave a ring as it is, or make one the other.
  return Ring(ring, vnodes, {&before->current, &before->next});
}

}  // namespace

const Member* View::Find(uint64_t node) const {
  const auto it = by_node.find(node);
  return it == by_node.end() ? nullptr : &members[it->second];
}

bool View::IsUnreachable(uint64_t node) const { return Contains(unreachable, node); }

std::shared_ptr<const View> BuildView(const std::shared_ptr<const View>& before,
                                      const KnownMembers& known, const ViewOptions& options,
                                      TimePoint now) {
  auto members = Sorted(known);
  const bool grace_over = before && !before->previous.empty() && now >= before->previous_until;
  auto unreachable = Unreachable(members, known, options, now);
  if (before && !grace_over && unreachable == before->unreachable &&
      std::equal(members.begin(), members.end(), before->members.begin(), before->members.end(),
                 Same))
    return before;

  auto view = std::make_shared<View>();
  view->members = std::move(members);
  for (size_t i = 0; i < view->members.size(); ++i)
    view->by_node.emplace(NodeHash(view->members[i].id), i);
  view->unreachable = std::move(unreachable);
  view->current = RingWithout(view->members, view->unreachable, MemberState::kJoining,
                              options.vnodes, before.get());
  view->next = RingWithout(view->members, view->unreachable, MemberState::kDraining, options.vnodes,
                           before.get());
  if (view->current.empty()) view->current = view->next;
  if (view->next.empty()) view->next = view->current;
  if (!before) {
    view->epoch = 1;
    return view;
  }

  const bool moved = !(view->current == before->current);
  view->epoch = before->epoch + (moved || !(view->next == before->next) ? 1 : 0);
  if (moved && !before->current.empty()) {
    view->previous = before->current;
    view->previous_until = now + options.grace;
  } else if (now < before->previous_until) {
    view->previous = before->previous;
    view->previous_until = before->previous_until;
  }
  return view;
}

bool EveryoneSynced(const View& view, const Member& self) {
  const uint64_t token = SyncToken(self);
  return std::all_of(view.members.begin(), view.members.end(), [&](const Member& member) {
    return member.id == self.id || view.IsUnreachable(NodeHash(member.id)) ||
           member.synced.Contains(token);
  });
}

std::vector<uint64_t> PendingChanges(const View& view) {
  std::vector<uint64_t> tokens;
  for (const Member& member : view.members)
    if (member.state != MemberState::kActive) tokens.push_back(SyncToken(member));
  std::sort(tokens.begin(), tokens.end());
  if (tokens.size() > kMostListed) tokens.resize(kMostListed);
  return tokens;
}

}  // namespace peercache
