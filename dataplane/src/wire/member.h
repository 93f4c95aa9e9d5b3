// Member: a node as others see it. Soft state, renewed by heartbeats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "wire/shared_list.h"

namespace peercache {

enum class MemberState : uint8_t {
  kJoining = 0,   // owns no part of the directory yet; owners publish to it in advance
  kActive = 1,    // owns its arc of the ring
  kDraining = 2,  // still owns its arc; owners publish to its successors in advance
};

constexpr uint32_t kMaxMembers = 4096;  // of a cluster
// Entries of the lists below: as many as there can be members. When many come or are lost at once,
// most members name the same ones, and a host says each list once (MemberListMessage); so what it
// answers grows with the number of members, not with its square.
constexpr size_t kMostListed = kMaxMembers;
// What older releases read: the smallest.
constexpr size_t kMostListedBefore = 64;

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
  SharedList synced;
  // NodeHashes of members that this one gets no answers from. What most members say of a member
  // counts (membership/view.h).
  SharedList unreachable;
};

// 64-bit name of a member in records and ring; xxh3 of the id.
uint64_t NodeHash(const std::string& id);
// Names one state change of one incarnation of one member.
uint64_t SyncToken(const Member& member);

}  // namespace peercache
