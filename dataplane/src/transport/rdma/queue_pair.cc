#include "transport/rdma/queue_pair.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <random>

#include "transport/rdma/bond_members.h"
#include "transport/rdma/connection_attributes.h"
#include "transport/rdma/ece.h"
#include "transport/rdma/peer_classes.h"

namespace peercache::rdma {
namespace {

Status Failed(const Rail& rail, const char* doing, int error) {
  return FromErrno(fmt::format("rail {}: {}", rail.name(), doing), error);
}

// libibverbs returns the error; some old providers return -1 and set errno.
int ErrorOf(int result) { return result == -1 ? errno : result; }

// 0, or why not.
int Modify(const Rail& rail, ibv_qp* qp, ModifyQp change) {
  return ErrorOf(rail.verbs().modify_qp(qp, &change.attributes, change.mask));
}

}  // namespace

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

uint32_t RandomFlowLabel() {
  constexpr uint32_t kMost = (1 << 20) - 1;
  return std::random_device{}() % kMost + 1;
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
  const int error = Modify(rail, qp.get(), ToInit(rail.link(), rail.spec().port, access));
  if (error != 0) return Failed(rail, "preparing a queue pair (pkey-index, port)", error);
  return qp;
}

QueueAddress AddressOf(const Rail& rail, const DeviceContext& device, const RailAddress& here,
                       ibv_qp& qp, uint32_t sequence) {
  QueueAddress address = here.ForPeers();
  // Or the peer would send larger packets than this end takes.
  address.mtu = PathMtu(here.mtu, here.mtu, rail.link().mtu);
  address.queue = qp.qp_num;
  address.sequence = sequence;
  address.reads = ReadsAnswered(device);
  TellClasses(rail.link(), &address);
  address.ece = EceOf(rail, &qp);
  return address;
}

Status ReadyToReceive(const Rail& rail, const DeviceContext& device, const RailAddress& here,
                      ibv_qp* qp, const QueueAddress& peer) {
  const int error = Modify(rail, qp,
                           ToReceive(rail.link(), rail.spec().port, here, peer,
                                     ReadsAnswered(device), RandomFlowLabel()));
  if (error != 0)
    return Failed(rail, "connecting a queue pair (is there a route to the peer's address?)", error);
  return {};
}

Status SpreadOverBond(const Rail& rail, const DeviceContext& device, ibv_qp* qp, uint32_t sequence,
                      const QueueAddress& peer, uint32_t turn) {
  const uint8_t members = CountBondMembers(qp);
  if (members < 2) return {};
  if (Status s = ReadyToSend(rail, device, qp, sequence, peer); !s.ok()) return s;
  return SendOverMember(qp, members, turn);
}

bool StopQueuePair(const Rail& rail, ibv_qp* qp) {
  ModifyQp change;
  change.attributes.qp_state = IBV_QPS_ERR;
  change.mask = IBV_QP_STATE;
  return Modify(rail, qp, change) == 0;
}

Status ReadyToSend(const Rail& rail, const DeviceContext& device, ibv_qp* qp, uint32_t sequence,
                   const QueueAddress& peer) {
  const int error = Modify(
      rail, qp, ToSend(rail.link(), sequence, ReadsUnderWay(device, peer), device.software()));
  if (error != 0) return Failed(rail, "starting a queue pair (timeout, retries)", error);
  return {};
}

}  // namespace peercache::rdma
