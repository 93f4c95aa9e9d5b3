// ReadChannel: reads pages of one peer's pool, over the queue pairs of each rail that reaches it.
//
//   auto channel = ReadChannel::Make(rails, use);      // queue pairs; request() goes to the peer
//   channel->Establish(answer, deadline)               // connects and tries each of them
//   channel->Begin(pages, ranges, headers, states, now);
//   RunReads(...)                                      // run_reads.h; or Advance() until done()
//
// A batch is striped: each READ goes to the rail with the fewest bytes under way, those of rails
// far from the destination's memory (NUMA) counting for more. A queue pair that fails or stalls
// meanwhile is lost, and what it had under way is read over the others; the batch fails when none
// is left. Memory of this process that a device may not write to any more (a dma-buf that was
// revoked, a file that was cut short) fails the batch at once, with all queues of the channel, and
// is no rail's fault. What all channels of a node have under way on a rail is bounded (budget.h): a
// channel that finds too little left stands in line for its next READ. Nothing lands in a
// destination once the channel is done(): it is not before the device has given up what lost queues
// had under way, or the kernel has taken it from the device.
//
// The header of every slot is read with its page and again after it, and checked: kStale when the
// page is not there (any more), or was not there any more when its last byte came. A holder voids a
// header before it writes any byte of the slot, so this holds however long a machine was paused and
// whatever its clock says. By clocks that run it follows from the lease: the caller discards what
// was finished() too late.
//
// "After" is more than posted later. The peer is asked for it when all READs of the page are
// complete: by a fence behind them on their queue pair, without a further doorbell, or by posting
// it then. InfiniBand (volume 1, 10.8.3.3) holds a fenced request back until all READs before it
// are complete. Without it the order of requests is no order of bytes: a device fetches what it
// sends by reads that may overtake each other, and what was lost on the way is fetched again alone.
//
// Costs: two work requests more than a bare read of the same pages, of 64 bytes each, for every
// page; a doorbell for each queue pair and batch. Begin and Advance neither allocate, once their
// vectors have grown to the largest batch, nor lock. Establish waits for the peer.
//
// Used by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/copy.h"
#include "base/key.h"
#include "base/status.h"
#include "pool/slot_header.h"
#include "transport/rdma/memory.h"
#include "transport/rdma/pieces.h"
#include "transport/rdma/rail.h"
#include "transport/rdma/read_queue.h"
#include "wire/fabric.h"

namespace peercache::rdma {

struct PageRead {
  Key key;
  uint64_t offset = 0;  // of the slot in the peer's pool
  uint64_t generation = 0;
  uint32_t length = 0;  // of the payload; the size of `to`
  std::span<const Bytes> to;
  bool bare = false;  // just bytes: no header comes before them, none is read or checked
};

// Whether the slot with this header has that page now.
inline bool IsOf(const SlotHeader& header, const PageRead& page) {
  return header.generation == page.generation && header.IsOf(page.key, page.length);
}

enum class PageState : uint8_t {
  kPending = 0,
  kRead,
  kStale,         // another page is there, or none
  kFailed,        // no rail could bring it
  kUnregistered,  // its destination is not registered with the rails
};

class ReadChannel {
 public:
  // On the rails of `use` (a bit each) that are up. Fails when there is none.
  static Result<std::unique_ptr<ReadChannel>> Make(const Rails& rails, uint32_t use);

  ConnectRequest request() const;
  // Connects to what the peer offers, over all rails at once; does without those that have not
  // connected by `deadline`. Fails when no queue is left.
  Status Establish(const ConnectOk& peer, TimePoint deadline);
  // READs the beginning of the peer's pool into `scratch`, within `ranges`, over every queue, to
  // see that the path carries packets of its size; breaks those over which nothing comes until
  // `deadline`. Fails when no queue is left.
  Status Probe(Bytes scratch, const RegisteredMemory::Ranges& ranges, TimePoint deadline);

