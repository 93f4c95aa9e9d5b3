// On-demand paging: a device that has it needs no memory locked. It asks the kernel for a page of
// registered memory when it comes to it, as a processor does. Asked for by the option rdma-odp.
// Pure.
#pragma once

#include "base/status.h"
#include "transport/rdma/verbs.h"

namespace peercache::rdma {

// What READs between our nodes need of it, at both ends; if it is missing, why (kUnavailable).
Status CheckOnDemandPaging(const ibv_odp_caps& caps);

}  // namespace peercache::rdma
