#include "membership/view.h"

#include <algorithm>

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
    std::sort(members.back().synced.begin(), members.back().synced.end());
  }
  std::sort(members.begin(), members.end(),
            [](const Member& a, const Member& b) { return a.id < b.id; });
  return members;
}

Ring RingWithout(const std::vector<Member>& members, MemberState omitted, uint32_t vnodes,
                 const View* before) {
  std::vector<RingMember> ring;
  for (const Member& member : members)
    if (member.state != omitted) ring.push_back({NodeHash(member.id), member.capacity_bytes});
  if (before == nullptr) return Ring(ring, vnodes);
  // Most changes of the membership leave a ring as it is, or make one the other.
  return Ring(ring, vnodes, {&before->current, &before->next});
}

}  // namespace

const Member* View::Find(uint64_t node) const {
  const auto it = by_node.find(node);
  return it == by_node.end() ? nullptr : &members[it->second];
}

std::shared_ptr<const View> BuildView(const std::shared_ptr<const View>& before,
                                      const KnownMembers& known, const ViewOptions& options,
                                      TimePoint now) {
  auto members = Sorted(known);
  const bool grace_over = before && !before->previous.empty() && now >= before->previous_until;
  if (before && !grace_over &&
      std::equal(members.begin(), members.end(), before->members.begin(), before->members.end(),
                 Same))
    return before;

  auto view = std::make_shared<View>();
  view->members = std::move(members);
  for (size_t i = 0; i < view->members.size(); ++i)
    view->by_node.emplace(NodeHash(view->members[i].id), i);
  view->current = RingWithout(view->members, MemberState::kJoining, options.vnodes, before.get());
  view->next = RingWithout(view->members, MemberState::kDraining, options.vnodes, before.get());
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
    return member.id == self.id ||
           std::find(member.synced.begin(), member.synced.end(), token) != member.synced.end();
  });
}

std::vector<uint64_t> PendingChanges(const View& view) {
  std::vector<uint64_t> tokens;
  for (const Member& member : view.members)
    if (member.state != MemberState::kActive) tokens.push_back(SyncToken(member));
  return tokens;
}

}  // namespace peercache
