#include "node/engine/engine_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <list>
#include <mutex>
#include <optional>
#include <thread>

#include "base/dma_buf.h"
#include "base/give_back.h"
#include "base/process.h"
#include "base/rate_limit.h"
#include "base/thread.h"
#include "node/engine/session.h"
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
// Of these, so many are still connected, and are told why.
constexpr size_t kMostRefused = 64;
// The id of an engine's first request, its Attach (client/connection.h).
constexpr uint64_t kFirstRequest = 1;

// Questions about keys, after which the engine asks again or gets pages.
bool Asks(MessageType type) {
  return type == MessageType::kExists || type == MessageType::kPresence;
}

// Empty where the system call is refused: engines then take the end of a connection for the end of
// the process.
UniqueFd ProcessToLend() {
  auto process = OpenThisProcess();
  if (process.ok()) return std::move(*process);
  spdlog::warn(
      "engines do not learn when this process has ended, only when it closes connections: {}; "
      "allow pidfd_open in the container's seccomp profile",
      process.status().ToString());
  return {};
}

}  // namespace

class EngineServer::Impl {
 public:
  Impl(UniqueFd listener, EngineServerOptions options, EngineServices services,
       std::shared_ptr<Tenant> tenant)
      : listener_(std::move(listener)),
        process_(ProcessToLend()),
        options_(std::move(options)),
        services_(std::move(services)),
        counters_(services_.counters),
        tenant_(std::move(tenant)),
        sessions_(services_.tenants, tenant_,
                  {kMaxConnectionsPerEngine, options_.engine_concurrency}, counters_) {}

  Status Start() {
    auto acceptor = StartThread([this] { Accept(); });
    if (!acceptor.ok()) return acceptor.status();
    acceptor_ = std::move(*acceptor);
    return {};
  }

  ~Impl() {
    StopListening();
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

  std::vector<EngineInfo> engines() const { return sessions_.engines(); }

  void StopListening() {
    stop_ = true;
    shutdown(listener_.get(), SHUT_RDWR);
    if (acceptor_.joinable()) acceptor_.join();
  }

  bool idle() {
    std::lock_guard lock(mutex_);
    JoinFinished();
    return connections_.empty();
  }

 private:
  struct Connection {
    UniqueFd fd;
    Admission::Seat seat;  // of its thread
    PeerCredentials peer;
    const TimePoint arrived = Clock::now();
    std::optional<Permit> permit;          // of its thread, as the next
    std::optional<TenantBinding> binding;  // once it is attached
    std::atomic<bool> attached{false};
    std::atomic<bool> finished{false};
    std::thread thread;
  };
  // What one connection thread reuses from request to request.
  struct Scratch {
    explicit Scratch(FrameMemory* memory) : frame(memory) {}
    // What a large call has left.
    void Rest() {
      GiveBack(kKeptBytes, &pages.keys, &pages.segments, &keys, &flags, &sources,
               &resolved.segments);
      if (answer.bytes().size() > kKeptBytes) answer = FrameWriter();
    }
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
      DropRefused();
      std::lock_guard lock(mutex_);
      JoinFinished();
      if (!fd || stop_) continue;
      if (connections_.size() >= size_t{options_.max_engines} * kMaxConnectionsPerEngine) {
        counters_->engine_refused_limit.Add(1);
        continue;
      }
      const auto peer = CredentialsOf(fd.get());
      if (!peer.ok()) continue;
      auto seat = services_.tenants->AdmitThread(*tenant_, peer->process);
      if (!seat.ok()) {
        Refuse(std::move(fd), seat.status());
        continue;
      }
      MakeRoom();
      Connection& c = connections_.emplace_back();
      c.fd = std::move(fd);
      c.seat = std::move(*seat);
      c.peer = *peer;
      auto thread = StartThread([this, &c] {
        Serve(&c);
        shutdown(c.fd.get(), SHUT_RDWR);
        c.finished = true;
      });
      if (!thread.ok()) {
        Refuse(std::move(c.fd), thread.status());
        connections_.pop_back();
        continue;
      }
      c.thread = std::move(*thread);
    }
  }

