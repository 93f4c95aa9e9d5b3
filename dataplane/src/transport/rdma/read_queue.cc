#include "transport/rdma/read_queue.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "transport/rdma/ece.h"

namespace peercache::rdma {
namespace {

// READs in flight: half of them of pages, the others of their headers (read_channel.cc). With pages
// of 128 KiB four times what 400 Gb/s have under way in 20 us, and few enough that a thousand
// queues cost little memory.
constexpr int kReads = 128;
// Segments of one READ: a page of most models, with its header. Devices differ (30 on ConnectX).
constexpr int kSegments = 16;
// Every so many READs one completion, so that slots come free while others are under way.
constexpr uint32_t kSignalEvery = 16;
constexpr int kPollAtOnce = 16;
// Or after as many bytes, so that a slow path shows its progress: a queue that shows none is given
// up (ReadChannel::Begin).
constexpr uint64_t kSignalBytes = 1 << 20;
// A device flushes a stopped pair in microseconds. For one that has not after this long there is
// only destroying the pair.
constexpr Duration kFlushLimit = milliseconds(100);
constexpr Duration kLookAgain = std::chrono::microseconds(50);

}  // namespace

Result<std::unique_ptr<ReadQueue>> ReadQueue::Make(Rail* rail, size_t rail_index) {
  auto queue = std::unique_ptr<ReadQueue>(new ReadQueue(rail, rail_index));
  if (!queue->device_) return Unavailable(fmt::format("rail {}: it has no device", rail->name()));
  const DeviceContext& device = *queue->device_;
  const ibv_device_attr& limits = device.limits;
  const int most_reads = std::min(limits.max_qp_wr, limits.max_cqe - 1);
  // max_sge_rd is 0 where the driver does not tell.
  const int most_segments =
      limits.max_sge_rd > 0 ? std::min(limits.max_sge, limits.max_sge_rd) : limits.max_sge;
  queue->size_ = {static_cast<uint32_t>(std::clamp(kReads, 1, std::max(most_reads, 1))),
                  static_cast<uint32_t>(std::clamp(kSegments, 1, std::max(most_segments, 1)))};
  const auto failed = [&](const char* doing) {
    return FromErrno(fmt::format("rail {}: {}", rail->name(), doing), errno);
  };
  queue->completions_.reset(rail->verbs().create_comp_channel(device.context.get()));
  if (!queue->completions_) return failed("creating a completion channel");
  fcntl(queue->completions_->fd, F_SETFL, fcntl(queue->completions_->fd, F_GETFL) | O_NONBLOCK);
  // One more than READs: when the pair breaks, each of them completes with an error.
  queue->cq_.reset(rail->verbs().create_cq(device.context.get(),
                                           static_cast<int>(queue->size_.reads) + 1, nullptr,
                                           queue->completions_.get(), device.NextVector()));
  if (!queue->cq_) return failed("creating a completion queue");
  auto qp = MakeQueuePair(*rail, device, queue->cq_.get(), queue->size_, 0);
  if (!qp.ok()) return qp.status();
  queue->qp_ = std::move(*qp);
  queue->slots_.resize(queue->size_.reads);
  queue->work_.resize(queue->size_.reads);
  queue->segments_.resize(size_t{queue->size_.reads} * queue->size_.segments);
  return queue;
}

ReadQueue::~ReadQueue() { Break(); }

Status ReadQueue::Connect(const QueueAddress& peer) {
  if (peer.ece != 0 && !TakeEce(*rail_, qp_.get(), peer.ece))
    return Unavailable(fmt::format("rail {}: its device does not do what it has offered (rdma-ece)",
                                   rail_->name()));
  if (Status s = ReadyToReceive(*rail_, *device_, here_, qp_.get(), peer); !s.ok()) return s;
  return ReadyToSend(*rail_, *device_, qp_.get(), sequence_, peer);
}

void ReadQueue::Add(uint64_t remote, uint32_t rkey, std::span<const ibv_sge> segments,
                    uint32_t bytes, uint32_t token, Order order) {
  const uint32_t at = added_ % size_.reads;
  ibv_sge* copy = &segments_[size_t{at} * size_.segments];
  std::copy(segments.begin(), segments.end(), copy);
  ibv_send_wr& work = work_[at];
  work = {};
  work.wr_id = added_ + 1;  // what is complete when this is
  work.sg_list = copy;
  work.num_sge = static_cast<int>(segments.size());
  work.opcode = IBV_WR_RDMA_READ;
  unsignalled_bytes_ += bytes;
  const bool signal = (added_ + 1) % kSignalEvery == 0 || unsignalled_bytes_ >= kSignalBytes;
  if (signal) unsignalled_bytes_ = 0;
  if (signal) work.send_flags = IBV_SEND_SIGNALED;
  if (order == Order::kFence) work.send_flags |= IBV_SEND_FENCE;
  work.wr.rdma.remote_addr = remote;
  work.wr.rdma.rkey = rkey;
  slots_[at] = {token, bytes};
  bytes_in_flight_ += bytes;
  taken_ += bytes;
  ++added_;
}

Status ReadQueue::Ring() {
  if (rung_ == added_) return {};
  const bool idle = rung_ == harvested_;
  for (uint32_t i = rung_; i + 1 != added_; ++i)
    work_[i % size_.reads].next = &work_[(i + 1) % size_.reads];
  // The last of a chain is signalled, or nobody would learn of it.
  work_[(added_ - 1) % size_.reads].send_flags |= IBV_SEND_SIGNALED;
  unsignalled_bytes_ = 0;
  const uint32_t count = added_ - rung_;
  ibv_send_wr* refused = nullptr;
  const int error = ibv_post_send(qp_.get(), &work_[rung_ % size_.reads], &refused);
  rung_ = added_;
  if (idle) NoteProgress();
  posted_ = refused == nullptr ? added_ : static_cast<uint32_t>(refused->wr_id) - 1;
  if (error != 0)
    return FromErrno(fmt::format("rail {}: posting {} READs", rail_->name(), count), error);
  return {};
}

Status ReadQueue::Poll(uint32_t* upto) {
  *upto = completed_;
  ibv_wc done[kPollAtOnce];
  for (;;) {
    const int n = ibv_poll_cq(cq_.get(), kPollAtOnce, done);
    if (n < 0)
      return Internal(fmt::format("rail {}: polling for completions failed", rail_->name()));
    if (n > 0) reported_ = static_cast<uint32_t>(done[n - 1].wr_id);
    for (int i = 0; i < n; ++i) {
      if (done[i].status != IBV_WC_SUCCESS) {
        *upto = completed_;
        const std::string why =
            fmt::format("rail {}: a READ failed: {} (vendor error {:#x})", rail_->name(),
                        rail_->verbs().wc_status_str(done[i].status), done[i].vendor_err);
        return done[i].status == IBV_WC_LOC_PROT_ERR ? InvalidArgument(why) : Unavailable(why);
      }
      completed_ = static_cast<uint32_t>(done[i].wr_id);
    }
    *upto = completed_;
    if (n < kPollAtOnce) return {};
  }
}

Status ReadQueue::Arm() {
  const int error = ibv_req_notify_cq(cq_.get(), 0);
  if (error != 0)
    return FromErrno(fmt::format("rail {}: asking for a completion event", rail_->name()), error);
  return {};
}

void ReadQueue::Disarm() {
  ibv_cq* cq = nullptr;
  void* user = nullptr;
  while (rail_->verbs().get_cq_event(completions_.get(), &cq, &user) == 0) ++unacknowledged_;
}

void ReadQueue::Stop(TimePoint now) {
  if (stopped_) return;
  stopped_ = true;
  // At once where the device refuses that, as one that was taken away.
  destroy_at_ = StopQueuePair(*rail_, qp_.get()) ? now + kFlushLimit : TimePoint{};
}

bool ReadQueue::Flushed() {
  ibv_wc done[kPollAtOnce];
  while (reported_ != posted_) {
    const int n = ibv_poll_cq(cq_.get(), kPollAtOnce, done);
    if (n <= 0) return false;
    reported_ = static_cast<uint32_t>(done[n - 1].wr_id);
  }
  return true;
}

bool ReadQueue::Destroyed(TimePoint now) {
  if (qp_ != nullptr && (now >= destroy_at_ || device_->failed)) {
    if (!device_->failed && destroy_at_ != TimePoint{})
      spdlog::warn("rail {}: the device does not give up its READs; waiting for it", rail_->name());
    destroyed_ = std::make_shared<std::atomic<bool>>(false);
    // Released when the pair is gone.
    std::shared_ptr<const void> gone(destroyed_.get(),
                                     [flag = destroyed_](const void*) { flag->store(true); });
    rail_->Dispose({.device = device_, .keeper = std::move(gone), .qp = std::move(qp_)});
  }
  return destroyed_ != nullptr && destroyed_->load();
}

void ReadQueue::Dispose() {
  Disarm();
  // Destroying a completion queue waits for this.
  if (unacknowledged_ > 0)
    rail_->verbs().ack_cq_events(cq_.get(), std::exchange(unacknowledged_, 0u));
  // A pair that is being destroyed goes before its completion queue: Dispose keeps the order.
  rail_->Dispose({.device = std::move(device_),
                  .channel = std::move(completions_),
                  .cq = std::move(cq_),
                  .qp = std::move(qp_)});
}

void ReadQueue::Break() {
  if (qp_ == nullptr && !stopped_) return;  // it was never made
  Stop(Clock::now());
  while (!Over(Clock::now(), [](uint32_t) {})) std::this_thread::sleep_for(kLookAgain);
}

}  // namespace peercache::rdma
