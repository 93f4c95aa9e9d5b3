// Heartbeat: what a member tells every discovery host of itself. Who it is goes on to all members;
// how it is (MemberHealth) stays with the host, which sums it up for whoever asks that one host
// (membership/fleet.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

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

// Less than 300 bytes on the wire, however long the names are.
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
  bool operator==(const MemberHealth&) const = default;
};

struct Heartbeat {
  Member member;
  MemberHealth health;
  // `latest`: ends with the latest lookups, which older releases do not take. Theirs end without,
  // and their recent ones count gets alone: such a member is heard as one that looks nothing up.
  void Encode(FrameWriter* w, bool latest = true) const;
  bool Decode(FrameReader* r);
};

}  // namespace peercache
