#include "client/client.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>
#include <optional>

#include "base/copy.h"
#include "base/fd.h"
#include "client/connection.h"
#include "client/staging.h"
#include "version.h"

namespace peercache {
namespace {

// A node moves pages at least this fast or is given up: bounds every call by its size.
constexpr uint64_t kMinBytesPerMilli = 64 << 10;
// After a failed connect, or a call without answer, calls answer misses at once for this long.
constexpr milliseconds kReconnectPause{200};
// How long the call that then looks whether the node answers again waits for it. A node that lives
// answers an attach in well under a millisecond.
constexpr milliseconds kProbeTimeout{200};
// How often it is said that a call waits for a node that was stopped while it wrote into a page.
constexpr milliseconds kSayAgain{10'000};
constexpr milliseconds kAttachTimeout{12'000};

// Of a region that is an address of this process.
constexpr int kNoFd = -2;

struct Region {
  uint32_t id = 0;
  UniqueFd fd{};
  uint64_t base = 0, length = 0, fd_offset = 0;
  bool dma_buf = false;

  bool Overlaps(uint64_t address, uint64_t size) const {
    return base < address + size && address < base + length;
  }
};

}  // namespace

class Client::Impl {
 public:
  explicit Impl(ClientOptions options)
      : options_(std::move(options)),
        staging_(
            options_.staging_bytes,
            [this](const MappedRegion& m) {
              return AddRegion(m.fd(),
                               {.base = reinterpret_cast<uint64_t>(m.data()), .length = m.size()},
                               options_.timeout);
            },
            [this](uint32_t id) { DropRegion(id); }) {}

  Status Start() {
    auto connection = Acquire(Clock::now() + kAttachTimeout);
    if (!connection.ok()) return connection.status();
    Release(std::move(*connection));
    return {};
  }

  // `ways`: of a dma-buf.
  Result<uint32_t> AddRegion(int fd, Region region, Duration limit, DmaBufOk* ways = nullptr) {
    if (fd != kNoFd) region.fd = UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (fd != kNoFd && !region.fd)
      return FromErrno(fmt::format("duplicating descriptor {} of the memory to share", fd), errno);
    const TimePoint deadline = Clock::now() + limit;
    auto connection = Acquire(deadline);
    if (!connection.ok()) return connection.status();
    {
      std::lock_guard lock(mutex_);
      region.id = next_region_++;
    }
    Status sent = SendRegion(&*connection, region, deadline);
    if (FrameReader answer = connection->Answer();
        sent.ok() && ways != nullptr && !ways->Decode(&answer))
      sent = Corrupt("malformed DmaBufOk from the node");
    if (sent.code() == Code::kDeadlineExceeded) Stalled(connection->node());
    if (connection->usable()) Release(std::move(*connection));
    if (!sent.ok()) return sent.Annotate("sharing memory with the node");
    const uint32_t id = region.id;
    for (const uint32_t gone : Replace(std::move(region))) DropRegion(gone);
    return id;
  }

  Result<DmaBufWays> AddDevice(int fd, uint64_t address, size_t length, uint64_t offset);

  // Adds a region. Whatever was mapped at its addresses before is mapped there no more, and pages
  // must not go to it: those regions leave, and are returned for the node to forget.
  std::vector<uint32_t> Replace(Region region) {
    std::vector<uint32_t> gone;
    std::lock_guard lock(mutex_);
    std::erase_if(regions_, [&](const Region& old) {
      const bool overlaps = old.Overlaps(region.base, region.length);
      if (overlaps) gone.push_back(old.id);
      return overlaps;
    });
    regions_.push_back(std::move(region));
    return gone;
  }

  void DropRegion(uint32_t id) {
    {
      std::lock_guard lock(mutex_);
      std::erase_if(regions_, [id](const Region& r) { return r.id == id; });
    }
    const TimePoint deadline = Clock::now() + options_.timeout;
    auto connection = Acquire(deadline);
    if (!connection.ok()) return;  // the session ends with its connections, and so do its regions
    RegionRequest{id, 0, 0}.Encode(&connection->Request(MessageType::kRegion));
    (void)connection->Call(MessageType::kRegionOk, -1, deadline);
    if (connection->usable()) Release(std::move(*connection));
  }

  enum class Direction { kSet, kGet };

  void Move(Direction direction, std::span<const Key> keys, std::span<const Segment> segments,
            size_t per_page, uint64_t tag, std::span<uint8_t> ok) {
    std::fill(ok.begin(), ok.end(), uint8_t{0});
    if (keys.empty()) return;
    if (per_page == 0 || per_page > kMaxSegmentsPerPage ||
        segments.size() != keys.size() * per_page || ok.size() != keys.size()) {
      Fault(InvalidArgument(fmt::format(
          "{} keys with {} segments of {} a page: the counts do not fit (at most {} a page)",
          keys.size(), segments.size(), per_page, kMaxSegmentsPerPage)));
      return;
    }
    const size_t max_pages =
        std::min<size_t>(kMaxItems, kMaxBody / 2 / (per_page * sizeof(WireSegment) + 32));
    for (size_t at = 0; at < keys.size();) {
      size_t count = std::min(max_pages, keys.size() - at);
      std::vector<WireSegment> wire(count * per_page);
      // Leading pages that lie in registered regions go as they are, those in device memory apart
      // from the others; the rest goes through staging.
      size_t direct = 0;
      Place first = Place::kUnknown;
      while (direct < count) {
        const Place place = Locate(segments.subspan((at + direct) * per_page, per_page),
                                   std::span(wire).subspan(direct * per_page, per_page));
        if (direct == 0) first = place;
        if (place != first || first == Place::kUnknown || first == Place::kNowhere) break;
        ++direct;
      }
      if (first == Place::kNowhere) {
        Fault(InvalidArgument("a page lies in device memory in part, or beyond its region"));
        ++at;
        continue;
      }
      if (direct > 0) {
        wire.resize(direct * per_page);
        Request(direction, keys.subspan(at, direct), wire, per_page, tag, ok.subspan(at, direct),
                nullptr);
        at += direct;
        continue;
      }
      at += MoveStaged(direction, keys.subspan(at, count),
                       segments.subspan(at * per_page, count * per_page), per_page, tag,
                       ok.subspan(at, count));
    }
    Count(direction, segments, per_page, ok);
  }

  size_t Exists(std::span<const Key> keys) {
    size_t hits = 0;
    for (size_t at = 0; at < keys.size(); at += kMaxItems) {
      const auto chunk = keys.subspan(at, std::min<size_t>(kMaxItems, keys.size() - at));
      const size_t found = ExistsChunk(chunk);
      hits += found;
      if (found < chunk.size()) break;
    }
    std::lock_guard lock(mutex_);
    stats_.exists_pages += keys.size();
    stats_.exists_hits += hits;
    return hits;
  }

  Status Clear(uint64_t tag) {
    const TimePoint deadline = Clock::now() + options_.timeout;
    auto connection = Acquire(deadline);
    if (!connection.ok()) {
      Fault(connection.status());
      return connection.status();
    }
    connection->Request(MessageType::kClear).Put(tag);
    Status s = connection->Call(MessageType::kClearOk, -1, deadline);
    if (connection->usable()) Release(std::move(*connection));
    if (!s.ok()) Fault(s.Annotate("clear"));
    return s;
  }

  ClientStats stats() const {
    std::lock_guard lock(mutex_);
    return stats_;
  }

 private:
  // ---- connections --------------------------------------------------------------------------
  Result<Connection> Acquire(TimePoint deadline) {
    uint64_t session = 0;
    bool probe = false;
    {
      std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        Connection connection = std::move(idle_.back());
        idle_.pop_back();
        return connection;
      }
      const TimePoint now = Clock::now();
      if (now < retry_at_) return Unavailable(last_connect_error_);
      if (stalled_) {
        // This call finds out; others do not wait for it.
        probe = true;
        deadline = std::min(deadline, now + kProbeTimeout);
        retry_at_ = deadline;
      }
    }
    // One thread at a time makes or remakes the session; others wait and then join it.
    std::lock_guard opening(opening_);
    {
      std::lock_guard lock(mutex_);
      if (!probe && Clock::now() < retry_at_) return Unavailable(last_connect_error_);
      session = session_;
    }
    auto connection = Connection::Open(options_.socket, options_.engine, session, deadline);
    if (!connection.ok() && connection.status().code() == Code::kAborted) {
      connection = Connection::Open(options_.socket, options_.engine, 0, deadline);
    }
    if (connection.ok() && connection->session() != session) {
      if (Status s = Restore(&*connection, deadline); !s.ok()) connection = s;
    }
    std::lock_guard lock(mutex_);
    if (!connection.ok()) {
      retry_at_ = Clock::now() + kReconnectPause;
      stalled_ |= connection.status().code() == Code::kDeadlineExceeded;
      last_connect_error_ = connection.status().message();
      return connection;
    }
    retry_at_ = {};
    stalled_ = false;
    if (session != 0 && connection->session() != session) ++stats_.reconnects;
    session_ = connection->session();
    return connection;
  }

  // Shares every region again in the new session.
  Status Restore(Connection* connection, TimePoint deadline) {
    std::vector<Region> copies;
    {
      std::lock_guard lock(mutex_);
      for (const Region& r : regions_) {
        UniqueFd fd(r.fd ? fcntl(r.fd.get(), F_DUPFD_CLOEXEC, 0) : -1);
        if (r.fd && !fd) return FromErrno("duplicating the descriptor of shared memory", errno);
        copies.push_back({r.id, std::move(fd), r.base, r.length, r.fd_offset, r.dma_buf});
      }
      idle_.clear();  // they belong to the session that is gone
    }
    for (const Region& region : copies) {
      const Status s = SendRegion(connection, region, deadline);
      if (s.ok()) continue;
      if (!region.dma_buf || !connection->usable()) return s;
      // This node has no way to device memory that the one before had: pages there are misses.
      Fault(s.Annotate("sharing device memory again"));
    }
    return {};
  }

  static Status SendRegion(Connection* connection, const Region& region, TimePoint deadline) {
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

  // After a broken connection: its siblings most likely broke with it.
  void DropIdle() {
    std::lock_guard lock(mutex_);
    idle_.clear();
  }

  // The node has not answered in time.
  void Stalled(const std::string& node) {
    std::lock_guard lock(mutex_);
    idle_.clear();
    stalled_ = true;
    retry_at_ = Clock::now() + kReconnectPause;
    last_connect_error_ = fmt::format("the node {} does not answer", node);
  }

  void Release(Connection connection) {
    std::lock_guard lock(mutex_);
    if (connection.session() == session_) idle_.push_back(std::move(connection));
  }

  // ---- moving pages -------------------------------------------------------------------------
  // Of a page: all in host memory that is shared, all in device memory, neither, and what must not
  // be touched here since some of it is device memory.
  enum class Place : uint8_t { kHost, kDevice, kUnknown, kNowhere };
  Place Locate(std::span<const Segment> segments, std::span<WireSegment> wire) const {
    std::lock_guard lock(mutex_);
    const auto unknown = [&] {
      for (const Segment& s : segments)
        for (const Region& r : regions_)
          if (r.dma_buf && r.Overlaps(s.address, s.length)) return Place::kNowhere;
      return Place::kUnknown;
    };
    std::optional<bool> device;
    for (size_t i = 0; i < segments.size(); ++i) {
      const Segment& s = segments[i];
      const auto region = std::find_if(regions_.begin(), regions_.end(), [&](const Region& r) {
        return s.address >= r.base && s.address - r.base <= r.length &&
               s.length <= r.length - (s.address - r.base);
      });
      if (region == regions_.end() || s.length > UINT32_MAX) return unknown();
      if (device.value_or(region->dma_buf) != region->dma_buf) return unknown();
      device = region->dma_buf;
      wire[i] = {s.address - region->base, region->id, static_cast<uint32_t>(s.length)};
    }
    return device.value_or(false) ? Place::kDevice : Place::kHost;
  }

  TimePoint DeadlineFor(uint64_t bytes) const {
    return Clock::now() + options_.timeout +
           milliseconds(static_cast<int64_t>(bytes / kMinBytesPerMilli));
  }

  void Request(Direction direction, std::span<const Key> keys, std::span<const WireSegment> wire,
               size_t per_page, uint64_t tag, std::span<uint8_t> ok, bool* poisoned) {
    uint64_t bytes = 0;
    for (const WireSegment& s : wire) bytes += s.length;
    const bool set = direction == Direction::kSet;
    // A pooled connection may have died with a node that restarted: one more try with a new one.
    for (int attempt = 0; attempt < 2; ++attempt) {
      const TimePoint deadline = DeadlineFor(bytes);
      auto connection = Acquire(deadline);
      if (!connection.ok()) {
        Fault(connection.status());
        return;
      }
      EncodePages(tag, static_cast<uint32_t>(per_page), keys, wire,
                  &connection->Request(set ? MessageType::kSet : MessageType::kGet));
      const Status called =
          connection->Call(set ? MessageType::kSetOk : MessageType::kGetOk, -1, deadline);
      if (called.ok()) {
        std::vector<uint8_t> flags;
        FrameReader reader = connection->Answer();
        if (DecodeFlags(&reader, &flags) && flags.size() == ok.size()) {
          std::copy(flags.begin(), flags.end(), ok.begin());
          Release(std::move(*connection));
        } else {
          Fault(Corrupt("malformed answer from the node"));
        }
        return;
      }
      if (called.code() == Code::kDeadlineExceeded) {
        connection->Revoke();
        Stalled(connection->node());
        // Of a set, the node reads what it will not store; that harms nobody.
        if (!set && poisoned != nullptr) *poisoned = !connection->LetGo({});
        if (!set && poisoned == nullptr) AwaitLetGo(&*connection);
      }
      if (connection->usable()) Release(std::move(*connection));
      if (called.code() != Code::kUnavailable || attempt == 1) {
        Fault(called.Annotate(set ? "set" : "get"));
        return;
      }
      DropIdle();
    }
  }

  // Without limit: see client.h.
  static void AwaitLetGo(Connection* connection) {
    while (!connection->LetGo(kSayAgain)) {
      spdlog::error(
          "the node {} was stopped while it wrote into a page of this engine, which waits until it "
          "goes on or is gone; let it go on (SIGCONT), or restart peercached",
          connection->node());
    }
  }

  // Moves as many leading pages as fit one lane; returns how many.
  size_t MoveStaged(Direction direction, std::span<const Key> keys,
                    std::span<const Segment> segments, size_t per_page, uint64_t tag,
                    std::span<uint8_t> ok) {
    auto page_bytes = [&](size_t page) {
      size_t total = 0;
      for (const Segment& s : segments.subspan(page * per_page, per_page)) total += s.length;
      return total;
    };
    auto loan = staging_.Borrow(page_bytes(0));
    if (!loan.ok()) {
      Fault(loan.status());
      return keys.size();
    }
    Staging::Lane& lane = loan->lane();
    std::vector<WireSegment> wire;
    size_t pages = 0, used = 0;
    std::vector<WireSegment> nowhere(per_page);
    // The caller has looked at the first page; one further on may lie in device memory, which must
    // not be touched here.
    const auto stages = [&](size_t page) {
      return page == 0 ||
             Locate(segments.subspan(page * per_page, per_page), nowhere) == Place::kUnknown;
    };
    while (pages < keys.size() && used + page_bytes(pages) <= lane.memory.size() && stages(pages)) {
      const size_t bytes = page_bytes(pages++);
      if (bytes > UINT32_MAX) break;
      wire.push_back({used, lane.region, static_cast<uint32_t>(bytes)});
      used += bytes;
    }
    auto each_page = [&](auto&& copy) {
      for (size_t p = 0; p < wire.size(); ++p) {
        copy(p, lane.memory.bytes().subspan(wire[p].offset, wire[p].length));
      }
    };
    if (direction == Direction::kSet) {
      each_page([&](size_t p, Bytes staged) {
        for (const Segment& s : segments.subspan(p * per_page, per_page)) {
          std::memcpy(staged.data(), reinterpret_cast<const void*>(s.address), s.length);
          staged = staged.subspan(s.length);
        }
      });
    }
    bool poisoned = false;
    Request(direction, keys.first(wire.size()), wire, 1, tag, ok.first(wire.size()), &poisoned);
    if (direction == Direction::kGet && !poisoned) {
      each_page([&](size_t p, Bytes staged) {
        if (!ok[p]) return;
        for (const Segment& s : segments.subspan(p * per_page, per_page)) {
          std::memcpy(reinterpret_cast<void*>(s.address), staged.data(), s.length);
          staged = staged.subspan(s.length);
        }
      });
    }
    if (poisoned) loan->Discard();
    std::lock_guard lock(mutex_);
    stats_.staged_bytes += used;
    return pages;
  }

  size_t ExistsChunk(std::span<const Key> keys) {
    for (int attempt = 0; attempt < 2; ++attempt) {
      const TimePoint deadline = Clock::now() + options_.timeout;
      auto connection = Acquire(deadline);
      if (!connection.ok()) {
        Fault(connection.status());
        return 0;
      }
      EncodeKeys(keys, &connection->Request(MessageType::kExists));
      const Status called =
          connection->Call(MessageType::kExistsOk, -1, deadline, Connection::Wait::kAwake);
      if (called.ok()) {
        FrameReader reader = connection->Answer();
        const auto hits = reader.Get<uint32_t>();
        if (reader.AtEnd() && hits <= keys.size()) {
          Release(std::move(*connection));
          return hits;
        }
        Fault(Corrupt("malformed answer from the node"));
        return 0;
      }
      if (called.code() == Code::kDeadlineExceeded) Stalled(connection->node());
      if (connection->usable()) Release(std::move(*connection));
      if (called.code() != Code::kUnavailable || attempt == 1) {
        Fault(called.Annotate("exists"));
        return 0;
      }
      DropIdle();
    }
    return 0;
  }

  // ---- counting -----------------------------------------------------------------------------
  void Fault(const Status& status) {
    std::lock_guard lock(mutex_);
    ++stats_.faults;
    stats_.last_fault = status.ToString();
  }

  void Count(Direction direction, std::span<const Segment> segments, size_t per_page,
             std::span<const uint8_t> ok) {
    uint64_t pages = 0, bytes = 0;
    for (size_t p = 0; p < ok.size(); ++p) {
      if (!ok[p]) continue;
      ++pages;
      for (const Segment& s : segments.subspan(p * per_page, per_page)) bytes += s.length;
    }
    std::lock_guard lock(mutex_);
    if (direction == Direction::kSet) {
      stats_.set_pages += ok.size();
      stats_.set_failed += ok.size() - pages;
      stats_.bytes_set += bytes;
    } else {
      stats_.get_pages += ok.size();
      stats_.get_hits += pages;
      stats_.bytes_get += bytes;
    }
  }

  const ClientOptions options_;
  std::mutex opening_;
  mutable std::mutex mutex_;
  std::vector<Connection> idle_;
  std::vector<Region> regions_;
  uint32_t next_region_ = 1;
  uint64_t session_ = 0;
  TimePoint retry_at_{};
  bool stalled_ = false;  // somebody got no answer, and no connection has been made since
  std::string last_connect_error_;
  ClientStats stats_;
  Staging staging_;
};

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::~Client() = default;

Result<std::unique_ptr<Client>> Client::Connect(ClientOptions options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  if (Status s = impl->Start(); !s.ok()) return s;
  return std::unique_ptr<Client>(new Client(std::move(impl)));
}

Status Client::RegisterRegion(int fd, void* base, size_t length, uint64_t fd_offset) {
  const auto region = impl_->AddRegion(
      fd, {.base = reinterpret_cast<uint64_t>(base), .length = length, .fd_offset = fd_offset},
      kAttachTimeout);
  return region.status();
}

Result<DmaBufWays> Client::Impl::AddDevice(int fd, uint64_t address, size_t length,
                                           uint64_t offset) {
  if (length == 0 || address + length < address) {
    return InvalidArgument(fmt::format(
        "device memory: {} bytes at address {:#x} are no memory; pass the length of what is there",
        length, address));
  }
  DmaBufOk ways;
  const auto region =
      AddRegion(fd, {.base = address, .length = length, .fd_offset = offset, .dma_buf = true},
                kAttachTimeout, &ways);
  if (!region.ok()) return region.status();
  return DmaBufWays{ways.rdma != 0, ways.copies != 0, std::move(ways.missing)};
}

Result<DmaBufWays> Client::RegisterDmaBuf(int fd, uint64_t address, size_t length,
                                          uint64_t offset) {
  return impl_->AddDevice(std::max(fd, -1), address, length, offset);
}
Result<DmaBufWays> Client::RegisterDevicePointer(uint64_t address, size_t length) {
  return impl_->AddDevice(kNoFd, address, length, address);
}

void Client::Set(std::span<const Key> keys, std::span<const Segment> segments,
                 size_t segments_per_page, uint64_t tag, std::span<uint8_t> ok) {
  impl_->Move(Impl::Direction::kSet, keys, segments, segments_per_page, tag, ok);
}
void Client::Get(std::span<const Key> keys, std::span<const Segment> segments,
                 size_t segments_per_page, std::span<uint8_t> ok) {
  impl_->Move(Impl::Direction::kGet, keys, segments, segments_per_page, 0, ok);
}
size_t Client::Exists(std::span<const Key> keys) { return impl_->Exists(keys); }
Status Client::Clear(uint64_t tag) { return impl_->Clear(tag); }
ClientStats Client::stats() const { return impl_->stats(); }

}  // namespace peercache
