// libmlx5.so.1 as far as bonds go: of the same device as the fake libibverbs.
#include <infiniband/mlx5dv.h>

#include "transport/rdma/fake/fake_verbs.h"

#pragma GCC visibility push(default)
extern "C" {

using peercache::rdma::FakeVerbs;

bool mlx5dv_is_supported(ibv_device*) { return FakeVerbs::Get().bond_members > 0; }
int mlx5dv_query_device(ibv_context*, mlx5dv_context* attributes) {
  attributes->comp_mask &= MLX5DV_CONTEXT_MASK_NUM_LAG_PORTS;
  attributes->num_lag_ports = FakeVerbs::Get().bond_members;
  return 0;
}
int mlx5dv_query_qp_lag_port(ibv_qp*, uint8_t* configured, uint8_t* active) {
  *configured = *active = 1;
  return 0;
}
int mlx5dv_modify_qp_lag_port(ibv_qp* qp, uint8_t port) {
  return FakeVerbs::Get().NameMember(qp, port);
}

}  // extern "C"
#pragma GCC visibility pop
