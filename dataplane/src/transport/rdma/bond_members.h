// Members of a bond that a NIC makes one device of: over which of them a queue pair sends. The
// driver gives them to its queue pairs in turn, whoever makes these; so those that answer one peer
// may all be on one member, and bring half of the bond. Only mlx5 has such devices; its own library
// (libmlx5, of ibverbs-providers) is loaded when it is first asked for.
//
//   const uint8_t members = CountBondMembers(qp);
//   if (members > 1) status = SendOverMember(qp, members, turn);
//
// Thread-safe.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "base/status.h"

namespace peercache::rdma {

// Members of the bond that this queue pair sends over; 0: of none, or of a device that is not
// mlx5's.
uint8_t CountBondMembers(ibv_qp* qp);

// The queue pair, in state RTS, sends over member `turn` modulo their number from here on. The
// device goes on with another where that one's link is down.
Status SendOverMember(ibv_qp* qp, uint8_t members, uint32_t turn);

}  // namespace peercache::rdma
