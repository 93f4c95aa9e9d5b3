#include "transport/rdma/connection_attributes.h"

#include <algorithm>

#include "transport/rdma/verbs.h"

namespace peercache::rdma {
namespace {

// Only for receives, which nobody posts here; the shortest that is not 655 ms (0).
constexpr uint8_t kReceiverPause = 1;
constexpr uint32_t kSequenceBits = 0xffffff;
// For RoCE the kernel takes that of the route instead (ip route ... hoplimit).
constexpr uint8_t kHopLimit = 64;

}  // namespace

ibv_mtu PathMtu(uint8_t here, uint8_t there, uint32_t configured_bytes) {
  auto mtu =
      static_cast<ibv_mtu>(std::clamp<uint8_t>(std::min(here, there), IBV_MTU_256, IBV_MTU_4096));
  while (configured_bytes != 0 && MtuBytes(mtu) > configured_bytes && mtu > IBV_MTU_256)
    mtu = static_cast<ibv_mtu>(mtu - 1);
  return mtu;
}

ModifyQp ToInit(const LinkOptions& link, uint8_t port, int access) {
  ModifyQp change;
  change.attributes.qp_state = IBV_QPS_INIT;
  change.attributes.pkey_index = link.pkey_index;
  change.attributes.port_num = port;
  change.attributes.qp_access_flags = static_cast<unsigned>(access);
  change.mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  return change;
}

ModifyQp ToReceive(const LinkOptions& link, uint8_t port, const RailAddress& here,
                   const QueueAddress& peer, uint8_t reads, uint32_t flow) {
  ModifyQp change;
  ibv_qp_attr& to = change.attributes;
  to.qp_state = IBV_QPS_RTR;
  to.path_mtu = PathMtu(here.mtu, peer.mtu, link.mtu);
  to.dest_qp_num = peer.queue;
  to.rq_psn = peer.sequence & kSequenceBits;
  to.max_dest_rd_atomic = reads;
  to.min_rnr_timer = kReceiverPause;
  to.ah_attr.port_num = port;
  to.ah_attr.sl = link.service_level;
  to.ah_attr.dlid = peer.lid;
  // On InfiniBand ports of one subnet are addressed by LID alone.
  if (here.ethernet || here.network != peer.network) {
    to.ah_attr.is_global = 1;
    std::copy(peer.gid.begin(), peer.gid.end(), to.ah_attr.grh.dgid.raw);
    to.ah_attr.grh.sgid_index = static_cast<uint8_t>(here.gid.index);
    to.ah_attr.grh.hop_limit = kHopLimit;
    if (here.ethernet) to.ah_attr.grh.flow_label = flow;
    to.ah_attr.grh.traffic_class = link.traffic_class;
  }
  change.mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  return change;
}

ModifyQp ToSend(const LinkOptions& link, uint32_t sequence, uint8_t reads, bool software) {
  ModifyQp change;
  change.attributes.qp_state = IBV_QPS_RTS;
  change.attributes.sq_psn = sequence & kSequenceBits;
  change.attributes.timeout = software ? SoftwareTimeout(link.timeout) : link.timeout;
  change.attributes.retry_cnt = link.retries;
  change.attributes.rnr_retry = link.retries;
  change.attributes.max_rd_atomic = reads;
  change.mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  return change;
}

}  // namespace peercache::rdma
