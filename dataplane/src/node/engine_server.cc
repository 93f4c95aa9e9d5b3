#include "node/engine_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <list>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include "base/dma_buf.h"
#include "base/rate_limit.h"
#include "base/thread.h"
#include "node/session.h"
#include "version.h"
#include "wire/stream.h"

namespace peercache {
namespace {

// An engine that does not take its (small) answer for this long is disconnected.
constexpr milliseconds kSendTimeout{5000};
// A call that gets no turn for this long is refused: sooner than its engine gives up (client.h).
constexpr milliseconds kTurnLimit{1000};
// An engine that has asked which pages there are asks for more of them, or gets them, within some
// 10 us, which is less than it takes this thread to sleep and be woken.
constexpr auto kAsksAgain = std::chrono::microseconds(20);
// Of refused attaches, in the log.
constexpr RateLimit kSayRefused{std::chrono::seconds(10), 20};
// Two names and a number fit many times.
constexpr uint32_t kMaxAttachBody = 4 << 10;
// Of engines for which there is no thread: one line now and then.
constexpr RateLimit kComplaints{std::chrono::seconds(10), 1};

// Questions about keys, after which the engine asks again or gets pages.
bool Asks(MessageType type) {
  return type == MessageType::kExists || type == MessageType::kPresence;
}

}  // namespace

class EngineServer::Impl {
 public:
  Impl(UniqueFd listener, EngineServerOptions options, Pages* pages, Fabric* fabric,
       Metrics* metrics, Counters* counters, std::function<void()> wait_joined,
       std::function<Status(uint64_t)> clear)
      : listener_(std::move(listener)),
        options_(std::move(options)),
        pages_(pages),
        fabric_(fabric),
        metrics_(metrics),
        counters_(counters),
        wait_joined_(std::move(wait_joined)),
        clear_(std::move(clear)),
        acceptor_([this] { Accept(); }) {}

  ~Impl() {
    stop_ = true;
    shutdown(listener_.get(), SHUT_RDWR);
    acceptor_.join();
    std::list<Connection> all;
    {
      std::lock_guard lock(mutex_);
      // No further requests. A call that is at work still uses the engine's pages, so the engine
      // must not hear that the connection is over before the call is.
      for (Connection& c : connections_) shutdown(c.fd.get(), SHUT_RD);
      all.swap(connections_);
    }
    for (Connection& c : all) c.thread.join();
  }

  std::vector<EngineInfo> engines() const {
    std::lock_guard lock(mutex_);
    std::vector<EngineInfo> all;
    for (const auto& entry : sessions_) {
      const auto session = entry.lock();
      if (!session) continue;
      EngineInfo info;
      info.name = session->engine();
      info.version = session->version();
      info.owner = session->owner();
      info.connections = static_cast<uint32_t>(session.use_count() - 1);
      info.regions = static_cast<uint32_t>(session->region_count());
      info.region_bytes = session->region_bytes();
      info.registered_bytes = session->registered_bytes();
      all.push_back(std::move(info));
    }
    return all;
  }

 private:
  struct Connection {
    UniqueFd fd;
    PeerCredentials peer;
    const TimePoint arrived = Clock::now();
    std::optional<Permit> permit;  // of its thread
    std::atomic<bool> attached{false};
    std::atomic<bool> finished{false};
    std::thread thread;
  };
  // What one connection thread reuses from request to request.
  struct Scratch {
    ReceivedFrame frame;
    FrameWriter answer;
    PagesRequest pages;
    std::vector<Key> keys;
    std::vector<uint8_t> flags;
    std::vector<ConstBytes> sources;
    Session::Resolved resolved;
  };

