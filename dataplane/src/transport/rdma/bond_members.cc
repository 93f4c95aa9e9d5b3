#include "transport/rdma/bond_members.h"

#include <dlfcn.h>
#include <infiniband/mlx5dv.h>

#include "transport/rdma/find_symbol.h"

namespace peercache::rdma {
namespace {

struct Library {
  bool (*is_supported)(ibv_device* device) = nullptr;
  int (*query_device)(ibv_context* context, mlx5dv_context* attributes) = nullptr;
  int (*query_qp_lag_port)(ibv_qp* qp, uint8_t* configured, uint8_t* active) = nullptr;
  int (*modify_qp_lag_port)(ibv_qp* qp, uint8_t port) = nullptr;
};

// Null where libmlx5 is missing, or older than rdma-core 32 (2020).
const Library* Load() {
  static const Library* const loaded = []() -> const Library* {
    // Never unloaded: providers register themselves in libibverbs.
    void* const handle = dlopen("libmlx5.so.1", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return nullptr;
    static Library library;
    const bool complete =
        FindSymbol(handle, "mlx5dv_is_supported", &library.is_supported) &&
        FindSymbol(handle, "mlx5dv_query_device", &library.query_device) &&
        FindSymbol(handle, "mlx5dv_query_qp_lag_port", &library.query_qp_lag_port) &&
        FindSymbol(handle, "mlx5dv_modify_qp_lag_port", &library.modify_qp_lag_port);
    return complete ? &library : nullptr;
  }();
  return loaded;
}

}  // namespace

uint8_t CountBondMembers(ibv_qp* qp) {
  const Library* const library = Load();
  if (library == nullptr || !library->is_supported(qp->context->device)) return 0;
  mlx5dv_context device{};
  device.comp_mask = MLX5DV_CONTEXT_MASK_NUM_LAG_PORTS;
  if (library->query_device(qp->context, &device) != 0) return 0;
  if ((device.comp_mask & MLX5DV_CONTEXT_MASK_NUM_LAG_PORTS) == 0 || device.num_lag_ports < 2)
    return 0;
  // The device could be of a bond. Whether it is one, only a queue pair tells.
  uint8_t configured = 0, active = 0;
  return library->query_qp_lag_port(qp, &configured, &active) == 0 ? device.num_lag_ports : 0;
}

Status SendOverMember(ibv_qp* qp, uint8_t members, uint32_t turn) {
  const auto member = static_cast<uint8_t>(1 + turn % members);
  const int error = Load()->modify_qp_lag_port(qp, member);
  return error == 0 ? Status() : FromErrno("naming the member of a bond", error);
}

}  // namespace peercache::rdma
