// Queue pairs: making RC queue pairs and taking them through their states. Control path: each call
// is a system call or several; reading over a connected pair is in read_queue.h.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "transport/rdma/rail.h"
#include "wire/fabric.h"

namespace peercache::rdma {

struct QueueSize {
  uint32_t reads = 1;     // READs posted at once
  uint32_t segments = 1;  // of one READ
};

// A new queue pair in state INIT. `access`: what the peer may do (IBV_ACCESS_REMOTE_READ or 0).
Result<QpHandle> MakeQueuePair(const Rail& rail, const DeviceContext& device, ibv_cq* cq,
                               QueueSize size, int access);

// What the peer needs to connect to it. `sequence` is its first packet number.
QueueAddress AddressOf(const Rail& rail, const DeviceContext& device, const RailAddress& here,
                       ibv_qp& qp, uint32_t sequence);
// 24 bits nobody can guess, so that a stray packet of an earlier connection does not fit.
uint32_t RandomSequence();
// 20 bits, never 0. Of RoCE packets the UDP source port follows from it, by which switches choose
// among equal paths; so each queue pair takes a path of its own, and one that is made anew most
// likely another.
uint32_t RandomFlowLabel();

// INIT -> RTR: it answers READs of the peer from here on.
Status ReadyToReceive(const Rail& rail, const DeviceContext& device, const RailAddress& here,
                      ibv_qp* qp, const QueueAddress& peer);
// RTR -> RTS: it can send READs.
Status ReadyToSend(const Rail& rail, const DeviceContext& device, ibv_qp* qp, uint32_t sequence,
                   const QueueAddress& peer);

// RTR -> RTS, where the rail is a bond: a device lets only then name the member that it answers
// over, which is the one whose turn it is. Nothing elsewhere.
Status SpreadOverBond(const Rail& rail, const DeviceContext& device, ibv_qp* qp, uint32_t sequence,
                      const QueueAddress& peer, uint32_t turn);

// Any -> ERR: it answers nothing more, sends nothing more and tries nothing again. What it had
// under way is reported as flushed, and is over then. False when the device refuses that.
bool StopQueuePair(const Rail& rail, ibv_qp* qp);

// READs that a queue pair of this device answers, and has under way, at once.
uint8_t ReadsAnswered(const DeviceContext& device);
uint8_t ReadsUnderWay(const DeviceContext& device, const QueueAddress& peer);

}  // namespace peercache::rdma
