#include "client/attachment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "base/holes.h"
#include "base/thread.h"
#include "version.h"

namespace peercache {
namespace {

// After a failed connect, or a call without answer, calls answer misses at once for this long.
constexpr milliseconds kReconnectPause{200};
// How long the call that then looks whether the node answers again waits for it. A node that lives
// answers an attach in well under a millisecond.
constexpr milliseconds kProbeTimeout{200};
// A node that joins lets an attach wait for 5 s; one that starts takes connections before it
// answers, and takes as long as its memory does.
constexpr milliseconds kAttachTimeout{12'000};
// Start() waits for a node that joins, and little longer.
constexpr milliseconds kStartWait{6'000};
// Between two attaches that a node has refused: it has said why, and somebody has to do something.
constexpr milliseconds kRefusedPause{1'000};
constexpr milliseconds kSayOnceIn{60'000};
// Texts that are remembered, so that many clients of one process say them once.
constexpr size_t kMaxSaid = 64;

// The engine's configuration names something else than a node.
bool IsWrong(Code code) { return code == Code::kInvalidArgument || code == Code::kCorrupt; }

// Whether no client of this process has said it for kSayOnceIn.
bool IsNew(const std::string& text) {
  static std::mutex mutex;
  static std::map<std::string, TimePoint, std::less<>> said;
  const TimePoint now = Clock::now();
  std::lock_guard lock(mutex);
  std::erase_if(said, [now](const auto& item) { return now - item.second >= kSayOnceIn; });
  return said.size() < kMaxSaid && said.emplace(text, now).second;
}

Status SendRegion(Connection* connection, const Region& region, TimePoint deadline) {
  if (region.dma_buf && !connection->can(FrameHeader::kCanDevice)) {
    return Unavailable(fmt::format(
        "the node {} (release {}) does not know device memory: bring it to the release of this "
        "engine ({}), and use host memory until then",
        connection->node(), connection->node_version(), kVersion));
  }
  const MessageType type = !region.dma_buf ? MessageType::kRegion
                           : region.fd     ? MessageType::kDmaBuf
                                           : MessageType::kDevicePointer;
  RegionRequest{region.id, region.fd_offset, region.length}.Encode(&connection->Request(type));
  return connection->Call(static_cast<MessageType>(static_cast<int>(type) + 1), region.fd.get(),
                          deadline);
}

// Here, where it counts as the engine's; the node takes no file that has holes. Not before there is
// a node: an engine without one may never touch it.
Status TakeMemory(const Region& region) {
  if (!region.fd || region.dma_buf) return {};
  return FillHoles(region.fd.get(), region.fd_offset + region.length);
}

Status SendForget(Connection* connection, uint32_t id, TimePoint deadline) {
  RegionRequest{id, 0, 0}.Encode(&connection->Request(MessageType::kRegion));
  return connection->Call(MessageType::kRegionOk, -1, deadline);
}

}  // namespace

Attachment::Attachment(std::string socket, std::string engine, Duration timeout,
                       std::function<void(const Status&)> fault)
    : socket_(std::move(socket)),
      engine_(std::move(engine)),
      timeout_(timeout),
      fault_(std::move(fault)),
      why_(Unavailable(fmt::format("the node at {} has not answered yet", socket_))) {}

Attachment::~Attachment() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    if (life_ != nullptr) life_->Cut();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Status Attachment::Start() {
  // Made here and not by the thread's first line: ThreadSanitizer does not see spdlog's own guard.
  (void)spdlog::default_logger_raw();
  auto thread = StartThread([this] { Keep(); });
  if (!thread.ok()) return thread.status();
  thread_ = std::move(*thread);
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kStartWait, [this] { return tried_; });
  return !attached() && IsWrong(why_.code()) ? why_ : Status();
}

Status Attachment::state() const {
  std::lock_guard lock(mutex_);
  return attached() ? Status() : why_;
}

std::string Attachment::node() const {
  std::lock_guard lock(mutex_);
  return node_;
}

bool Attachment::knows_presence() const {
  std::lock_guard lock(mutex_);
  return attached() && knows_presence_;
}

// ---- the session --------------------------------------------------------------------------------

void Attachment::Keep() {
  for (;;) {
    std::optional<Connection> life;
    bool reached = false;
    const Status made = Attach(&life, &reached);
    if (!made.ok()) {
      if (!AfterFailure(made, reached)) return;
      continue;
    }
    said_absent_ = false;
    life->AwaitEnd();
    std::unique_lock lock(mutex_);
    life_ = nullptr;
    idle_.clear();
    if (session_.exchange(0) != 0) why_ = Unavailable(fmt::format("the node {} is gone", node_));
    // Whoever takes an engine and drops it at once is not asked at once.
    if (changed_.wait_for(lock, kLookEvery, [this] { return stopping_; })) return;
  }
}

Status Attachment::Attach(std::optional<Connection>* life, bool* reached) {
  auto connected = Connection::Connect(socket_);
  if (!connected.ok()) return connected.status();
  *reached = true;
  life->emplace(std::move(*connected));
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return Unavailable("the client is closed");
    life_ = &**life;
  }
  Status made = (*life)->Attach(engine_, 0, Clock::now() + kAttachTimeout);
  if (made.ok()) made = ShareAll(&**life);
  if (!made.ok()) {
    std::lock_guard lock(mutex_);
    life_ = nullptr;
  }
  return made;
}

Status Attachment::ShareAll(Connection* life) {
  const uint64_t session = life->session();
  for (;;) {
    std::optional<Region> region;
    {
      std::unique_lock lock(mutex_);
      auto next = regions_.NextFor(session);
      if (!next.ok()) return next.status();
      region = std::move(*next);
      if (!region) {
        // Whoever registers from now on tells the node himself.
        if (!node_.empty()) reconnects_.fetch_add(1, std::memory_order_relaxed);
        node_ = fmt::format("{} (release {})", life->node(), life->node_version());
        knows_presence_ = life->can(FrameHeader::kCanPresence);
        retry_at_ = {};
        stalled_ = false;
        tried_ = true;
        session_ = session;
        const std::string said = fmt::format("{} at {}; {} bytes of host memory are shared", node_,
                                             socket_, regions_.bytes());
        lock.unlock();
        changed_.notify_all();
        spdlog::info("PeerCache: attached to the node {}", said);
        return {};
      }
    }
    Status sent = TakeMemory(*region);
    if (sent.ok()) sent = SendRegion(life, *region, Clock::now() + kAttachTimeout);
    if (!life->usable()) return sent.Annotate("sharing memory with the node");
    bool wanted = false;
    {
      std::lock_guard lock(mutex_);
      wanted = regions_.Answered(region->id, session, sent.ok());
    }
    if (!sent.ok()) {
      spdlog::warn(
          "PeerCache: the node {} does not take {} bytes of memory that were registered; their "
          "pages {}: {}",
          life->node(), region->length,
          region->dma_buf ? "are misses" : "are copied through the staging ring", sent.message());
      fault_(sent.Annotate("sharing memory with the node again"));
    } else if (!wanted) {
      if (Status s = SendForget(life, region->id, Clock::now() + kAttachTimeout); !s.ok()) return s;
    }
  }
}

bool Attachment::AfterFailure(const Status& why, bool reached) {
  const bool refused = IsWrong(why.code()) || why.code() == Code::kUnauthenticated;
  bool fails_start = false;
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return false;
    why_ = why;
    fails_start = !std::exchange(tried_, true) && IsWrong(why.code());
  }
  changed_.notify_all();
  if (refused && !fails_start) fault_(why);
  if (!fails_start) Say(why, refused, reached);
  const Duration pause = refused || reached ? kRefusedPause : kLookEvery;
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, pause, [this] { return stopping_; });
  return !stopping_;
}

void Attachment::Say(const Status& why, bool refused, bool reached) {
  const bool absent = !refused && !reached;
  if (absent && std::exchange(said_absent_, true)) return;
  if (!IsNew(why.message())) return;
  if (absent) {
    spdlog::warn(
        "PeerCache: this engine works without cache, and attaches as soon as its node is there: {}",
        why.message());
    return;
  }
  spdlog::log(refused ? spdlog::level::err : spdlog::level::warn,
              "PeerCache: this engine works without cache, and tries again, because its node {} "
              "(logged once a minute): {}",
              refused ? "refuses it" : "does not take it now", why.message());
}

void Attachment::Lose(uint64_t session, const Status& why) {
  std::lock_guard lock(mutex_);
  if (session == 0 || session_ != session) return;
  session_ = 0;
  why_ = why;
  idle_.clear();
  if (life_ != nullptr) life_->Cut();
}

// ---- connections --------------------------------------------------------------------------------

Result<Connection> Attachment::Acquire(TimePoint deadline) {
  uint64_t session = 0;
  {
    std::lock_guard lock(mutex_);
    session = session_;
    if (session == 0) return Unavailable(why_.message());
    if (!idle_.empty()) {
      Connection connection = std::move(idle_.back());
      idle_.pop_back();
      return connection;
    }
    const TimePoint now = Clock::now();
    if (now < retry_at_) return Unavailable(last_error_);
    if (stalled_) {
      // This call finds out; others do not wait for it.
      deadline = std::min(deadline, now + kProbeTimeout);
      retry_at_ = deadline;
    }
  }
  auto connection = Connection::Open(socket_, engine_, session, deadline);
  const Code code = connection.status().code();
  if (code == Code::kAborted) Lose(session, connection.status());  // it knows no such session
  std::lock_guard lock(mutex_);
  if (session_ != session)
    return connection.ok() ? Unavailable("the session has ended")
                           : Unavailable(connection.status().message());
  if (!connection.ok()) {
    retry_at_ = Clock::now() + kReconnectPause;
    stalled_ |= code == Code::kDeadlineExceeded;
    last_error_ = connection.status().message();
    return connection;
  }
  retry_at_ = {};
  stalled_ = false;
  return connection;
}

void Attachment::Release(Connection connection) {
  std::lock_guard lock(mutex_);
  if (connection.session() == session_) idle_.push_back(std::move(connection));
}

void Attachment::DropIdle() {
  std::lock_guard lock(mutex_);
  idle_.clear();
}

void Attachment::Stalled(const std::string& node) {
  std::lock_guard lock(mutex_);
  idle_.clear();
  stalled_ = true;
  retry_at_ = Clock::now() + kReconnectPause;
  last_error_ = fmt::format("the node {} does not answer", node);
}

// ---- memory -------------------------------------------------------------------------------------

Result<uint32_t> Attachment::Share(int fd, Region region, Duration limit, DmaBufOk* ways) {
  if (fd != kNoFd) region.fd = UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (fd != kNoFd && !region.fd)
    return FromErrno(fmt::format("duplicating descriptor {} of the memory to share", fd), errno);
  std::optional<TimePoint> deadline;  // begins when the memory is there
  {
    std::lock_guard lock(mutex_);
    region.id = next_region_++;
  }
  for (;;) {
    uint64_t session = 0;
    {
      std::unique_lock lock(mutex_);
      session = session_;
      if (session == 0 && ways != nullptr)
        return Unavailable(why_.message()).Annotate("sharing device memory with the node");
      if (session == 0 || region.KnownTo(session)) {
        const uint32_t id = region.id;
        const auto gone = regions_.Add(std::move(region), session);
        lock.unlock();
        for (const uint32_t old : gone) Forget(old);
        return id;
      }
    }
    if (!deadline) {
      if (Status s = TakeMemory(region); !s.ok()) return s;
      deadline = Clock::now() + limit;
    }
    auto connection = Acquire(*deadline);
    if (!connection.ok()) {
      if (connection.status().code() == Code::kResourceExhausted) return connection.status();
      Lose(session, connection.status());
      continue;
    }
    Status sent = SendRegion(&*connection, region, *deadline);
    if (!connection->usable()) {
      Lose(connection->session(), sent);
      continue;
    }
    if (FrameReader answer = connection->Answer();
        sent.ok() && ways != nullptr && !ways->Decode(&answer))
      sent = Corrupt("malformed DmaBufOk from the node");
    region.offered = connection->session();
    region.taken = sent.ok();
    Release(std::move(*connection));
    if (!sent.ok()) return sent.Annotate("sharing memory with the node");
  }
}

void Attachment::Unshare(uint32_t id) {
  {
    std::lock_guard lock(mutex_);
    if (!regions_.Remove(id, session_)) return;
  }
  Forget(id);
}

Status Attachment::UnshareWithin(uint64_t address, uint64_t length) {
  std::vector<uint32_t> ids;
  {
    std::lock_guard lock(mutex_);
    const Region* cut = nullptr;
    ids = regions_.Within(address, length, &cut);
    if (cut != nullptr) {
      return InvalidArgument(fmt::format(
          "the range {:#x}, {} bytes, ends inside shared memory ({:#x}, {} bytes): name all of it",
          address, length, cut->base, cut->length));
    }
  }
  for (const uint32_t id : ids) Unshare(id);
  return {};
}

void Attachment::Forget(uint32_t id) {
  const uint64_t session = session_;
  const TimePoint deadline = Clock::now() + timeout_;
  auto connection = Acquire(deadline);
  const Status told =
      connection.ok() ? SendForget(&*connection, id, deadline) : connection.status();
  if (connection.ok() && connection->usable()) return Release(std::move(*connection));
  Lose(session, told);  // a session that cannot be told ends, and its regions with it
}

Regions::Place Attachment::Locate(std::span<const Segment> segments,
                                  std::span<WireSegment> wire) const {
  std::lock_guard lock(mutex_);
  return regions_.Locate(session_, segments, wire);
}

}  // namespace peercache
