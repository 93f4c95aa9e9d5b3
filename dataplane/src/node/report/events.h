// Events: what happened to members, rails and breakers, as this node saw it. The last 100, for the
// dashboard.
//
//   events.Look(now, observed);   // about once a second
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "membership/view.h"

namespace peercache {

// What is compared with what was there before.
struct Observation {
  const View* view = nullptr;         // null: no member is known yet
  std::vector<uint64_t> breakers;     // NodeHashes of members whose breaker is open
  std::vector<std::string> rails_up;  // of this node
  std::vector<std::string> rails_down;
};

struct PastEvent {
  Duration age{};
  const char* what;
  std::string whom;  // a member, or a rail of this node
};

class Events {
 public:
  static constexpr size_t kMost = 100;

  // The first look at members says nothing: who is there then was there before.
  void Look(TimePoint now, const Observation& observed);
  // The newest first.
  std::vector<PastEvent> Past(TimePoint now) const;

 private:
  struct Seen {
    uint64_t incarnation = 0;
    MemberState state = MemberState::kJoining;
    bool unreachable = false, breaker_open = false;
  };
  struct Event {
    TimePoint at;
    const char* what;
    std::string whom;
  };
  void LookAtMembers(TimePoint now, const Observation& observed);
  void LookAtRails(TimePoint now, const Observation& observed);
  void Add(TimePoint now, const char* what, const std::string& whom);

  bool known_ = false;
  std::map<std::string, Seen> members_;
  std::map<std::string, bool> rails_;  // up
  std::deque<Event> events_;           // the newest first
};

}  // namespace peercache
