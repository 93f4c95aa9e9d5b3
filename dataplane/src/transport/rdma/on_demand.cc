#include "transport/rdma/on_demand.h"

#include <fmt/format.h>

namespace peercache::rdma {

Status CheckOnDemandPaging(const ibv_odp_caps& caps) {
  if ((caps.general_caps & IBV_ODP_SUPPORT) == 0) {
    return Unavailable(
        fmt::format("it has no on-demand paging (general_caps {:#x})", caps.general_caps));
  }
  const uint32_t rc = caps.per_transport_caps.rc_odp_caps;
  if ((rc & IBV_ODP_SUPPORT_READ) == 0) {
    return Unavailable(fmt::format(
        "its on-demand paging does not know RDMA READ over RC (rc_odp_caps {:#x})", rc));
  }
  return {};
}

}  // namespace peercache::rdma