  void Accept() {
    while (!stop_) {
      (void)WaitFor(listener_.get(), POLLIN, Clock::now() + std::chrono::seconds(1));
      UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      std::lock_guard lock(mutex_);
      for (auto it = connections_.begin(); it != connections_.end();) {
        if (!it->finished) {
          ++it;
          continue;
        }
        it->thread.join();
        it = connections_.erase(it);
      }
      if (!fd || stop_) continue;
      if (connections_.size() >= size_t{options_.max_engines} * kMaxConnectionsPerEngine) {
        counters_->engine_refused_limit.Add(1);
        continue;
      }
      const auto peer = CredentialsOf(fd.get());
      if (!peer.ok()) continue;
      MakeRoom();
      Connection& c = connections_.emplace_back();
      c.fd = std::move(fd);
      c.peer = *peer;
      auto thread = StartThread([this, &c] {
        Serve(&c);
        shutdown(c.fd.get(), SHUT_RDWR);
        c.finished = true;
      });
      if (!thread.ok()) {
        counters_->engine_refused_limit.Add(1);
        connections_.pop_back();
        if (const TimePoint now = Clock::now(); !complaints_.Full(kComplaints, now)) {
          complaints_.Add(kComplaints, now);
          spdlog::error("an engine is refused: {}", thread.status().message());
        }
        continue;
      }
      c.thread = std::move(*thread);
    }
  }

  // Of too many connections that do not attach the oldest gives way: engines attach at once.
  void MakeRoom() {
    Connection* oldest = nullptr;
    uint32_t unattached = 0;
    for (Connection& c : connections_) {
      if (c.attached || c.finished) continue;
      if (++unattached == 1) oldest = &c;
    }
    if (unattached < options_.max_unattached) return;
    counters_->engine_refused_crowded.Add(1);
    oldest->attached = true;  // counted no more; its thread ends when it notices
    shutdown(oldest->fd.get(), SHUT_RDWR);
  }

  Status Receive(Connection* c, const Session* session, ReceivedFrame* frame) {
    if (session != nullptr) return ReceiveFrame(c->fd.get(), std::nullopt, frame);
    Status s =
        ReceiveFrame(c->fd.get(), c->arrived + options_.attach_timeout, frame, kMaxAttachBody);
    if (s.code() != Code::kDeadlineExceeded) return s;
    counters_->engine_refused_slow.Add(1);
    return {s.code(), fmt::format("no Attach within {} ms", ToMillis(options_.attach_timeout))};
  }

  void Serve(Connection* c) {
    const int fd = c->fd.get();
    std::shared_ptr<Session> session;
    Scratch scratch;
    for (;;) {
      if (Asks(scratch.frame.header.type)) AwaitAwake(fd, Clock::now() + kAsksAgain);
      Status received = Receive(c, session.get(), &scratch.frame);
      if (received.code() == Code::kUnavailable) return;  // the engine has closed
      Status handled = received.ok() ? Handle(c, &session, &scratch) : received;
      if (!handled.ok()) {
        if (handled.code() != Code::kUnavailable) counters_->engine_bad_requests.Add(1);
        Say(session.get(), handled);
        scratch.answer.Start(MessageType::kError, scratch.frame.header.request_id);
        ErrorMessage{handled}.Encode(&scratch.answer);
      }
      const Status sent = SendFrame(fd, scratch.answer.Finish(), -1, Clock::now() + kSendTimeout);
      if (!sent.ok() || !received.ok() || handled.code() == Code::kCorrupt ||
          handled.code() == Code::kUnauthenticated) {
        return;
      }
    }
  }

  // Engines that are refused ask again every second.
  void Say(const Session* session, const Status& handled) {
    if (session == nullptr) {
      std::lock_guard lock(mutex_);
      const TimePoint now = Clock::now();
      if (said_.Full(kSayRefused, now)) return;
      said_.Add(kSayRefused, now);
    }
    spdlog::warn("engine {}: {}", session ? session->engine() : "(not attached)",
                 handled.ToString());
  }

