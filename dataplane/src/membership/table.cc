#include "membership/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace peercache {
namespace {

constexpr size_t kMaxHostBytes = 64;  // a numeric address with scope fits many times

Status CheckMember(const Member& member) {
  if (member.id.empty() || member.id.size() > kMaxMemberIdBytes) {
    return InvalidArgument(fmt::format("member.id has {} bytes: give it 1 to {}", member.id.size(),
                                       kMaxMemberIdBytes));
  }
  if (NodeHash(member.id) == 0) {
    return InvalidArgument(
        fmt::format("member.id \"{}\" hashes to 0, which means no member: choose "
                    "another id",
                    member.id));
  }
  if (member.host.empty() || member.host.size() > kMaxHostBytes) {
    return InvalidArgument(
        fmt::format("member.host of \"{}\" has {} bytes: give a numeric address of "
                    "1 to {}",
                    member.id, member.host.size(), kMaxHostBytes));
  }
  if (member.peer_port == 0) {
    return InvalidArgument(
        fmt::format("member.peer_port of \"{}\" is 0: give the port that peers "
                    "connect to",
                    member.id));
  }
  if (member.state > MemberState::kDraining) {
    return InvalidArgument(
        fmt::format("member.state of \"{}\" is {}: joining is 0, active 1, "
                    "draining 2",
                    member.id, static_cast<int>(member.state)));
  }
  for (const auto* list : {&member.synced, &member.unreachable}) {
    if (list->size() <= kMostListed) continue;
    return InvalidArgument(fmt::format("member.{} of \"{}\" has {} entries: at most {}",
                                       list == &member.synced ? "synced" : "unreachable", member.id,
                                       list->size(), kMostListed));
  }
  return {};
}

}  // namespace

MemberList FromWire(const MemberListMessage& message) {
  MemberList list;
  list.warming = message.warming != 0;
  for (const auto& m : message.members) {
    list.members.push_back({m.member, std::chrono::nanoseconds(m.age_ns)});
  }
  return list;
}

MemberListMessage ToWire(const MemberList& list) {
  MemberListMessage message;
  message.warming = list.warming ? 1 : 0;
  for (const auto& m : list.members) {
    message.members.push_back(
        {m.member, std::chrono::duration_cast<std::chrono::nanoseconds>(m.age).count()});
  }
  return message;
}

Table::Table(TableOptions options, TimePoint started) : options_(options), started_(started) {}

Status Table::Heartbeat(const Member& member, TimePoint now, const MemberHealth& health) {
  if (Status status = CheckMember(member); !status.ok()) return status;
  std::lock_guard guard(mutex_);
  auto it = entries_.find(member.id);
  if (it == entries_.end()) {
    DropOld(now);
    if (entries_.size() >= options_.max_members) {
      return ResourceExhausted(
          fmt::format("the table holds {} members, its bound: raise max_members "
                      "or stop nodes",
                      options_.max_members));
    }
    const uint64_t hash = NodeHash(member.id);
    for (const auto& [id, entry] : entries_) {
      if (NodeHash(id) != hash) continue;
      return InvalidArgument(
          fmt::format("member.id \"{}\" has the same hash as \"{}\": rename one", member.id, id));
    }
    entries_.emplace(member.id, Entry{member, health, now});
    return {};
  }
  Entry& entry = it->second;
  const uint64_t known = entry.member.incarnation;
  const bool expired = entry.heard + options_.member_ttl < now;
  if (!expired && (member.incarnation < known || (member.incarnation == known && entry.left))) {
    return Status(
        Code::kAborted,
        fmt::format("incarnation {} of \"{}\" is over ({}): stop this process, or give it "
                    "another id",
                    member.incarnation, member.id,
                    entry.left ? "it has left" : fmt::format("{} is known", known)));
  }
  MemberState state = member.state;
  // Heartbeats of several connections can overtake each other; a state never goes back.
  if (member.incarnation == known && !expired) state = std::max(state, entry.member.state);
  std::optional<Activity> activity = health.activity;
  if (!activity && member.incarnation == known) activity = std::move(entry.health.activity);
  entry = Entry{member, health, std::max(entry.heard, now)};
  entry.member.state = state;
  entry.health.activity = std::move(activity);
  return {};
}

void Table::Leave(const std::string& id, uint64_t incarnation) {
  std::lock_guard guard(mutex_);
  const auto it = entries_.find(id);
  if (it != entries_.end() && it->second.member.incarnation == incarnation) it->second.left = true;
}

MemberList Table::List(TimePoint now) {
  std::lock_guard guard(mutex_);
  DropOld(now);
  MemberList list;
  list.warming = warming(now);
  list.members.reserve(entries_.size());
  for (const auto& [id, entry] : entries_) {
    if (entry.left) continue;
    list.members.push_back({entry.member, std::max(Duration{}, now - entry.heard)});
  }
  std::sort(list.members.begin(), list.members.end(),
            [](const auto& a, const auto& b) { return a.member.id < b.member.id; });
  return list;
}

std::vector<MemberReport> Table::Reports(TimePoint now) {
  std::lock_guard guard(mutex_);
  DropOld(now);
  std::vector<MemberReport> reports;
  reports.reserve(entries_.size());
  for (const auto& [id, entry] : entries_) {
    if (entry.left) continue;
    reports.push_back({id, entry.member.state, entry.member.capacity_bytes,
                       std::max(Duration{}, now - entry.heard), entry.health});
  }
  std::sort(reports.begin(), reports.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  return reports;
}

void Table::DropOld(TimePoint now) {
  std::erase_if(entries_,
                [&](const auto& item) { return item.second.heard + options_.member_ttl < now; });
}

}  // namespace peercache
