#include "window.h"

#include <poll.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace peercache::perf {
namespace {

constexpr int kLongestSleepMs = 10;
// In the token of a READ, for which of its slot's it is.
constexpr uint32_t kPieceBits = 8;

}  // namespace

Result<std::unique_ptr<Window>> Window::Make(const rdma::Rails& rails) {
  auto window = std::make_unique<Window>();
  bool more = true;
  for (uint32_t round = 0; more; ++round) {
    more = false;
    for (size_t i = 0; i < rails.size(); ++i) {
      if (round >= rails[i].queues()) continue;
      more = true;
      auto queue = rdma::ReadQueue::Make(&rails[i], i);
      if (!queue.ok()) return queue.status();
      window->paths_.push_back({std::move(*queue), {}});
    }
  }
  return window;
}

ConnectRequest Window::request() const {
  ConnectRequest request;
  for (const Path& path : paths_) request.queues.push_back(path.queue->address());
  return request;
}

Status Window::Connect(const ConnectOk& peer) {
  if (peer.queues.size() != paths_.size())
    return Corrupt("the peer answered for another number of queue pairs than it was asked for");
  pool_ = peer.pool;
  limits_ = {UINT32_MAX, UINT32_MAX, peer.chunk_bytes};
  std::vector<Path> connected;
  Status failure = Unavailable("the peer has no rail for this node's");
  for (size_t i = 0; i < paths_.size(); ++i) {
    const ConnectOk::Served& served = peer.queues[i];
    if (served.queue.queue == 0) continue;
    Path& path = paths_[i];
    if (Status s = path.queue->Connect(served.queue); !s.ok()) {
      failure = std::move(s);
      continue;
    }
    path.rkeys = served.rkeys;
    limits_.segments = std::min(limits_.segments, path.queue->max_segments());
    limits_.bytes = std::min(limits_.bytes, path.queue->device()->max_message_bytes);
    connected.push_back(std::move(path));
  }
  paths_ = std::move(connected);
  if (paths_.empty()) return failure;
  segments_.resize(limits_.segments);
  return {};
}

size_t Window::rails() const {
  std::set<size_t> rails;
  for (const Path& path : paths_) rails.insert(path.queue->rail_index());
  return rails.size();
}

void Window::Use(std::span<rdma::PageRead> pages, const rdma::RegisteredMemory::Ranges* ranges,
                 std::span<SlotHeader> headers, std::function<void(rdma::PageRead*)> renew) {
  pages_ = pages;
  ranges_ = ranges;
  headers_ = headers;
  renew_ = std::move(renew);
  places_.resize(pages.size());
  free_.resize(pages.size());
  std::iota(free_.rbegin(), free_.rend(), 0);
}

void Window::Begin(uint64_t slots) {
  took_.clear();
  took_.reserve(slots);
  left_ = slots;
  Ask();
  Post();
}

void Window::Ask() {
  while (left_ > 0 && reading_ < places_.size() / 2 && !free_.empty()) {
    const uint32_t place = free_.back();
    free_.pop_back();
    rdma::PageRead& page = pages_[place];
    renew_(&page);
    auto& [cut, missing, asked] = places_[place];
    cut.pieces.clear();
    cut.segments.clear();
    const rdma::HeaderPlaces header{std::as_writable_bytes(headers_.subspan(2 * place, 1)),
                                    std::as_writable_bytes(headers_.subspan(2 * place + 1, 1))};
    if (!rdma::CutPage(place, page.offset, header, page.to, limits_, *ranges_, &cut))
      return Fail(Internal("the memory of a window is not registered"));
    if (cut.pieces.size() > 1 << kPieceBits)
      return Fail(InvalidArgument("a slot takes too many READs: give fewer --bytes"));
    missing = cut.pieces.size() - 1;
    asked = Clock::now();
    for (uint32_t piece = 0; piece < missing; ++piece) waiting_.push_back({place, piece});
    --left_;
    ++reading_;
  }
}

void Window::Came(Read read) {
  Place& place = places_[read.place];
  const auto last = static_cast<uint32_t>(place.cut.pieces.size()) - 1;
  const bool again = read.piece == last;
  if (!again && --place.missing > 0) return;
  if (!IsOf(headers_[2 * read.place + (again ? 1 : 0)], pages_[read.place])) {
    return Fail(
        Unavailable("a READ found another page than it asked for: give both sides the same flags"));
  }
  if (again) {
    took_.push_back(Clock::now() - place.asked);
    free_.push_back(read.place);
  } else {
    waiting_.push_back({read.place, last});
    --reading_;
  }
  Ask();
}

bool Window::Advance() {
  bool came = false;
  for (Path& path : paths_) {
    if (path.queue->in_flight() == 0) continue;
    Status s = path.queue->Harvest([&](uint32_t token) {
      came = true;
      Came({token >> kPieceBits, token & ((1 << kPieceBits) - 1)});
    });
    if (!s.ok()) Fail(std::move(s));
  }
  if (status_.ok()) Post();
  return came;
}

void Window::Post() {
  while (!waiting_.empty()) {
    const Read read = waiting_.front();
    Path* const path = Take(places_[read.place].cut.pieces[read.piece]);
    if (path == nullptr) break;
    waiting_.pop_front();
    Send(path, read);
  }
  for (Path& path : paths_)
    if (Status s = path.queue->Ring(); !s.ok()) Fail(std::move(s));
}

Window::Path* Window::Take(const rdma::Piece& piece) {
  Path* best = nullptr;
  for (Path& path : paths_) {
    if (path.queue->room() == 0) continue;
    if (best == nullptr || path.queue->bytes_in_flight() < best->queue->bytes_in_flight())
      best = &path;
  }
  if (best == nullptr) return nullptr;
  rdma::RailBudget& budget = best->queue->rail().budget();
  if (piece.again) {
    budget.Take(piece.bytes);
  } else if (!budget.TryTake(piece.bytes)) {
    return nullptr;
  }
  return best;
}

void Window::Send(Path* path, Read read) {
  const rdma::Cut& cut = places_[read.place].cut;
  const rdma::Piece& piece = cut.pieces[read.piece];
  for (uint32_t i = 0; i < piece.count; ++i) {
    const rdma::LocalSegment& s = cut.segments[piece.first + i];
    segments_[i] = {reinterpret_cast<uint64_t>(s.at), s.bytes,
                    s.range->lkey(path->queue->rail_index(), s.chunk)};
  }
  path->queue->Add(pool_ + piece.offset, path->rkeys[piece.chunk],
                   std::span(segments_).first(piece.count), piece.bytes,
                   read.place << kPieceBits | read.piece);
}

void Window::Sleep() {
  std::vector<pollfd> fds;
  for (Path& path : paths_) {
    if (path.queue->in_flight() == 0) continue;
    if (Status s = path.queue->Arm(); !s.ok()) return Fail(std::move(s));
    fds.push_back({path.queue->fd(), POLLIN, 0});
  }
  // What came before they were armed raises no event.
  if (!Advance()) (void)poll(fds.data(), fds.size(), kLongestSleepMs);
  for (Path& path : paths_) path.queue->Disarm();
}

}  // namespace peercache::perf
