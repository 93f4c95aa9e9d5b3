#include "node/report/events.h"

#include <algorithm>
#include <utility>

namespace peercache {

void Events::Add(TimePoint now, const char* what, const std::string& whom) {
  events_.push_front({now, what, whom});
  if (events_.size() > kMost) events_.pop_back();
}

void Events::Look(TimePoint now, const Observation& observed) {
  if (observed.view != nullptr) LookAtMembers(now, observed);
  LookAtRails(now, observed);
}

void Events::LookAtMembers(TimePoint now, const Observation& observed) {
  std::map<std::string, Seen> members;
  for (const Member& m : observed.view->members) {
    const uint64_t node = NodeHash(m.id);
    const bool open = std::ranges::find(observed.breakers, node) != observed.breakers.end();
    members[m.id] = {m.incarnation, m.state, observed.view->IsUnreachable(node), open};
  }
  const bool first = !std::exchange(known_, true);
  for (const auto& [id, is] : members) {
    const auto before = members_.find(id);
    const bool is_new = before == members_.end();
    if (first) continue;
    const Seen was = is_new ? Seen{is.incarnation, MemberState::kJoining} : before->second;
    if (is_new) Add(now, "joined", id);
    if (is.incarnation != was.incarnation) Add(now, "restarted", id);
    if (is.state == MemberState::kDraining && was.state != is.state) Add(now, "drains", id);
    if (is.unreachable != was.unreachable)
      Add(now, is.unreachable ? "unreachable" : "reachable again", id);
    if (is.breaker_open != was.breaker_open)
      Add(now, is.breaker_open ? "breaker opened" : "breaker closed", id);
  }
  for (const auto& [id, was] : members_) {
    if (members.contains(id)) continue;
    Add(now, was.state == MemberState::kDraining ? "left" : "lost", id);
  }
  members_ = std::move(members);
}

void Events::LookAtRails(TimePoint now, const Observation& observed) {
  std::map<std::string, bool> rails;
  for (const std::string& name : observed.rails_up) rails[name] = true;
  for (const std::string& name : observed.rails_down) rails[name] = false;
  for (const auto& [name, up] : rails) {
    const auto was = rails_.find(name);
    if (was != rails_.end() && was->second != up) Add(now, up ? "rail up" : "rail down", name);
  }
  rails_ = std::move(rails);
}

std::vector<PastEvent> Events::Past(TimePoint now) const {
  std::vector<PastEvent> past;
  past.reserve(events_.size());
  for (const Event& event : events_) past.push_back({now - event.at, event.what, event.whom});
  return past;
}

}  // namespace peercache
