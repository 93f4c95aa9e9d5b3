#include <algorithm>
#include <unordered_set>

#include "membership/view.h"

namespace peercache {
namespace {

void MergeOne(const ListedMember& listed, Duration member_ttl, TimePoint now, KnownMembers* known) {
  if (listed.age > member_ttl || listed.member.id.empty()) return;
  const TimePoint heard = now - std::max(Duration{}, listed.age);
  const auto [it, added] = known->try_emplace(listed.member.id, KnownMember{listed.member, heard});
  if (added) return;
  KnownMember& mine = it->second;
  if (listed.member.incarnation < mine.member.incarnation) return;  // a ghost
  if (listed.member.incarnation > mine.member.incarnation) {
    mine = {listed.member, heard};
    return;
  }
  const MemberState state = std::max(listed.member.state, mine.member.state);
  if (heard > mine.heard) mine = {listed.member, heard};
  mine.member.state = state;
}

}  // namespace

void MergeLists(std::span<const MemberList> answers, Duration member_ttl, TimePoint now,
                KnownMembers* known) {
  bool settled = false;  // a host answered that knows all
  std::unordered_set<std::string> listed;
  for (const MemberList& list : answers) {
    settled |= !list.warming;
    for (const ListedMember& member : list.members) {
      MergeOne(member, member_ttl, now, known);
      listed.insert(member.member.id);
    }
  }
  if (!settled) return;
  std::erase_if(*known, [&](const auto& item) {
    const KnownMember& mine = item.second;
    const bool left = mine.member.state == MemberState::kDraining && !listed.contains(item.first);
    return left || mine.heard + member_ttl < now;
  });
}

}  // namespace peercache
