// Table: the full soft state of the membership as one discovery host keeps it. Any node can host
// it; hosts do not talk to each other, members heartbeat to all of them.
//
// A host that has just started knows nobody; for `warm_up` its answers are marked warming, so that
// nobody takes absence from its list for death.
//
// Thread-safety: all methods from any thread.
#pragma once

#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "wire/heartbeat.h"
#include "wire/messages.h"

namespace peercache {

struct ListedMember {
  Member member;
  Duration age{};  // since the host heard of it
};

struct MemberList {
  bool warming = false;
  std::vector<ListedMember> members;
};

// What a host knows of a member besides what it passes on.
struct MemberReport {
  std::string id;
  MemberState state = MemberState::kJoining;
  uint64_t capacity_bytes = 0;
  Duration age{};  // since the host heard of it
  MemberHealth health;
};

struct TableOptions {
  Duration member_ttl = milliseconds(3000);
  Duration warm_up = milliseconds(1500);
  size_t max_members = 4096;
};

// A list as it travels.
MemberList FromWire(const MemberListMessage& message);
MemberListMessage ToWire(const MemberList& list);

class Table {
 public:
  Table(TableOptions options, TimePoint started);
  // kAborted when a newer incarnation of the id is known (the caller is a ghost) or this one has
  // left; kInvalidArgument for malformed members (empty or over-long id, hash collision with
  // another id, port 0); kResourceExhausted at max_members.
  Status Heartbeat(const Member& member, TimePoint now, const MemberHealth& health = {});
  // Leaves only if the incarnation still matches. A heartbeat sent before, arriving after, does not
  // bring it back.
  void Leave(const std::string& id, uint64_t incarnation);
  // Members heard of within member_ttl.
  MemberList List(TimePoint now);
  // The same members, sorted by id, and how they are: for people, not for members.
  std::vector<MemberReport> Reports(TimePoint now);
  // Whether members may be missing, because this host has just started.
  bool warming(TimePoint now) const { return now < started_ + options_.warm_up; }

 private:
  struct Entry {
    Member member;
    MemberHealth health;
    TimePoint heard;
    bool left = false;  // not listed; kept until it expires, against late heartbeats
  };
  void DropOld(TimePoint now);

  const TableOptions options_;
  const TimePoint started_;
  std::mutex mutex_;
  std::unordered_map<std::string, Entry> entries_;
};

}  // namespace peercache
