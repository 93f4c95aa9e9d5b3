// ReadQueue: a queue pair to one peer over one rail, on which this node READs. Data path: posting
// and harvesting allocate nothing and make no system call.
//
//   while (queue.room() > 0) queue.Add(piece...);      // builds READs
//   queue.Ring();                                      // one doorbell for all of them
//   queue.Harvest([&](uint32_t token) { ... });        // in the order they were added
//
// Only some READs are signalled; that one completed says that all before it did. When the pair
// breaks, Harvest fails, and what was not reported is in doubt, since it may land at any time.
// Stop() has the device give it up; it lands no more once Over(), of which there are two proofs:
//   - the device has reported the end of all that it had, as it does within microseconds;
//   - or the pair is destroyed, which takes the kernel as long as the device, or its reset, takes.
// Neither is waited for here, so that the other rails go on meanwhile. Rail::Dispose
// destroys the pair.
//
// Used by one thread at a time.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "transport/rdma/queue_pair.h"
#include "transport/rdma/rail.h"

namespace peercache::rdma {

class ReadQueue {
 public:
  static Result<std::unique_ptr<ReadQueue>> Make(Rail* rail, size_t rail_index);

  Rail& rail() const { return *rail_; }
  // Null when it is broken, and that is over.
  const DeviceContext* device() const { return device_.get(); }
  size_t rail_index() const { return rail_index_; }
  QueueAddress address() const { return AddressOf(*rail_, *device_, here_, *qp_, sequence_); }
  Status Connect(const QueueAddress& peer);

  bool broken() const { return stopped_; }
  // Broken, and what it had under way may still land.
  bool stopping() const { return stopped_ && device_ != nullptr; }
  // The rail has another address or device than the pair was made with; nothing comes over it any
  // more.
  bool outdated() const { return device_->failed || rail_->state().epoch() != here_.epoch; }
  uint32_t max_segments() const { return size_.segments; }
  // READs that can be under way at once, and that can be added before some are harvested.
  size_t capacity() const { return size_.reads; }
  size_t room() const { return size_.reads - (added_ - harvested_); }
  size_t in_flight() const { return added_ - harvested_; }
  uint64_t bytes_in_flight() const { return bytes_in_flight_; }
  // When something was last harvested or the queue was last empty.
  TimePoint last_progress() const { return last_progress_; }
  // Bytes that came over its rail since, by all queues.
  uint64_t passed_by() const { return rail_->brought() - brought_before_; }
  // Gives back to the rail's budget what is under way: it does not fill the port, as of a holder
  // that is dead.
  void Uncount() { GiveBack(taken_); }

  // `segments` (at most max_segments()) are copied; `token` comes back from Harvest. The bytes were
  // taken from the rail's budget, and are given back when the READ is complete or lost, or by
  // Uncount. With kFence
  // the peer is not asked for it before all READs that were added earlier are complete.
  enum class Order : uint8_t { kAny, kFence };
  void Add(uint64_t remote, uint32_t rkey, std::span<const ibv_sge> segments, uint32_t bytes,
           uint32_t token, Order order = Order::kAny);
  // Hands what was added to the device.
  Status Ring();
  // Calls done(token) for each READ that has completed since. Fails when the pair is broken; with
  // kInvalidArgument when that is the fault of this process's memory, and of no rail.
  template <typename Done>
  Status Harvest(const Done& done) {
    uint32_t upto = 0;
    Status status = Poll(&upto);
    if (harvested_ != upto) NoteProgress();
    uint64_t bytes = 0;
    while (harvested_ != upto) {
      const Slot& slot = slots_[harvested_ % size_.reads];
      bytes += slot.bytes;
      ++harvested_;
      done(slot.token);
    }
    bytes_in_flight_ -= bytes;
    GiveBack(std::min(bytes, taken_));
    return status;
  }

  // For waiting: Arm, Harvest once more, then poll fd(); Disarm before the next Arm.
  int fd() const { return completions_->fd; }
  Status Arm();
  void Disarm();

  // Ends the pair: it asks for nothing more.
  void Stop(TimePoint now);
  // Of a stopped pair: whether nothing lands any more. Then lost(token) was called for each READ
  // that was in flight, and nothing is in flight any more. Takes no system call that waits.
  template <typename Lost>
  bool Over(TimePoint now, const Lost& lost) {
    if (device_ != nullptr && !Flushed() && !Destroyed(now)) return false;
    if (device_ != nullptr) Dispose();
    for (; harvested_ != added_; ++harvested_) lost(slots_[harvested_ % size_.reads].token);
    bytes_in_flight_ = 0;
    GiveBack(taken_);
    return true;
  }
  // Stops the pair and waits until that is over.
  void Break();
  ~ReadQueue();

 private:
  struct Slot {
    uint32_t token = 0;
    uint32_t bytes = 0;
  };
  ReadQueue(Rail* rail, size_t rail_index)
      : rail_(rail),
        rail_index_(rail_index),
        here_(rail->state().address()),
        device_(rail->device()) {}
  Status Poll(uint32_t* upto);
  // Not by a clock that was read before: this thread may have waited for a processor since.
  void NoteProgress() {
    last_progress_ = Clock::now();
    brought_before_ = rail_->brought();
  }
  void GiveBack(uint64_t bytes) {
    taken_ -= bytes;
    rail_->budget().Give(bytes);
  }
  // Of a stopped pair: whether the device has reported on all that was posted.
  bool Flushed();
  // The same by destroying it, which begins when it was not flushed in time.
  bool Destroyed(TimePoint now);
  void Dispose();

  Rail* const rail_;
  const size_t rail_index_;
  const RailAddress here_;
  std::shared_ptr<const DeviceContext> device_;
  const uint32_t sequence_ = RandomSequence();
  QueueSize size_;
  CompChannelHandle completions_;
  CqHandle cq_;
  QpHandle qp_;  // null: it is being destroyed
  bool stopped_ = false;
  TimePoint destroy_at_{};
  std::shared_ptr<std::atomic<bool>> destroyed_;  // null: that has not begun
  unsigned unacknowledged_ = 0;                   // completion events
  // Counts of READs; they wrap.
  uint32_t added_ = 0, rung_ = 0, harvested_ = 0;
  uint32_t completed_ = 0;              // known to be complete
  uint32_t posted_ = 0, reported_ = 0;  // that the device took, and that it has reported on
  uint64_t bytes_in_flight_ = 0, unsignalled_bytes_ = 0;
  uint64_t taken_ = 0;  // from the rail's budget, of those
  TimePoint last_progress_{};
  uint64_t brought_before_ = 0;    // by the rail, then
  std::vector<Slot> slots_;        // ring of size_.reads
  std::vector<ibv_send_wr> work_;  // [size_.reads]
  std::vector<ibv_sge> segments_;  // [size_.reads * size_.segments]
};

}  // namespace peercache::rdma
