#include "node/engine_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <list>
#include <mutex>
#include <random>
#include <thread>

#include "node/session.h"
#include "version.h"
#include "wire/stream.h"

namespace peercache {
namespace {

// An engine that does not take its (small) answer for this long is disconnected.
constexpr milliseconds kSendTimeout{5000};

}  // namespace

class EngineServer::Impl {
 public:
  Impl(UniqueFd listener, EngineServerOptions options, Pages* pages, Metrics* metrics,
       Counters* counters, std::function<void()> wait_joined, std::function<Status(uint64_t)> clear)
      : listener_(std::move(listener)),
        options_(std::move(options)),
        pages_(pages),
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
      for (Connection& c : connections_) shutdown(c.fd.get(), SHUT_RDWR);
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
      info.connections = static_cast<uint32_t>(session.use_count() - 1);
      info.regions = static_cast<uint32_t>(session->region_count());
      info.region_bytes = session->region_bytes();
      all.push_back(std::move(info));
    }
    return all;
  }

 private:
  struct Connection {
    UniqueFd fd;
    std::thread thread;
    std::atomic<bool> finished{false};
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
      if (connections_.size() >= size_t{options_.max_engines} * kMaxConnectionsPerEngine) continue;
      Connection& c = connections_.emplace_back();
      c.fd = std::move(fd);
      c.thread = std::thread([this, &c] {
        Serve(c.fd.get());
        shutdown(c.fd.get(), SHUT_RDWR);
        c.finished = true;
      });
    }
  }

  void Serve(int fd) {
    std::shared_ptr<Session> session;
    Scratch scratch;
    for (;;) {
      Status received = ReceiveFrame(fd, std::nullopt, &scratch.frame);
      if (received.code() == Code::kUnavailable) return;  // the engine has closed
      Status handled = received.ok() ? Handle(&session, &scratch) : received;
      if (!handled.ok()) {
        if (handled.code() != Code::kUnavailable) counters_->engine_bad_requests.Add(1);
        spdlog::warn("engine {}: {}", session ? session->engine() : "(not attached)",
                     handled.ToString());
        scratch.answer.Start(MessageType::kError, scratch.frame.header.request_id);
        ErrorMessage{handled}.Encode(&scratch.answer);
      }
      const Status sent = SendFrame(fd, scratch.answer.Finish(), -1, Clock::now() + kSendTimeout);
      if (!sent.ok() || handled.code() == Code::kCorrupt) return;
    }
  }

  Status Handle(std::shared_ptr<Session>* session, Scratch* s) {
    const MessageType type = s->frame.header.type;
    FrameReader body(s->frame.body);
    s->answer.Start(static_cast<MessageType>(static_cast<int>(type) + 1),
                    s->frame.header.request_id);
    if (type == MessageType::kAttach) return Attach(&body, session, &s->answer);
    if (!*session) return Corrupt("the first message must be Attach");
    switch (type) {
      case MessageType::kRegion: {
        RegionRequest request;
        if (!request.Decode(&body)) return Corrupt("malformed Region");
        return (*session)->SetRegion(request, std::move(s->frame.fd), kMaxRegionsPerEngine);
      }
      case MessageType::kSet:
      case MessageType::kGet: {
        if (!s->pages.Decode(&body)) return Corrupt("malformed Set or Get");
        if (Status r = (*session)->Resolve(s->pages.segments, &s->resolved); !r.ok()) return r;
        const TimePoint start = Clock::now();
        s->flags.assign(s->pages.keys.size(), 0);
        if (type == MessageType::kSet) {
          s->sources.assign(s->resolved.segments.begin(), s->resolved.segments.end());
          pages_->Set(s->pages.keys, s->sources, s->pages.segments_per_page, s->pages.tag,
                      s->flags);
        } else {
          pages_->Get(s->pages.keys, s->resolved.segments, s->pages.segments_per_page, s->flags);
        }
        metrics_->Observe(type == MessageType::kSet ? Metrics::Op::kSet : Metrics::Op::kGet,
                          Clock::now() - start);
        s->resolved.regions.clear();
        EncodeFlags(s->flags, &s->answer);
        return {};
      }
      case MessageType::kExists: {
        if (!DecodeKeys(&body, &s->keys)) return Corrupt("malformed Exists");
        const TimePoint start = Clock::now();
        s->answer.Put(static_cast<uint32_t>(pages_->Exists(s->keys)));
        metrics_->Observe(Metrics::Op::kExists, Clock::now() - start);
        return {};
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

  Status Attach(FrameReader* body, std::shared_ptr<Session>* session, FrameWriter* answer) {
    AttachRequest request;
    if (!request.Decode(body)) return Corrupt("malformed Attach");
    if (*session) return Corrupt("attached already");
    if (request.session == 0) wait_joined_();
    {
      std::lock_guard lock(mutex_);
      std::erase_if(sessions_, [](const auto& entry) { return entry.expired(); });
      for (const auto& entry : sessions_) {
        auto known = entry.lock();
        if (known && known->id() == request.session) *session = std::move(known);
      }
      if (!*session && request.session != 0) {
        return {Code::kAborted, "unknown session: the node has restarted since"};
      }
      if (*session && session->use_count() > kMaxConnectionsPerEngine) {
        return ResourceExhausted(
            fmt::format("an engine may have at most {} connections", kMaxConnectionsPerEngine));
      }
      if (!*session) {
        if (sessions_.size() >= options_.max_engines) {
          return ResourceExhausted(fmt::format(
              "{} engines are attached already; raise --max-engines", options_.max_engines));
        }
        *session = std::make_shared<Session>(NewId(), request.engine, request.version);
        sessions_.push_back(*session);
        spdlog::info("engine {} attached (client {})", request.engine, request.version);
      }
    }
    AttachOk{(*session)->id(), options_.node_id, kVersion}.Encode(answer);
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
  Metrics* const metrics_;
  Counters* const counters_;
  const std::function<void()> wait_joined_;
  const std::function<Status(uint64_t)> clear_;
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  std::random_device random_;
  std::list<Connection> connections_;
  std::vector<std::weak_ptr<Session>> sessions_;
  std::thread acceptor_;
};

EngineServer::EngineServer(UniqueFd listener, EngineServerOptions options, Pages* pages,
                           Metrics* metrics, Counters* counters, std::function<void()> wait_joined,
                           std::function<Status(uint64_t)> clear)
    : impl_(std::make_unique<Impl>(std::move(listener), std::move(options), pages, metrics,
                                   counters, std::move(wait_joined), std::move(clear))) {}
EngineServer::~EngineServer() = default;
std::vector<EngineInfo> EngineServer::engines() const { return impl_->engines(); }

}  // namespace peercache