  // A batch; everything given must live until done(). `headers` has two for each page, but for bare
  // ones, and lies in `ranges`. `stall`: longest without progress of one queue. `background`: it
  // takes what others leave of the rails' budgets, and a READ's turn in line every few
  // milliseconds.
  void Begin(std::span<const PageRead> pages, const RegisteredMemory::Ranges& ranges,
             std::span<SlotHeader> headers, std::span<PageState> states, Duration stall,
             TimePoint now, bool background = false);
  // Takes what has completed and posts what has room. True when anything moved.
  bool Advance(TimePoint now);
  bool done() const;
  // No page of the batch was complete later.
  TimePoint finished() const { return finished_; }
  // Begins no more READs, but of headers: done() when those under way are. What lacks others has
  // failed.
  void StopPosting();
  // Gives up: breaks all queues, what is pending has failed. done() a moment later.
  void Fail();

  // Queues that work. Rails, a bit each: that have lost their last one since Make; that have one;
  // that have all they are to have.
  size_t queues() const;
  uint32_t lost_rails() const { return lost_rails_; }
  uint32_t working_rails() const;
  uint32_t whole_rails() const;

  // For waiting.
  void AppendFds(std::vector<int>* fds) const;
  void Arm();
  void Disarm();
  // READs of the batch stand in line.
  bool in_line() const;
  // Has `event` added to when a READ that stands in line may be posted; -1: no more. False: one may
  // be already.
  bool WakeBy(int event);

 private:
  struct Path {
    // Shared with the rail's connector, while it is at work on it.
    std::shared_ptr<ReadQueue> queue;
    std::vector<uint32_t> rkeys;
    std::unique_ptr<RailBudget::Place> place;  // in line for the next READ
    bool reaches = true;                       // the memory of the batch is known to its device
  };
  ReadChannel() = default;
  // Where a page of the batch stands.
  static constexpr uint32_t kNone = UINT32_MAX, kSeveral = UINT32_MAX - 1;
  struct Progress {
    uint32_t missing = 0;     // READs that are not complete, without that of its header again
    uint32_t header = kNone;  // that one's piece
    uint32_t path = kNone;    // the one over which all its READs went, or kSeveral
    bool asked = false;       // that one is under way
  };
  void Post();
  // Again, of pages that have come.
  void PostHeaders();
  void PostPages();
  // Of pages that are under way over one path, behind them, once nothing else is to be posted.
  void ChainHeaders();
  // Takes back what lost queues had under way, once it lands no more. True when any did.
  bool TakeBack(TimePoint now);
  bool Quiet() const;  // nothing is under way, and nothing may land
  // Which paths reach the memory of the batch.
  void FindReach();
  bool AnyReaches() const;
  // With room for it, but for those of `skip` (a bit each).
  Path* LeastBusy(const Piece& piece, uint32_t skip);
  // The same, of those whose rail's budget has its bytes, which are taken then. Stands in line with
  // those that are less busy.
  Path* TakePath(const Piece& piece);
  bool TakeBytes(Path* path, uint32_t bytes) const;
  void LeaveLines();
  void Send(Path* path, uint32_t piece, ReadQueue::Order order = ReadQueue::Order::kAny);
  void Lose(Path* path, const Status& why);
  void NoteLoss(size_t rail);
  // Drops a queue that no call uses yet. If the connector is still working on it, the queue is
  // destroyed when the connector finishes.
  void Abandon(Path* path, const Status& why);
  void PieceDone(uint32_t piece);
  void PageDone(uint32_t page, PageState state);
  void PieceLost(uint32_t piece);
  void FailPending();

  PeerClasses* classes_ = nullptr;
  std::vector<Path> paths_;
  uint64_t pool_ = 0, pool_bytes_ = 0, chunk_bytes_ = 1;
  uint32_t max_segments_ = 1, max_message_bytes_ = 0;
  uint32_t lost_rails_ = 0;

  // The batch.
  std::span<const PageRead> pages_;
  std::span<SlotHeader> headers_;
  std::span<PageState> states_;
  Duration stall_{};
  Cut cut_;
  std::vector<uint32_t> again_;     // pieces that a lost queue had under way
  size_t next_ = 0;                 // first piece that was never posted, but for headers again
  std::vector<uint32_t> complete_;  // pages that lack that alone, and it is not asked for
  std::vector<Progress> progress_;  // of each page
  size_t left_ = 0;                 // pages pending
  bool posting_ = true, background_ = false;
  TimePoint now_{}, yields_until_{};  // of one in the background: when it stands in line again
  TimePoint finished_{};
  std::vector<ibv_sge> segments_;             // of the READ being built
  std::vector<const Registration*> reached_;  // the memory of the batch
};

}  // namespace peercache::rdma
