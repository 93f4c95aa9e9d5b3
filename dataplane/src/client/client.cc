#include "client/client.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>

#include "base/copy.h"
#include "client/attachment.h"
#include "client/connection.h"
#include "client/staging.h"

namespace peercache {
namespace {

// A node moves pages at least this fast or is given up: bounds every call by its size.
constexpr uint64_t kMinBytesPerMilli = 64 << 10;
// How often it is said that a call waits for a node that was stopped while it wrote into a page.
constexpr milliseconds kSayAgain{10'000};
// Of the registration of memory: a node may take seconds to register a large host pool.
constexpr milliseconds kShareTimeout{12'000};

}  // namespace

class Client::Impl {
 public:
  explicit Impl(ClientOptions options)
      : options_(std::move(options)),
        node_(options_.socket, options_.engine, options_.timeout,
              [this](const Status& status) { Fault(status); }),
        staging_(
            options_.staging_bytes,
            [this](const MappedRegion& m) {
              return node_.Share(m.fd(),
                                 {.base = reinterpret_cast<uint64_t>(m.data()),
                                  .length = m.size(),
                                  .staging = true},
                                 options_.timeout);
            },
            [this](uint32_t id) { node_.Unshare(id); }) {}

  Attachment& node() { return node_; }
  Result<DmaBufWays> AddDevice(int fd, uint64_t address, size_t length, uint64_t offset);

  enum class Direction { kSet, kGet };

  void Move(Direction direction, std::span<const Key> keys, std::span<const Segment> segments,
            size_t per_page, uint64_t tag, std::span<uint8_t> ok, Counting counting = {}) {
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
    if (!node_.attached()) {
      (direction == Direction::kSet ? absent_sets_ : absent_gets_)
          .fetch_add(keys.size(), std::memory_order_relaxed);
      return;
    }
    for (size_t at = 0; at < keys.size() && node_.attached();) {
      size_t count = std::min(max_pages, keys.size() - at);
      std::vector<WireSegment> wire(count * per_page);
      // Leading pages that lie in registered regions go as they are, those in device memory apart
      // from the others; the rest goes through staging.
      size_t direct = 0;
      Place first = Place::kUnknown;
      while (direct < count) {
        const Place place = node_.Locate(segments.subspan((at + direct) * per_page, per_page),
                                         std::span(wire).subspan(direct * per_page, per_page));
        if (direct == 0) first = place;
        if (place != first || first == Place::kUnknown || first == Place::kNowhere) break;
        ++direct;
      }
      if (first == Place::kNowhere) {
        Fault(
            InvalidArgument("a page lies in device memory in part, beyond its region, or where it "
                            "is not shared with this node"));
        ++at;
        continue;
      }
      if (direct > 0) {
        wire.resize(direct * per_page);
        Request(direction, keys.subspan(at, direct), wire, per_page, tag, ok.subspan(at, direct),
                nullptr, counting);
        at += direct;
        continue;
      }
      at += MoveStaged(direction, keys.subspan(at, count),
                       segments.subspan(at * per_page, count * per_page), per_page, tag,
                       ok.subspan(at, count), counting);
    }
    Count(direction, segments, per_page, ok);
  }

  size_t Exists(std::span<const Key> keys, Counting counting) {
    if (!node_.attached()) {
      absent_exists_.fetch_add(keys.size(), std::memory_order_relaxed);
      return 0;
    }
    size_t hits = 0;
    for (size_t at = 0; at < keys.size(); at += kMaxItems) {
      const auto chunk = keys.subspan(at, std::min<size_t>(kMaxItems, keys.size() - at));
      const size_t found = ExistsChunk(chunk, counting);
      hits += found;
      if (found < chunk.size()) break;
    }
    std::lock_guard lock(mutex_);
    stats_.exists_pages += keys.size();
    stats_.exists_hits += hits;
    return hits;
  }

  bool Presence(std::span<const Key> keys, std::span<uint8_t> there, Counting counting) {
    std::fill(there.begin(), there.end(), uint8_t{0});
    std::vector<uint8_t> flags;
    for (size_t at = 0; at < keys.size(); at += kMaxItems) {
      const auto chunk = keys.subspan(at, std::min<size_t>(kMaxItems, keys.size() - at));
      const auto take = [&](FrameReader* answer) {
        return DecodeFlags(answer, &flags) && flags.size() == chunk.size();
      };
      const Asked asked = Ask(MessageType::kPresence, "presence", chunk, counting, take);
      if (asked == Asked::kUnknown) return false;
      if (asked == Asked::kFault) break;
      std::copy(flags.begin(), flags.end(), there.begin() + static_cast<ptrdiff_t>(at));
    }
    const auto hits = static_cast<uint64_t>(std::count(there.begin(), there.end(), uint8_t{1}));
    std::lock_guard lock(mutex_);
    stats_.presence_pages += keys.size();
    stats_.presence_hits += hits;
    return true;
  }

  void SetPrefill(uint32_t tokens_per_second) {
    prefill_.store(tokens_per_second, std::memory_order_relaxed);
  }

  Status Clear(uint64_t tag) {
    // The node waits for members that do not answer, and tells the others of them.
    const TimePoint deadline = Clock::now() + 2 * options_.timeout;
    auto connection = node_.Acquire(deadline);
    if (!connection.ok()) {
      Fault(connection.status());
      return connection.status();
    }
    connection->Request(MessageType::kClear).Put(tag);
    Status s = connection->Call(MessageType::kClearOk, -1, deadline);
    if (connection->usable()) node_.Release(std::move(*connection));
    if (!s.ok()) Fault(s.Annotate("clear"));
    return s;
  }

  ClientStats stats() const {
    const Status state = node_.state();
    std::unique_lock lock(mutex_);
    ClientStats stats = stats_;
    lock.unlock();
    const uint64_t sets = absent_sets_.load(std::memory_order_relaxed);
    stats.set_pages += sets;
    stats.set_failed += sets;
    stats.get_pages += absent_gets_.load(std::memory_order_relaxed);
    stats.exists_pages += absent_exists_.load(std::memory_order_relaxed);
    stats.reconnects = node_.reconnects();
    stats.node = node_.node();
    stats.attached = state.ok();
    stats.detached = state.message();
    return stats;
  }

 private:
  using Place = Regions::Place;

  TimePoint DeadlineFor(uint64_t bytes) const {
    return Clock::now() + options_.timeout +
           milliseconds(static_cast<int64_t>(bytes / kMinBytesPerMilli));
  }

  void Request(Direction direction, std::span<const Key> keys, std::span<const WireSegment> wire,
               size_t per_page, uint64_t tag, std::span<uint8_t> ok, bool* poisoned,
               Counting counting) {
    uint64_t bytes = 0;
    for (const WireSegment& s : wire) bytes += s.length;
    const bool set = direction == Direction::kSet;
    // A pooled connection may have died with a node that restarted: one more try with a new one.
    for (int attempt = 0; attempt < 2; ++attempt) {
      const TimePoint deadline = DeadlineFor(bytes);
      auto connection = node_.Acquire(deadline);
      if (!connection.ok()) {
        Fault(connection.status());
        return;
      }
      if (!set) connection->TellPrefill(prefill_, deadline);
      FrameWriter& request = connection->Request(set ? MessageType::kSet : MessageType::kGet);
      if (!set) request.Count(counting);
      EncodePages(tag, static_cast<uint32_t>(per_page), keys, wire, &request);
      const Status called =
          connection->Call(set ? MessageType::kSetOk : MessageType::kGetOk, -1, deadline);
      if (called.ok()) {
        std::vector<uint8_t> flags;
        FrameReader reader = connection->Answer();
        if (DecodeFlags(&reader, &flags) && flags.size() == ok.size()) {
          std::copy(flags.begin(), flags.end(), ok.begin());
          node_.Release(std::move(*connection));
        } else {
          Fault(Corrupt("malformed answer from the node"));
        }
        return;
      }
      if (called.code() == Code::kDeadlineExceeded) node_.Stalled(connection->node());
      if (!connection->usable()) {
        connection->Revoke();
        // Of a set, the node reads what it will not store; that harms nobody.
        if (!set && poisoned != nullptr) *poisoned = !connection->LetGo({});
        if (!set && poisoned == nullptr) AwaitLetGo(&*connection);
      }
      if (connection->usable()) node_.Release(std::move(*connection));
      if (called.code() != Code::kUnavailable || attempt == 1) {
        Fault(called.Annotate(set ? "set" : "get"));
        return;
      }
      node_.DropIdle();
    }
  }

  // Without limit: see client.h.
  static void AwaitLetGo(Connection* connection) {
    while (!connection->LetGo(kSayAgain)) {
      spdlog::error(
          "the node {} was stopped or killed while it wrote into a page of this engine, which "
          "waits until the node continues or its process has ended; let it continue (SIGCONT), or "
          "end it (SIGKILL)",
          connection->node());
    }
  }

  // Moves as many leading pages as fit one lane; returns how many.
  size_t MoveStaged(Direction direction, std::span<const Key> keys,
                    std::span<const Segment> segments, size_t per_page, uint64_t tag,
                    std::span<uint8_t> ok, Counting counting) {
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
             node_.Locate(segments.subspan(page * per_page, per_page), nowhere) == Place::kUnknown;
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
    Request(direction, keys.first(wire.size()), wire, 1, tag, ok.first(wire.size()), &poisoned,
            counting);
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

  size_t ExistsChunk(std::span<const Key> keys, Counting counting) {
    uint32_t hits = 0;
    const auto take = [&](FrameReader* answer) {
      hits = answer->Get<uint32_t>();
      return answer->AtEnd() && hits <= keys.size();
    };
    return Ask(MessageType::kExists, "exists", keys, counting, take) == Asked::kAnswered ? hits : 0;
  }

  enum class Asked : uint8_t { kAnswered, kFault, kUnknown };
  // Sends `question` (Exists or Presence) about the keys; take(reader) is false when the answer is
  // malformed. kUnknown: the node's release does not know the question, which was not sent.
  template <typename Take>
  Asked Ask(MessageType question, const char* name, std::span<const Key> keys, Counting counting,
            const Take& take) {
    const auto expected = static_cast<MessageType>(static_cast<int>(question) + 1);
    for (int attempt = 0; attempt < 2; ++attempt) {
      const TimePoint deadline = Clock::now() + options_.timeout;
      auto connection = node_.Acquire(deadline);
      if (!connection.ok()) {
        Fault(connection.status());
        return Asked::kFault;
      }
      if (question == MessageType::kPresence && !connection->can(FrameHeader::kCanPresence)) {
        node_.Release(std::move(*connection));
        return Asked::kUnknown;
      }
      connection->TellPrefill(prefill_, deadline);
      FrameWriter& request = connection->Request(question);
      request.Count(counting);
      EncodeKeys(keys, &request);
      const Status called = connection->Call(expected, -1, deadline, Connection::Wait::kAwake);
      if (called.ok()) {
        FrameReader reader = connection->Answer();
        if (take(&reader)) {
          node_.Release(std::move(*connection));
          return Asked::kAnswered;
        }
        Fault(Corrupt("malformed answer from the node"));
        return Asked::kFault;
      }
      if (called.code() == Code::kDeadlineExceeded) node_.Stalled(connection->node());
      if (connection->usable()) node_.Release(std::move(*connection));
      if (called.code() != Code::kUnavailable || attempt == 1) {
        Fault(called.Annotate(name));
        return Asked::kFault;
      }
      node_.DropIdle();
    }
    return Asked::kFault;
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
  mutable std::mutex mutex_;
  ClientStats stats_;
  // Of calls without a node, which take no lock.
  std::atomic<uint64_t> absent_sets_{0}, absent_gets_{0}, absent_exists_{0};
  std::atomic<uint32_t> prefill_{0};  // tokens a second
  Attachment node_;
  Staging staging_;
};

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::~Client() = default;

Result<std::unique_ptr<Client>> Client::Connect(ClientOptions options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  if (Status s = impl->node().Start(); !s.ok()) return s;
  return std::unique_ptr<Client>(new Client(std::move(impl)));
}

bool Client::attached() const { return impl_->node().attached(); }
bool Client::knows_presence() const { return impl_->node().knows_presence(); }
Status Client::state() const { return impl_->node().state(); }

Status Client::RegisterRegion(int fd, void* base, size_t length, uint64_t fd_offset) {
  const auto region = impl_->node().Share(
      fd, {.base = reinterpret_cast<uint64_t>(base), .length = length, .fd_offset = fd_offset},
      kShareTimeout);
  return region.status();
}

Status Client::UnregisterRegion(uint64_t address, size_t length) {
  return impl_->node().UnshareWithin(address, length);
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
      node_.Share(fd, {.base = address, .length = length, .fd_offset = offset, .dma_buf = true},
                  kShareTimeout, &ways);
  if (!region.ok()) return region.status();
  return DmaBufWays{ways.rdma != 0, ways.copies != 0, std::move(ways.missing)};
}

Result<DmaBufWays> Client::RegisterDmaBuf(int fd, uint64_t address, size_t length,
                                          uint64_t offset) {
  return impl_->AddDevice(std::max(fd, -1), address, length, offset);
}
Result<DmaBufWays> Client::RegisterDevicePointer(uint64_t address, size_t length) {
  return impl_->AddDevice(Attachment::kNoFd, address, length, address);
}

void Client::Set(std::span<const Key> keys, std::span<const Segment> segments,
                 size_t segments_per_page, uint64_t tag, std::span<uint8_t> ok) {
  impl_->Move(Impl::Direction::kSet, keys, segments, segments_per_page, tag, ok);
}
void Client::Get(std::span<const Key> keys, std::span<const Segment> segments,
                 size_t segments_per_page, std::span<uint8_t> ok, Counting counting) {
  impl_->Move(Impl::Direction::kGet, keys, segments, segments_per_page, 0, ok, counting);
}
size_t Client::Exists(std::span<const Key> keys, Counting counting) {
  return impl_->Exists(keys, counting);
}
bool Client::Presence(std::span<const Key> keys, std::span<uint8_t> there, Counting counting) {
  return impl_->Presence(keys, there, counting);
}
void Client::SetPrefill(uint32_t tokens_per_second) { impl_->SetPrefill(tokens_per_second); }
Status Client::Clear(uint64_t tag) { return impl_->Clear(tag); }
ClientStats Client::stats() const { return impl_->stats(); }

}  // namespace peercache
