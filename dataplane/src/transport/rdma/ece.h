// ECE, enhanced connection establishment: what the devices at both ends of a queue pair do beyond
// InfiniBand's specification, agreed on while it is connected. Of mlx5's devices: when a packet is
// lost, that one is sent again, and not all after it.
//
//   address.ece = EceOf(rail, qp);                            // the reader, in state INIT
//   took = TakeEce(rail, qp, reader.ece); ... address.ece = EceOf(rail, qp)    // the holder
//   TakeEce(rail, qp, holder.ece);                            // the reader, before RTR
//
// Only where both have rdma-ece on. Off by default, since a bond fell to 2.9 MB/s with it (UCX's
// issue 11955). Control path.
#pragma once

#include <cstdint>

#include "transport/rdma/rail.h"

namespace peercache::rdma {

// What the queue pair's device offers or, once it has taken something, does of that; 0: nothing.
uint32_t EceOf(const Rail& rail, ibv_qp* qp);

// In state INIT: it is to do this from RTR on, as far as it can. False: nothing of it.
bool TakeEce(const Rail& rail, ibv_qp* qp, uint32_t options);

}  // namespace peercache::rdma
