// Heartbeat: what a member tells every discovery host of itself. Who it is goes on to all members;
// how it is (MemberHealth) stays with the host, which sums it up for whoever asks that one host
// (membership/fleet.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "wire/activity.h"
#include "wire/frame.h"
#include "wire/member.h"

namespace peercache {

// Whether threads and pool are on the NUMA node where they belong.
enum class NumaHealth : uint8_t {
  kUnknown = 0,           // the kernel does not tell, or the node is still starting
  kNotApplicable = 1,     // there is no such NUMA node
  kAligned = 2,           // both are
  kThreadsElsewhere = 3,  // threads are not kept there
  kMemoryElsewhere = 4,   // threads are, some of the pool is not
};

inline constexpr size_t kMaxRailNameBytes = 64;

// Less than 300 bytes on the wire, however long the names are, and what it did.
struct MemberHealth {
  std::string group;      // at most kMaxIdBytes
  uint8_t rails = 0;      // at most kMaxRails
  uint8_t rails_up = 0;   // of these
  std::string rail_down;  // one that is not up; at most kMaxRailNameBytes
  NumaHealth numa = NumaHealth::kUnknown;
  uint32_t engines = 0;  // attached
  // Pages that engines looked up in about the last minute, and those that they got
  // (docs/hit-ratio.md). Not totals: their sum over members would jump with every restart.
  uint64_t recent_looked_up = 0, recent_delivered = 0;
  uint64_t pool_used_bytes = 0;
  // The same of the last 5 seconds, for who must see a fall at once.
  uint64_t latest_looked_up = 0, latest_delivered = 0;
  // Not in every heartbeat; the host keeps the last one.
  std::optional<Activity> activity{};
  bool operator==(const MemberHealth&) const = default;
};

struct Heartbeat {
  static constexpr uint16_t kHearsAll = FrameHeader::kHearsLookups | FrameHeader::kHearsCrowds |
                                        FrameHeader::kHearsActivity | FrameHeader::kHearsDrives;
  Member member;
  MemberHealth health;
  // For a host that takes `host`, FrameHeader::kHears... of its answers. Without kHearsLookups the
  // latest lookups are left out. Heartbeats of older releases end without them, and their recent
  // ones count gets alone: such a member is heard as one that looks nothing up. Without
  // kHearsCrowds the member's lists are cut to what older releases read. Without kHearsActivity, or
  // without kHearsLookups, the activity is left out; without kHearsDrives, its drives are.
  void Encode(FrameWriter* w, uint16_t host = kHearsAll) const;
  bool Decode(FrameReader* r);
};

}  // namespace peercache
