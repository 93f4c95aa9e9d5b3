// Window: READs of slots of one peer's pool, so many slots under way at any time: when one has
// come, the next is asked for. The batches of a ReadChannel end before others begin; all else is as
// there. A slot is read with its header, and then its header again, behind what is under way. Each
// READ goes to the queue pair with the fewest bytes under way, within the budget of its rail.
//
//   auto window = Window::Make(rails);
//   window->Connect(...what the peer answers to window->request()...)
//   window->Use(pages, ranges, headers, renew);
//   for (window->Begin(1000); !window->done();) window->Advance();
//
// What is under way lands until the window is destroyed. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "pool/slot_header.h"
#include "transport/rdma/memory.h"
#include "transport/rdma/pieces.h"
#include "transport/rdma/rail.h"
#include "transport/rdma/read_channel.h"
#include "transport/rdma/read_queue.h"
#include "wire/fabric.h"

namespace peercache::perf {

class Window {
 public:
  static Result<std::unique_ptr<Window>> Make(const rdma::Rails& rails);
  ConnectRequest request() const;
  // Does without queue pairs that cannot be connected now. Fails when none is left.
  Status Connect(const ConnectOk& peer);
  // That are connected, and their rails.
  size_t queues() const { return paths_.size(); }
  size_t rails() const;

  // Where slots land: half of `pages` are under way at once, and the headers of the others, which
  // have come. `renew` says which slot a page is read from the next time. `headers` has two for
  // each page. All lies in `ranges`.
  void Use(std::span<rdma::PageRead> pages, const rdma::RegisteredMemory::Ranges* ranges,
           std::span<SlotHeader> headers, std::function<void(rdma::PageRead*)> renew);
  // Reads so many slots.
  void Begin(uint64_t slots);
  // Takes what has come, and asks for as many others. True when anything came.
  bool Advance();
  // All have come, or one cannot: status().
  bool done() const { return !status_.ok() || (left_ == 0 && free_.size() == places_.size()); }
  const Status& status() const { return status_; }
  // Returns when something may have come, a few milliseconds later at most.
  void Sleep();

  // Slots that were asked for and have not come, but for their headers again.
  size_t reading() const { return reading_; }
  // How long each has taken that has come since Begin.
  std::vector<Duration>& took() { return took_; }

 private:
  struct Path {
    std::unique_ptr<rdma::ReadQueue> queue;
    std::vector<uint32_t> rkeys;
  };
  struct Place {
    rdma::Cut cut;  // the READs of its slot, the header again as the last
    size_t missing = 0;
    TimePoint asked{};
  };
  struct Read {
    uint32_t place = 0, piece = 0;
  };
  void Ask();
  void Came(Read read);
  void Post();
  Path* Take(const rdma::Piece& piece);
  void Send(Path* path, Read read);
  void Fail(Status status) { status_ = std::move(status); }

  std::vector<Path> paths_;
  uint64_t pool_ = 0;
  rdma::CutLimits limits_;
  std::span<rdma::PageRead> pages_;
  const rdma::RegisteredMemory::Ranges* ranges_ = nullptr;
  std::span<SlotHeader> headers_;
  std::function<void(rdma::PageRead*)> renew_;
  std::vector<Place> places_;
  std::vector<uint32_t> free_;  // places
  std::deque<Read> waiting_;    // for room
  std::vector<ibv_sge> segments_;
  uint64_t left_ = 0;  // slots that are not asked for yet
  size_t reading_ = 0;
  std::vector<Duration> took_;
  Status status_;
};

}  // namespace peercache::perf