  // Of the acceptor. Says why to an engine that gets no thread: as the answer to its Attach, for
  // which there is the usual time.
  void Refuse(UniqueFd fd, const Status& why) {
    counters_->engine_refused_limit.Add(1);
    const TimePoint now = Clock::now();
    if (!complaints_.Full(kComplaints, now)) {
      complaints_.Add(kComplaints, now);
      spdlog::error("an engine is refused: {}", why.message());
    }
    FrameWriter answer;
    answer.Start(MessageType::kError, kFirstRequest);
    ErrorMessage{why}.Encode(&answer);
    (void)SendFrame(fd.get(), answer.Finish(), -1, now);
    shutdown(fd.get(), SHUT_WR);
    refused_.push_back({std::move(fd), now + options_.attach_timeout});
    if (refused_.size() > kMostRefused) refused_.pop_front();
  }
  void DropRefused() {
    const TimePoint now = Clock::now();
    while (!refused_.empty() && refused_.front().until <= now) refused_.pop_front();
  }

  // The lock is held.
  void JoinFinished() {
    connections_.remove_if([](Connection& c) {
      if (!c.finished) return false;
      c.thread.join();
      return true;
    });
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
    Scratch scratch(options_.memory);
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
      const bool attached = handled.ok() && scratch.frame.header.type == MessageType::kAttach;
      const Status sent = SendFrame(fd, scratch.answer.Finish(), attached ? process_.get() : -1,
                                    Clock::now() + kSendTimeout);
      if (!sent.ok() || !received.ok() || handled.code() == Code::kCorrupt ||
          handled.code() == Code::kUnauthenticated) {
        return;
      }
      scratch.Rest();
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
    s->answer.Start(AnswerTo(type), s->frame.header.request_id);
    if (type == MessageType::kAttach)
      return Attach(c, &body, std::move(s->frame.fd), session, &s->answer);
    if (!*session) return Corrupt("the first message must be Attach");
    if (type == MessageType::kSet || type == MessageType::kGet || Asks(type)) {
      const auto pass = (*session)->gate().Enter(Clock::now() + kTurnLimit);
      if (pass && pass->waited()) counters_->engine_calls_waited.Add(1);
      if (pass) return Move(type, **session, c, &body, s);
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
                                     {kMaxRegionsPerEngine, options_.max_engine_memory},
                                     services_.fabric, services_.tenants);
      }
      case MessageType::kDmaBuf:
      case MessageType::kDevicePointer: {
        RegionRequest request;
        if (!request.Decode(&body)) return Corrupt("malformed DmaBuf or DevicePointer");
        std::optional<UniqueFd> fd;
        if (type == MessageType::kDmaBuf) fd = std::move(s->frame.fd);
        const auto ways = (*session)->SetDevice(request, std::move(fd),
                                                {kMaxRegionsPerEngine, options_.max_engine_memory},
                                                services_.fabric);
        if (ways.ok()) ways->Encode(&s->answer);
        return ways.status();
      }
      case MessageType::kPrefill: {
        const auto tokens_per_second = body.Get<uint32_t>();
        if (!body.AtEnd()) return Corrupt("malformed Prefill");
        (*session)->SetPrefill(tokens_per_second);
        return {};
      }
      case MessageType::kClear: {
        const auto tag = body.Get<uint64_t>();
        if (!body.AtEnd()) return Corrupt("malformed Clear");
        if (Status may = tenant_->MayClear(Clock::now()); !may.ok()) return may;
        const auto bound = c->binding->BindTag(tag);
        return bound.ok() ? services_.clear(*bound) : bound.status();
      }
      default:
        return Corrupt(
            fmt::format("an engine cannot send message type {}", static_cast<int>(type)));
    }
  }

  // Set, Get, Exists and Presence.
  Status Move(MessageType type, Session& session, Connection* c, FrameReader* body, Scratch* s) {
    const TimePoint start = Clock::now();
    const Permit* const permit = c->permit ? &*c->permit : nullptr;
    const Counting counting = CountingOf(s->frame.header);
    const Duration recompute = session.RecomputeOf(counting.page_tokens);
    if (type == MessageType::kExists) {
      if (!DecodeKeys(body, &s->keys)) return Corrupt("malformed Exists");
      if (Status b = c->binding->Bind(s->keys); !b.ok()) return b;
      const size_t found = services_.pages->Exists(s->keys, tenant_->number(), recompute);
      session.lookups().Asked(counting, s->keys.size(), found, counters_);
      s->answer.Put(static_cast<uint32_t>(found));
      counters_->op_exists.Observe(Clock::now() - start);
      return {};
    }
    if (type == MessageType::kPresence) {
      if (!DecodeKeys(body, &s->keys)) return Corrupt("malformed Presence");
      if (Status b = c->binding->Bind(s->keys); !b.ok()) return b;
      s->flags.resize(s->keys.size());
      services_.pages->Presence(s->keys, s->flags, recompute);
      const auto lead = std::find(s->flags.begin(), s->flags.end(), uint8_t{0}) - s->flags.begin();
      session.lookups().Asked(counting, s->keys.size(), static_cast<uint64_t>(lead), counters_);
      EncodeFlags(s->flags, &s->answer);
      counters_->op_presence.Observe(Clock::now() - start);
      return {};
    }
    if (!s->pages.Decode(body)) return Corrupt("malformed Set or Get");
    if (Status b = c->binding->Bind(s->pages.keys); !b.ok()) return b;
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
      const auto tag = c->binding->BindTag(s->pages.tag);
      if (!tag.ok()) return tag.status();
      services_.pages->Set(s->pages.keys, s->sources, s->pages.segments_per_page, *tag, s->flags,
                           permit, tenant_->number());
      counters_->op_set.Observe(Clock::now() - start);
    } else {
      services_.pages->Get(s->pages.keys, s->resolved.segments, s->pages.segments_per_page,
                           s->flags, permit, s->resolved.unmapped, tenant_->number(), recompute);
      session.lookups().Got(counting, s->flags, counters_);
      for (uint8_t& flag : s->flags) flag = flag != 0;
      counters_->op_get.Observe(Clock::now() - start);
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
      return {
          Code::kUnauthenticated,
          fmt::format(
              "processes of user {} (this is {}) are not allowed to attach to this node: run the "
              "engine as a user of --socket-uids={}, or add {} there",
              c->peer.uid, c->peer.pid, options_.uids.ToString(), c->peer.uid)};
    }
    c->attached = true;
    if (request.session == 0) services_.wait_joined();
    auto binding = tenant_->Bind();
    if (!binding.ok()) return binding.status();
    auto attached = sessions_.Attach(request, c->peer);
    if (!attached.ok()) return attached.status();
    c->binding = std::move(*binding);
    *session = std::move(*attached);
    AttachOk{(*session)->id(), options_.node_id, kVersion}.Encode(answer);
    answer->Can(FrameHeader::kCanDevice | FrameHeader::kCanPresence | FrameHeader::kCanPrefill);
    return {};
  }

  UniqueFd listener_;
  const UniqueFd process_;  // this one, lent to engines with AttachOk
  const EngineServerOptions options_;
  const EngineServices services_;
  Counters* const counters_;
  const std::shared_ptr<Tenant> tenant_;
  SessionList sessions_;
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  std::list<Connection> connections_;
  struct Refused {
    UniqueFd fd;
    TimePoint until;
  };
  std::deque<Refused> refused_;  // of the acceptor, as the next
  Meter complaints_;
  Meter said_;
  std::thread acceptor_;
};

Result<std::unique_ptr<EngineServer>> EngineServer::Serve(UniqueFd listener,
                                                          EngineServerOptions options,
                                                          EngineServices services,
                                                          std::shared_ptr<Tenant> tenant) {
  auto impl = std::make_unique<Impl>(std::move(listener), std::move(options), std::move(services),
                                     std::move(tenant));
  if (Status s = impl->Start(); !s.ok()) return s;
  return std::unique_ptr<EngineServer>(new EngineServer(std::move(impl)));
}

EngineServer::EngineServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EngineServer::~EngineServer() = default;
std::vector<EngineInfo> EngineServer::engines() const { return impl_->engines(); }
void EngineServer::StopListening() { impl_->StopListening(); }
bool EngineServer::idle() { return impl_->idle(); }

}  // namespace peercache