  Status Handle(Connection* c, std::shared_ptr<Session>* session, Scratch* s) {
    const MessageType type = s->frame.header.type;
    FrameReader body(s->frame.body);
    s->answer.Start(static_cast<MessageType>(static_cast<int>(type) + 1),
                    s->frame.header.request_id);
    if (type == MessageType::kAttach)
      return Attach(c, &body, std::move(s->frame.fd), session, &s->answer);
    if (!*session) return Corrupt("the first message must be Attach");
    if (type == MessageType::kSet || type == MessageType::kGet || Asks(type)) {
      const auto pass = (*session)->gate().Enter(Clock::now() + kTurnLimit);
      if (pass && pass->waited()) counters_->engine_calls_waited.Add(1);
      if (pass) return Move(type, **session, c->permit ? &*c->permit : nullptr, &body, s);
      counters_->engine_refused_busy.Add(1);
      return ResourceExhausted(
          fmt::format("{} calls of this engine are at work and none has ended for {} ms; call from "
                      "fewer threads, or raise --engine-concurrency",
                      options_.engine_concurrency, kTurnLimit.count()));
    }
    switch (type) {
      case MessageType::kRegion: {
        RegionRequest request;
        if (!request.Decode(&body)) return Corrupt("malformed Region");
        return (*session)->SetRegion(request, std::move(s->frame.fd),
                                     {kMaxRegionsPerEngine, options_.max_engine_memory}, fabric_);
      }
      case MessageType::kDmaBuf:
      case MessageType::kDevicePointer: {
        RegionRequest request;
        if (!request.Decode(&body)) return Corrupt("malformed DmaBuf or DevicePointer");
        std::optional<UniqueFd> fd;
        if (type == MessageType::kDmaBuf) fd = std::move(s->frame.fd);
        const auto ways = (*session)->SetDevice(
            request, std::move(fd), {kMaxRegionsPerEngine, options_.max_engine_memory}, fabric_);
        if (ways.ok()) ways->Encode(&s->answer);
        return ways.status();
      }
      case MessageType::kClear: {
        const auto tag = body.Get<uint64_t>();
        if (!body.AtEnd()) return Corrupt("malformed Clear");
        return clear_(tag);
      }
      default:
        return Corrupt(
            fmt::format("an engine cannot send message type {}", static_cast<int>(type)));
    }
  }

  // Set, Get, Exists and Presence.
  Status Move(MessageType type, Session& session, const Permit* permit, FrameReader* body,
              Scratch* s) {
    const TimePoint start = Clock::now();
    const Counting counting = CountingOf(s->frame.header);
    if (type == MessageType::kExists) {
      if (!DecodeKeys(body, &s->keys)) return Corrupt("malformed Exists");
      const size_t found = pages_->Exists(s->keys);
      session.lookups().Asked(counting, s->keys.size(), found, counters_);
      s->answer.Put(static_cast<uint32_t>(found));
      metrics_->Observe(Metrics::Op::kExists, Clock::now() - start);
      return {};
    }
    if (type == MessageType::kPresence) {
      if (!DecodeKeys(body, &s->keys)) return Corrupt("malformed Presence");
      s->flags.resize(s->keys.size());
      pages_->Presence(s->keys, s->flags);
      EncodeFlags(s->flags, &s->answer);
      metrics_->Observe(Metrics::Op::kPresence, Clock::now() - start);
      return {};
    }
    if (!s->pages.Decode(body)) return Corrupt("malformed Set or Get");
    if (Status r = session.Resolve(s->pages.segments, &s->resolved); !r.ok()) return r;
    s->flags.assign(s->pages.keys.size(), 0);
    const bool set = type == MessageType::kSet;
    if (set && s->resolved.unmapped) {
      return InvalidArgument(
          "pages cannot be set from device memory that its exporter does not let be mapped: copy "
          "them to host memory first");
    }
    const auto access = DmaBufAccess::Begin(
        s->resolved.regions, set ? DmaBufAccess::kRead : DmaBufAccess::kWrite, start + kTurnLimit);
    if (!access.ok()) return access.status();
    if (set) {
      s->sources.assign(s->resolved.segments.begin(), s->resolved.segments.end());
      pages_->Set(s->pages.keys, s->sources, s->pages.segments_per_page, s->pages.tag, s->flags,
                  permit);
      metrics_->Observe(Metrics::Op::kSet, Clock::now() - start);
    } else {
      pages_->Get(s->pages.keys, s->resolved.segments, s->pages.segments_per_page, s->flags, permit,
                  s->resolved.unmapped);
      session.lookups().Got(counting, s->flags, counters_);
      for (uint8_t& flag : s->flags) flag = flag != 0;
      metrics_->Observe(Metrics::Op::kGet, Clock::now() - start);
    }
    s->resolved.regions.clear();
    EncodeFlags(s->flags, &s->answer);
    return {};
  }

