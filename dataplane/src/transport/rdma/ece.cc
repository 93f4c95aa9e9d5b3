#include "transport/rdma/ece.h"

namespace peercache::rdma {
namespace {

// The options mean something to devices of one vendor. This is mlx5's, in its provider.
constexpr uint32_t kVendor = 0x15b3;

}  // namespace

uint32_t EceOf(const Rail& rail, ibv_qp* qp) {
  const auto query = rail.verbs().query_ece;
  if (!rail.link().ece || query == nullptr) return 0;
  ibv_ece ece{};
  return query(qp, &ece) == 0 && ece.vendor_id == kVendor ? ece.options : 0;
}

bool TakeEce(const Rail& rail, ibv_qp* qp, uint32_t options) {
  const auto set = rail.verbs().set_ece;
  if (options == 0 || !rail.link().ece || set == nullptr) return false;
  ibv_ece ece{.vendor_id = kVendor, .options = options, .comp_mask = 0};
  return set(qp, &ece) == 0;
}

}  // namespace peercache::rdma
