// Member: a node as others see it. Soft state, renewed by heartbeats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace peercache {

enum class MemberState : uint8_t {
  kJoining = 0,   // owns no part of the directory yet; owners publish to it in advance
  kActive = 1,    // owns its arc of the ring
  kDraining = 2,  // still owns its arc; owners publish to its successors in advance
};

// Entries of the lists below. With more changes or losses at once the members agree on the smallest
// and come to the others afterwards; so what a host answers grows with the number of members, not
// with its square.
constexpr size_t kMostListed = 64;

struct Member {
  std::string id;            // stable name, e.g. "node7.default"; at most 128 bytes
  uint64_t incarnation = 0;  // grows with every start of the same id
  MemberState state = MemberState::kJoining;
  std::string host;  // numeric address peers connect to
  uint16_t peer_port = 0;
  uint16_t http_port = 0;
  uint64_t capacity_bytes = 0;  // of its pool; weight on the ring
  // SyncToken of every joining or draining member whose change this member has finished preparing
  // for: its records are published to the owners of after the change.
  std::vector<uint64_t> synced;
  // NodeHashes of members that this one gets no answers from. What most members say of a member
  // counts (membership/view.h).
  std::vector<uint64_t> unreachable;
};

// 64-bit name of a member in records and ring; xxh3 of the id.
uint64_t NodeHash(const std::string& id);
// Names one state change of one incarnation of one member.
uint64_t SyncToken(const Member& member);

}  // namespace peercache
