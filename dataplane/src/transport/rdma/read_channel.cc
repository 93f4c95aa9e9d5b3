// How a batch is read. Begin cuts each page into READs (pieces.h), and adds one for its header
// again. Post sends what has room and rings the doorbell of each queue once; Advance takes
// completions and posts again. Each READ goes to the path with the fewest bytes under way whose
// rail has budget for it (LeastBusy, TakePath). So a slow rail gets less, and no speed is measured
// or configured.
// The second header of a page that used one path is chained behind it, fenced (ChainHeaders). For a
// page over several paths, or after a loss, it is posted when the last piece is there
// (PostHeaders). READs of a lost queue go to other paths only when the device can no longer write
// (TakeBack).
// Rejected: a thread for each rail, whose wake-up costs more than a small batch; fixed shares, for
// ports differ and fail; watching the last byte of a page, for bytes arrive in no order.
#include "transport/rdma/read_channel.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <future>
#include <thread>

namespace peercache::rdma {
namespace {

// Under way on one queue: enough for 400 Gb/s over 80 us, little enough that a slow rail does not
// hold a large part of a batch.
constexpr uint64_t kBytesInFlight = 4 << 20;
// Nor does a single READ.
constexpr uint32_t kLargestRead = kBytesInFlight;
static_assert(kLargestRead <= RailBudget::kBytes);
// What a queue has under way counts no more in the budget of its rail when it brings nothing for
// this long and others bring the whole budget twice meanwhile,
constexpr Duration kSilent = milliseconds(4);
constexpr uint64_t kPassedBy = 2 * RailBudget::kBytes;
// or when the whole rail brings nothing: a port of 10 Gb/s takes 7 ms for the budget.
constexpr Duration kRailSilent = milliseconds(8);
// How long what no engine waits for lets others pass before it takes a turn.
constexpr Duration kYields = milliseconds(5);
// READs of so many bytes stand in no line: records and headers, which something waits for.
constexpr uint32_t kSmallRead = 4096;
// What a rail has to be ahead by before one on another NUMA node is taken: a batch of small pages
// stays near, a large one uses all there is.
constexpr uint64_t kFar = 512 << 10;
// The probe: several packets of the largest MTU.
constexpr uint32_t kProbeBytes = 16 << 10;

ibv_sge Sge(const Registration& range, size_t rail, uint32_t chunk, std::byte* at, uint32_t bytes) {
  return {reinterpret_cast<uint64_t>(at), bytes, range.lkey(rail, chunk)};
}

// That what it has under way does not fill the port. That of a queue of a slow port does.
bool LeavesPortIdle(const ReadQueue& queue, TimePoint now) {
  const Duration silent = now - queue.last_progress();
  return (silent > kSilent && queue.passed_by() >= kPassedBy) ||
         (silent > kRailSilent && now - queue.rail().brought_at() > kRailSilent);
}

Status Outdated(const ReadQueue& queue) {
  return Unavailable(fmt::format("rail {} has another address or device now", queue.rail().name()));
}

}  // namespace

Result<std::unique_ptr<ReadChannel>> ReadChannel::Make(const Rails& rails, uint32_t use) {
  auto channel = std::unique_ptr<ReadChannel>(new ReadChannel());
  channel->classes_ = &rails.classes();
  Status failure = Unavailable("no rail is up");
  bool more = true;
  for (uint32_t round = 0; more; ++round) {
    more = false;
    for (size_t i = 0; i < rails.size(); ++i) {
      if (!rails[i].up() || (use >> i & 1) == 0 || round >= rails[i].queues()) continue;
      more = true;
      auto queue = ReadQueue::Make(&rails[i], i);
      if (queue.ok()) {
        channel->paths_.push_back({std::move(*queue), {}, std::make_unique<RailBudget::Place>()});
      } else {
        failure = queue.status();
        spdlog::warn("{}", failure.ToString());
      }
    }
  }
  if (channel->paths_.empty()) return failure;
  return channel;
}

ConnectRequest ReadChannel::request() const {
  ConnectRequest request;
  for (const Path& path : paths_) request.queues.push_back(path.queue->address());
  return request;
}

Status ReadChannel::Establish(const ConnectOk& peer, TimePoint deadline) {
  if (peer.queues.size() != paths_.size())
    return Corrupt("the peer answered for another number of queue pairs than it was asked for");
  pool_ = peer.pool;
  pool_bytes_ = peer.pool_bytes;
  chunk_bytes_ = peer.chunk_bytes;
  std::vector<QueueAddress> there;
  for (const ConnectOk::Served& served : peer.queues) there.push_back(served.queue);
  classes_->Compare(request().queues, there);
  std::vector<std::future<Status>> connected(paths_.size());
  for (size_t i = 0; i < paths_.size(); ++i) {
    const std::shared_ptr<ReadQueue>& queue = paths_[i].queue;
    if (peer.queues[i].queue.queue == 0) {
      queue->Break();
      continue;
    }
    connected[i] =
        queue->rail().connector().Do([weak = std::weak_ptr(queue), address = peer.queues[i].queue] {
          const auto alive = weak.lock();
          return alive ? alive->Connect(address) : Unavailable("it was given up");
        });
  }
  Status failure = Unavailable("the peer has no rail for this node's");
  max_segments_ = UINT32_MAX;
  max_message_bytes_ = kLargestRead;
  for (size_t i = 0; i < paths_.size(); ++i) {
    Path& path = paths_[i];
    if (!connected[i].valid()) continue;
    if (connected[i].wait_until(deadline) == std::future_status::timeout) {
      failure = DeadlineExceeded(fmt::format("rail {}: no answer from the peer's address there",
                                             path.queue->rail().name()));
      Abandon(&path, failure);
      continue;
    }
    if (Status s = connected[i].get(); !s.ok()) {
      failure = s;
      Lose(&path, s);
      continue;
    }
    path.rkeys = peer.queues[i].rkeys;
    max_segments_ = std::min(max_segments_, path.queue->max_segments());
    max_message_bytes_ = std::min(max_message_bytes_, path.queue->device()->max_message_bytes);
  }
  std::erase_if(paths_, [](const Path& path) { return path.queue == nullptr; });
  segments_.resize(max_segments_ == UINT32_MAX ? 0 : max_segments_);
  return queues() > 0 ? Status() : failure;
}

Status ReadChannel::Probe(Bytes scratch, const RegisteredMemory::Ranges& ranges,
                          TimePoint deadline) {
  const Registration* const memory = RegisteredMemory::Find(ranges, scratch);
  if (memory == nullptr) return Internal("the memory to try a path with is not registered");
  const auto bytes = static_cast<uint32_t>(
      std::min<uint64_t>({kProbeBytes, pool_bytes_, chunk_bytes_, scratch.size()}));
  for (Path& path : paths_) {
    if (path.queue->broken()) continue;
    if (memory->KnownTo(path.queue->rail_index()) != path.queue->device()) {
      Lose(&path, Outdated(*path.queue));
      continue;
    }
    const ibv_sge segment =
        Sge(*memory, path.queue->rail_index(),
            static_cast<uint32_t>(memory->ChunkOf(scratch.data())), scratch.data(), bytes);
    path.queue->rail().budget().Take(bytes);
    path.queue->Add(pool_, path.rkeys[0], std::span(&segment, 1), bytes, 0);
    if (Status s = path.queue->Ring(); !s.ok()) Lose(&path, s);
  }
  const auto waiting = [&] {
    return std::any_of(paths_.begin(), paths_.end(),
                       [](const Path& path) { return path.queue->in_flight() > 0; });
  };
  while (waiting()) {
    const TimePoint now = Clock::now();
    TakeBack(now);
    for (Path& path : paths_) {
      if (path.queue->broken() || path.queue->in_flight() == 0) continue;
      Status s = path.queue->Harvest([](uint32_t) {});
      if (s.ok() && path.queue->in_flight() > 0 && now >= deadline) {
        s = DeadlineExceeded(fmt::format(
            "rail {}: a READ of {} bytes brought nothing: is the MTU of the network as large as "
            "the interfaces', and is UDP port 4791 open?",
            path.queue->rail().name(), bytes));
      }
      if (!s.ok()) Lose(&path, s);
    }
    if (waiting()) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return queues() > 0 ? Status() : Unavailable("no rail reaches the peer");
}

size_t ReadChannel::queues() const {
  return static_cast<size_t>(std::count_if(paths_.begin(), paths_.end(),
                                           [](const Path& path) { return !path.queue->broken(); }));
}

uint32_t ReadChannel::working_rails() const {
  uint32_t rails = 0;
  for (const Path& path : paths_)
    if (!path.queue->broken()) rails |= 1u << path.queue->rail_index();
  return rails;
}

uint32_t ReadChannel::whole_rails() const {
  std::array<uint32_t, kMaxRails> queues{};
  uint32_t rails = 0;
  for (const Path& path : paths_) {
    const size_t rail = path.queue->rail_index();
    if (!path.queue->broken() && ++queues[rail] == path.queue->rail().queues()) rails |= 1u << rail;
  }
  return rails;
}

void ReadChannel::Begin(std::span<const PageRead> pages, const RegisteredMemory::Ranges& ranges,
                        std::span<SlotHeader> headers, std::span<PageState> states, Duration stall,
                        TimePoint now, bool background) {
  pages_ = pages;
  headers_ = headers;
  states_ = states;
  stall_ = stall;
  cut_.pieces.clear();
  cut_.segments.clear();
  again_.clear();
  complete_.clear();
  posting_ = true;
  background_ = background;
  now_ = now;
  yields_until_ = now + kYields;
  next_ = 0;
  progress_.assign(pages.size(), {});
  left_ = 0;
  finished_ = now;
  for (Path& path : paths_)
    if (!path.queue->broken() && path.queue->outdated()) Lose(&path, Outdated(*path.queue));
  const CutLimits limits{max_segments_, max_message_bytes_, chunk_bytes_};
  for (size_t i = 0; i < pages.size(); ++i) {
    const PageRead& page = pages[i];
    HeaderPlaces header;
    if (!page.bare)
      header = {std::as_writable_bytes(headers.subspan(2 * i, 1)),
                std::as_writable_bytes(headers.subspan(2 * i + 1, 1))};
    const uint64_t slot_bytes = header.first.size() + uint64_t{page.length};
    if (page.offset > pool_bytes_ || slot_bytes > pool_bytes_ - page.offset) {
      states[i] = PageState::kStale;  // of another life of the peer, with another pool
      continue;
    }
    const size_t before = cut_.pieces.size();
    if (!CutPage(static_cast<uint32_t>(i), page.offset, header, page.to, limits, ranges, &cut_)) {
      states[i] = PageState::kUnregistered;
      continue;
    }
    Progress& progress = progress_[i];
    progress.missing = static_cast<uint32_t>(cut_.pieces.size() - before);
    if (!page.bare) {
      --progress.missing;
      progress.header = static_cast<uint32_t>(cut_.pieces.size()) - 1;
      if (cut_.pieces[progress.header - 1].again) {
        states[i] = PageState::kFailed;  // a border of the peer's chunks is within the header
        cut_.pieces.resize(before);
        continue;
      }
    }
    states[i] = PageState::kPending;
    ++left_;
  }
  FindReach();
  if (left_ > 0 && !AnyReaches()) FailPending();
  Post();
}

void ReadChannel::FindReach() {
  reached_.clear();
  for (const LocalSegment& s : cut_.segments) {
    if (std::find(reached_.begin(), reached_.end(), s.range) == reached_.end())
      reached_.push_back(s.range);
  }
  for (Path& path : paths_) {
    path.reaches = std::all_of(reached_.begin(), reached_.end(), [&](const Registration* range) {
      return range->KnownTo(path.queue->rail_index()) == path.queue->device();
    });
  }
}

bool ReadChannel::AnyReaches() const {
  return std::any_of(paths_.begin(), paths_.end(),
                     [](const Path& path) { return path.reaches && !path.queue->broken(); });
}

ReadChannel::Path* ReadChannel::LeastBusy(const Piece& piece, uint32_t skip) {
  // The header's segment comes first, and lies elsewhere.
  const Registration& destination = *cut_.segments[piece.first + piece.count - 1].range;
  Path* best = nullptr;
  uint64_t least = 0;
  for (Path& path : paths_) {
    const ReadQueue& queue = *path.queue;
    if ((skip >> (&path - paths_.data()) & 1) != 0) continue;
    if (queue.broken() || !path.reaches || queue.room() == 0) continue;
    const uint64_t bytes = queue.bytes_in_flight();
    // Headers have the other half, so that they find room behind their pages.
    if (!piece.again && (bytes >= kBytesInFlight || 2 * queue.in_flight() >= queue.capacity()))
      continue;
    const bool near = destination.IsNear(queue.rail_index());
    const uint64_t cost = near ? bytes : kFar + 2 * bytes;
    if (best != nullptr && cost >= least) continue;
    best = &path;
    least = cost;
  }
  return best;
}

bool ReadChannel::TakeBytes(Path* path, uint32_t bytes) const {
  RailBudget& budget = path->queue->rail().budget();
  if (bytes <= kSmallRead) {
    budget.Take(bytes);
    return true;
  }
  RailBudget::Place& place = *path->place;
  if (background_ && now_ < yields_until_ && !place.in_line() && !place.granted())
    return budget.TryTakeBehind(bytes);
  if (place.bytes() < bytes) place.Leave();
  if (place.in_line()) return false;
  if (!place.granted()) {
    if (budget.TryTake(bytes)) return true;
    budget.StandInLine(&place, bytes);
    if (!place.granted()) return false;
  }
  const uint64_t granted = place.bytes();
  place.Use();
  budget.Give(granted - bytes);
  return true;
}

ReadChannel::Path* ReadChannel::TakePath(const Piece& piece) {
  uint32_t refused = 0;
  for (;;) {
    Path* const path = LeastBusy(piece, refused);
    if (path == nullptr || TakeBytes(path, piece.bytes)) return path;
    refused |= 1u << (path - paths_.data());
  }
}

void ReadChannel::LeaveLines() {
  for (Path& path : paths_) path.place->Leave();
}

bool ReadChannel::in_line() const {
  return std::any_of(paths_.begin(), paths_.end(),
                     [](const Path& path) { return path.place->in_line(); });
}

bool ReadChannel::WakeBy(int event) {
  bool all = true;
  for (Path& path : paths_) all &= path.place->WakeBy(event);
  return all;
}

void ReadChannel::Send(Path* path, uint32_t index, ReadQueue::Order order) {
  const Piece& piece = cut_.pieces[index];
  const size_t rail = path->queue->rail_index();
  for (uint32_t i = 0; i < piece.count; ++i) {
    const LocalSegment& s = cut_.segments[piece.first + i];
    segments_[i] = Sge(*s.range, rail, s.chunk, s.at, s.bytes);
  }
  path->queue->Add(pool_ + piece.offset, path->rkeys[piece.chunk],
                   std::span(segments_).first(piece.count), piece.bytes, index, order);
  Progress& progress = progress_[piece.page];
  const auto number = static_cast<uint32_t>(path - paths_.data());
  if (piece.again) {
    progress.asked = true;
  } else {
    progress.path = progress.path == kNone || progress.path == number ? number : kSeveral;
  }
}

void ReadChannel::Post() {
  for (bool lost = true; lost;) {
    lost = false;
    PostHeaders();
    if (posting_) PostPages();
    for (Path& path : paths_) {
      if (path.queue->broken()) continue;
      if (Status s = path.queue->Ring(); !s.ok()) {
        Lose(&path, s);
        lost = true;
      }
    }
  }
}

void ReadChannel::PostHeaders() {
  while (!complete_.empty()) {
    const uint32_t piece = progress_[complete_.back()].header;
    Path* path = TakePath(cut_.pieces[piece]);
    if (path == nullptr) return;
    Send(path, piece);
    complete_.pop_back();
  }
}

void ReadChannel::PostPages() {
  bool posted = false;
  while (!again_.empty() || next_ < cut_.pieces.size()) {
    const uint32_t piece = again_.empty() ? static_cast<uint32_t>(next_) : again_.back();
    if (!cut_.pieces[piece].again) {
      Path* path = TakePath(cut_.pieces[piece]);
      if (path == nullptr) return;
      Send(path, piece);
      posted = true;
      yields_until_ = now_ + kYields;
    }
    if (again_.empty()) {
      ++next_;
    } else {
      again_.pop_back();
    }
  }
  LeaveLines();
  if (posted) ChainHeaders();
}

// model: header_last
void ReadChannel::ChainHeaders() {
  uint32_t fenced = 0;  // paths; what follows a fenced READ is held back with it
  for (const Progress& progress : progress_) {
    if (progress.missing == 0 || progress.asked || progress.path >= paths_.size() ||
        progress.header == kNone)
      continue;
    Path& path = paths_[progress.path];
    if (path.queue->broken() || path.queue->room() == 0) continue;
    const uint32_t bit = 1u << progress.path;
    const bool first = (fenced & bit) == 0;
    path.queue->rail().budget().Take(sizeof(SlotHeader));
    Send(&path, progress.header, first ? ReadQueue::Order::kFence : ReadQueue::Order::kAny);
    fenced |= bit;
  }
}

bool ReadChannel::done() const { return left_ == 0 && Quiet(); }

bool ReadChannel::Quiet() const {
  return std::none_of(paths_.begin(), paths_.end(), [](const Path& path) {
    return path.queue->in_flight() > 0 || path.queue->stopping();
  });
}

bool ReadChannel::TakeBack(TimePoint now) {
  bool any = false;
  for (Path& path : paths_) {
    // Establish forgets some before it drops their paths.
    if (path.queue == nullptr || !path.queue->stopping()) continue;
    any |= path.queue->Over(now, [&](uint32_t piece) { PieceLost(piece); });
  }
  if (left_ == 0 || !posting_) again_.clear();
  if (left_ == 0) complete_.clear();
  return any;
}

bool ReadChannel::Advance(TimePoint now) {
  now_ = now;
  bool moved = TakeBack(now);
  for (Path& path : paths_) {
    if (path.queue->broken() || path.queue->in_flight() == 0) continue;
    uint64_t reads = 0, bytes = 0;
    Status s = path.queue->Harvest([&](uint32_t piece) {
      ++reads;
      bytes += cut_.pieces[piece].bytes;
      PieceDone(piece);
    });
    if (reads > 0) {
      moved = true;
      // Read after the completions were: what is in time by this clock was in time.
      finished_ = Clock::now();
      path.queue->rail().CountReads(reads, bytes, finished_);
    }
    if (s.ok() && path.queue->in_flight() > 0) {
      if (!path.queue->rail().up()) {
        s = Unavailable(fmt::format("rail {} went down", path.queue->rail().name()));
      } else if (path.queue->outdated()) {
        s = Outdated(*path.queue);
      } else if (now - path.queue->last_progress() > stall_) {
        s = DeadlineExceeded(fmt::format("rail {}: READs made no progress for {} ms",
                                         path.queue->rail().name(), ToMillis(stall_)));
      } else if (LeavesPortIdle(*path.queue, now)) {
        path.queue->Uncount();
      }
    }
    if (s.code() == Code::kInvalidArgument) {
      // Every other rail would break by it as well.
      spdlog::debug("the memory that pages are read into is at fault: {}", s.ToString());
      Fail();
      return true;
    }
    if (!s.ok()) {
      Lose(&path, s);
      moved = true;
    }
  }
  const bool granted = std::any_of(paths_.begin(), paths_.end(),
                                   [](const Path& path) { return path.place->granted(); });
  if (posting_ ? moved || granted || background_ || !again_.empty() || !complete_.empty()
               : !complete_.empty())
    Post();
  if (!posting_ && left_ > 0 && Quiet()) FailPending();
  return moved;
}

void ReadChannel::StopPosting() {
  posting_ = false;
  again_.clear();
  LeaveLines();
  if (left_ > 0 && complete_.empty() && Quiet()) FailPending();
}

void ReadChannel::PieceDone(uint32_t index) {
  const Piece& piece = cut_.pieces[index];
  const PageRead& page = pages_[piece.page];
  Progress& progress = progress_[piece.page];
  if (!piece.again) {
    if (--progress.missing != 0) return;
    if (page.bare) return PageDone(piece.page, PageState::kRead);
    if (progress.asked) return;
    if (!IsOf(headers_[2 * piece.page], page)) return PageDone(piece.page, PageState::kStale);
    return complete_.push_back(piece.page);
  }
  const bool was = IsOf(headers_[2 * piece.page], page);
  const bool is = IsOf(headers_[2 * piece.page + 1], page);
  PageDone(piece.page, was && is ? PageState::kRead : PageState::kStale);
}

void ReadChannel::PageDone(uint32_t page, PageState state) {
  --left_;
  states_[page] = state;
}

void ReadChannel::PieceLost(uint32_t index) {
  if (left_ == 0) return;  // of a probe, or of a batch that is given up
  const Piece& piece = cut_.pieces[index];
  if (!piece.again) return again_.push_back(index);
  // Of a page that was lost with it, it is asked for anew behind that.
  Progress& progress = progress_[piece.page];
  progress.asked = false;
  if (progress.missing == 0) complete_.push_back(piece.page);
}

void ReadChannel::Lose(Path* path, const Status& why) {
  ReadQueue& queue = *path->queue;
  if (queue.broken()) return;
  path->place->Leave();
  const TimePoint now = Clock::now();
  queue.Stop(now);
  TakeBack(now);  // at once, as a rule
  queue.rail().CountFailure();
  NoteLoss(queue.rail_index());
  spdlog::debug("a queue pair is lost: {}", why.ToString());
  if (left_ > 0 && !AnyReaches()) FailPending();
}

void ReadChannel::Abandon(Path* path, const Status& why) {
  path->queue->rail().CountFailure();
  spdlog::debug("a queue pair is given up: {}", why.ToString());
  const size_t rail = path->queue->rail_index();
  path->queue.reset();
  NoteLoss(rail);
}

void ReadChannel::NoteLoss(size_t rail) {
  const bool left = std::any_of(paths_.begin(), paths_.end(), [rail](const Path& path) {
    return path.queue != nullptr && path.queue->rail_index() == rail && !path.queue->broken();
  });
  if (!left) lost_rails_ |= 1u << rail;
}

void ReadChannel::FailPending() {
  for (size_t i = 0; i < pages_.size(); ++i)
    if (states_[i] == PageState::kPending) states_[i] = PageState::kFailed;
  left_ = 0;
  again_.clear();
  complete_.clear();
  next_ = cut_.pieces.size();
  LeaveLines();
}

void ReadChannel::Fail() {
  const TimePoint now = Clock::now();
  for (Path& path : paths_) path.queue->Stop(now);
  FailPending();
  TakeBack(now);
}

void ReadChannel::AppendFds(std::vector<int>* fds) const {
  for (const Path& path : paths_)
    if (path.queue->in_flight() > 0) fds->push_back(path.queue->fd());
}

void ReadChannel::Arm() {
  for (Path& path : paths_) {
    if (path.queue->in_flight() == 0) continue;
    if (Status s = path.queue->Arm(); !s.ok()) Lose(&path, s);
  }
}

void ReadChannel::Disarm() {
  for (Path& path : paths_)
    if (path.queue->device() != nullptr) path.queue->Disarm();
}

}  // namespace peercache::rdma
