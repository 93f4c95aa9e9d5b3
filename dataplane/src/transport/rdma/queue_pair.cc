#include "transport/rdma/queue_pair.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

namespace peercache::rdma {
namespace {

Status Failed(const Rail& rail, const char* doing, int error) {
  return FromErrno(fmt::format("rail {}: {}", rail.name(), doing), error);
}

// libibverbs returns the error; some old providers return -1 and set errno.
int ErrorOf(int result) { return result == -1 ? errno : result; }

// min_rnr_timer: only for receives, which nobody posts here; the shortest that is not 655 ms (0).
constexpr uint8_t kReceiverPause = 1;

}  // namespace

ibv_mtu PathMtu(uint8_t here, uint8_t there, uint32_t configured_bytes) {
  auto mtu =
      static_cast<ibv_mtu>(std::clamp<uint8_t>(std::min(here, there), IBV_MTU_256, IBV_MTU_4096));
  while (configured_bytes != 0 && MtuBytes(mtu) > configured_bytes && mtu > IBV_MTU_256)
    mtu = static_cast<ibv_mtu>(mtu - 1);
  return mtu;
}

uint8_t ReadsAnswered(const DeviceContext& device) {
  return static_cast<uint8_t>(std::clamp(device.limits.max_qp_rd_atom, 1, 255));
}

uint8_t ReadsUnderWay(const DeviceContext& device, const QueueAddress& peer) {
  const int here = std::clamp(device.limits.max_qp_init_rd_atom, 1, 255);
  return static_cast<uint8_t>(std::min<int>(here, std::max<uint8_t>(peer.reads, 1)));
}

uint32_t RandomSequence() {
  // Not thread_local: its 5 kB do not fit into what a Python process has left for the extension's.
  return std::random_device{}() & 0xffffff;
}

Result<QpHandle> MakeQueuePair(const Rail& rail, const DeviceContext& device, ibv_cq* cq,
                               QueueSize size, int access) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = cq;
  wanted.recv_cq = cq;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap.max_send_wr = size.reads;
  wanted.cap.max_send_sge = size.segments;
  wanted.cap.max_recv_wr = 0;
  wanted.cap.max_recv_sge = 0;
  QpHandle qp(rail.verbs().create_qp(device.pd.get(), &wanted));
  if (!qp) return Failed(rail, "creating a queue pair", errno);
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = rail.link().pkey_index;
  attributes.port_num = rail.spec().port;
  attributes.qp_access_flags = static_cast<unsigned>(access);
  const int error = ErrorOf(rail.verbs().modify_qp(
      qp.get(), &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
  if (error != 0) return Failed(rail, "preparing a queue pair (pkey-index, port)", error);
  return qp;
}

QueueAddress AddressOf(const Rail& rail, const DeviceContext& device, const RailAddress& here,
                       const ibv_qp& qp, uint32_t sequence) {
  QueueAddress address = here.ForPeers();
  // Or the peer would send larger packets than this end takes.
  address.mtu = PathMtu(here.mtu, here.mtu, rail.link().mtu);
  address.queue = qp.qp_num;
  address.sequence = sequence;
  address.reads = ReadsAnswered(device);
  return address;
}

Status ReadyToReceive(const Rail& rail, const DeviceContext& device, const RailAddress& here,
                      ibv_qp* qp, const QueueAddress& peer) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = PathMtu(here.mtu, peer.mtu, rail.link().mtu);
  attributes.dest_qp_num = peer.queue;
  attributes.rq_psn = peer.sequence & 0xffffff;
  attributes.max_dest_rd_atomic = ReadsAnswered(device);
  attributes.min_rnr_timer = kReceiverPause;
  attributes.ah_attr.port_num = rail.spec().port;
  attributes.ah_attr.sl = rail.link().service_level;
  attributes.ah_attr.dlid = peer.lid;
  // On InfiniBand ports of one subnet are addressed by LID alone.
  if (here.ethernet || here.network != peer.network) {
    attributes.ah_attr.is_global = 1;
    std::memcpy(attributes.ah_attr.grh.dgid.raw, peer.gid.data(), peer.gid.size());
    attributes.ah_attr.grh.sgid_index = static_cast<uint8_t>(here.gid.index);
    attributes.ah_attr.grh.hop_limit = rail.link().hop_limit;
    attributes.ah_attr.grh.traffic_class = rail.link().traffic_class;
  }
  const int error = ErrorOf(
      rail.verbs().modify_qp(qp, &attributes,
                             IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
  if (error != 0)
    return Failed(rail, "connecting a queue pair (is there a route to the peer's address?)", error);
  return {};
}

bool StopQueuePair(const Rail& rail, ibv_qp* qp) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  return rail.verbs().modify_qp(qp, &attributes, IBV_QP_STATE) == 0;
}

Status ReadyToSend(const Rail& rail, const DeviceContext& device, ibv_qp* qp, uint32_t sequence,
                   const QueueAddress& peer) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = sequence & 0xffffff;
  attributes.timeout = rail.link().timeout;
  attributes.retry_cnt = rail.link().retries;
  attributes.rnr_retry = rail.link().retries;
  attributes.max_rd_atomic = ReadsUnderWay(device, peer);
  const int error = ErrorOf(rail.verbs().modify_qp(qp, &attributes,
                                                   IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
                                                       IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                                       IBV_QP_MAX_QP_RD_ATOMIC));
  if (error != 0) return Failed(rail, "starting a queue pair (timeout, retries)", error);
  return {};
}

}  // namespace peercache::rdma