  Status Attach(Connection* c, FrameReader* body, UniqueFd permit_fd,
                std::shared_ptr<Session>* session, FrameWriter* answer) {
    AttachRequest request;
    if (!request.Decode(body)) return Corrupt("malformed Attach");
    if (*session) return Corrupt("attached already");
    if (permit_fd) {
      auto permit = Permit::Map(std::move(permit_fd));
      if (!permit.ok()) return permit.status();
      c->permit = std::move(*permit);
    }
    if (!options_.uids.Allows(c->peer.uid)) {
      counters_->engine_refused_user.Add(1);
      return {Code::kUnauthenticated,
              fmt::format("processes of user {} (this is {}) may not attach to this node: run the "
                          "engine as a user of --socket-uids={}, or add {} there",
                          c->peer.uid, c->peer.pid, options_.uids.ToString(), c->peer.uid)};
    }
    c->attached = true;
    if (request.session == 0) wait_joined_();
    {
      std::lock_guard lock(mutex_);
      std::erase_if(sessions_, [](const auto& entry) { return entry.expired(); });
      for (const auto& entry : sessions_) {
        auto known = entry.lock();
        if (known && known->id() == request.session) *session = std::move(known);
      }
      if (*session && (*session)->owner().uid != c->peer.uid) {
        const uint32_t owner = std::exchange(*session, nullptr)->owner().uid;
        counters_->engine_refused_user.Add(1);
        return {Code::kUnauthenticated,
                fmt::format("the session belongs to user {}, this process to user {}", owner,
                            c->peer.uid)};
      }
      if (!*session && request.session != 0) {
        return {Code::kAborted, "unknown session: the node has restarted since"};
      }
      // One reference is this function's.
      if (*session && session->use_count() > kMaxConnectionsPerEngine) {
        session->reset();
        counters_->engine_refused_limit.Add(1);
        return ResourceExhausted(
            fmt::format("an engine may have at most {} connections", kMaxConnectionsPerEngine));
      }
      if (!*session) {
        if (sessions_.size() >= options_.max_engines) {
          counters_->engine_refused_limit.Add(1);
          return ResourceExhausted(fmt::format(
              "{} engines are attached already; raise --max-engines", options_.max_engines));
        }
        *session = std::make_shared<Session>(NewId(), request.engine, request.version, c->peer,
                                             options_.engine_concurrency);
        sessions_.push_back(*session);
        spdlog::info("engine {} attached (client {}, pid {}, uid {})", request.engine,
                     request.version, c->peer.pid, c->peer.uid);
      }
    }
    AttachOk{(*session)->id(), options_.node_id, kVersion}.Encode(answer);
    answer->Can(FrameHeader::kCanDevice | FrameHeader::kCanPresence);
    return {};
  }

  uint64_t NewId() {
    uint64_t id = 0;
    while (id == 0) id = (uint64_t{random_()} << 32) | random_();
    return id;
  }

  UniqueFd listener_;
  const EngineServerOptions options_;
  Pages* const pages_;
  Fabric* const fabric_;  // null without RDMA
  Metrics* const metrics_;
  Counters* const counters_;
  const std::function<void()> wait_joined_;
  const std::function<Status(uint64_t)> clear_;
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  std::random_device random_;
  std::list<Connection> connections_;
  std::vector<std::weak_ptr<Session>> sessions_;
  Meter complaints_;  // of the acceptor
  Meter said_;
  std::thread acceptor_;
};

EngineServer::EngineServer(UniqueFd listener, EngineServerOptions options, Pages* pages,
                           Fabric* fabric, Metrics* metrics, Counters* counters,
                           std::function<void()> wait_joined, std::function<Status(uint64_t)> clear)
    : impl_(std::make_unique<Impl>(std::move(listener), std::move(options), pages, fabric, metrics,
                                   counters, std::move(wait_joined), std::move(clear))) {}
EngineServer::~EngineServer() = default;
std::vector<EngineInfo> EngineServer::engines() const { return impl_->engines(); }

}  // namespace peercache
