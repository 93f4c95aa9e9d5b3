// What modify_qp is told to take an RC queue pair through its states: from the options, the port
// here and the one it is connected to. Pure.
//
//   ModifyQp change = ToReceive(link, port, here, peer, reads);
//   verbs.modify_qp(qp, &change.attributes, change.mask);
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "transport/rdma/link_options.h"
#include "transport/rdma/rail_address.h"
#include "wire/fabric.h"

namespace peercache::rdma {

struct ModifyQp {
  ibv_qp_attr attributes{};
  int mask = 0;  // which of them count
};

// RESET -> INIT. `access`: what the peer may do (IBV_ACCESS_REMOTE_READ or 0).
ModifyQp ToInit(const LinkOptions& link, uint8_t port, int access);
// INIT -> RTR; answers `reads` READs of the peer at once. `flow`: the flow label of RoCE packets.
ModifyQp ToReceive(const LinkOptions& link, uint8_t port, const RailAddress& here,
                   const QueueAddress& peer, uint8_t reads, uint32_t flow);
// RTR -> RTS; has `reads` READs under way at once. `sequence` is its first packet number.
// `software`: the device is a program.
ModifyQp ToSend(const LinkOptions& link, uint32_t sequence, uint8_t reads, bool software);

// The path's: the smaller of both ports' and the configured one.
ibv_mtu PathMtu(uint8_t here, uint8_t there, uint32_t configured_bytes);

}  // namespace peercache::rdma
