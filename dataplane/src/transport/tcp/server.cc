#include "transport/tcp/server.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <asio.hpp>
#if __has_include(<asio/as_tuple.hpp>)  // since 1.24; Debian 12 has 1.22
#include <asio/as_tuple.hpp>
#else
#include <asio/experimental/as_tuple.hpp>
#endif
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <thread>
#include <vector>

#include "base/give_back.h"
#include "base/iovec.h"
#include "transport/peer_key.h"
#include "transport/tcp/peer_connection.h"

namespace peercache {
namespace {

using asio::awaitable;
using asio::ip::tcp;
#if __has_include(<asio/as_tuple.hpp>)
using asio::as_tuple;
#else
using asio::experimental::as_tuple;
#endif
constexpr auto kAwait = as_tuple(asio::use_awaitable);

// Before Hello nobody is trusted with memory.
constexpr uint32_t kMaxBodyBeforeHello = Inbox::kFirst - sizeof(FrameHeader);
// Parts that are sent at once, when pages are copied into the socket.
constexpr size_t kPartsPerCall = 256;
// What a peer must take at least, beyond write_stall: 64 MiB/s of pages, as readers expect them
// (node/batch/deadline.h); and send, beyond frame_limit: an eighth of that.
constexpr uint64_t kPageBytesPerMilli = 64 << 10;
constexpr uint64_t kFrameBytesPerMilli = kPageBytesPerMilli / 8;
// Answers that wait for the end of what was received together; a small request can have a large
// answer.
constexpr size_t kMaxWaiting = 1 << 20;
// How often strangers whose source has failed too often look whether it is their turn.
constexpr Duration kTurn = milliseconds(50);
// How often acknowledgements are looked for, of connections without a next request.
constexpr Duration kSettle = milliseconds(10);
constexpr char kUnexpectedTls[] =
    "the peer speaks TLS, this node does not: give all nodes of the cluster tls-cert-file, "
    "tls-key-file and tls-ca-file, or none";
// A record of type handshake; ours begin with 'P'.
bool LooksLikeTls(std::byte first, std::byte second) {
  return first == std::byte{0x16} && second == std::byte{0x03};
}
// Lines in the log about strangers that were refused, per thread.
constexpr RateLimit kComplaints{std::chrono::seconds(10), 6};

}  // namespace

class TcpServer::Impl {
 public:
  Impl(Listener listener, PeerService* service, TcpServerOptions options)
      : service_(service), options_(options), port_(listener.port), gate_(options.gate) {
    for (uint32_t i = 0; i < std::max(1u, options_.threads); ++i) {
      lanes_.push_back(std::make_unique<Lane>());
    }
    sockaddr_storage bound{};
    socklen_t size = sizeof(bound);
    getsockname(listener.fd.get(), reinterpret_cast<sockaddr*>(&bound), &size);
    const auto family = bound.ss_family == AF_INET6 ? tcp::v6() : tcp::v4();
    tcp::acceptor acceptor(lanes_[0]->context, family, listener.fd.Release());
    asio::co_spawn(lanes_[0]->context, Accept(std::move(acceptor)), asio::detached);
    for (auto& lane : lanes_) {
      asio::co_spawn(lane->context, Sweep(lane.get()), asio::detached);
      asio::co_spawn(lane->context, SettleAll(lane.get()), asio::detached);
      asio::co_spawn(lane->context, GrantAll(lane.get()), asio::detached);
      lane->thread = std::thread([&context = lane->context] {
        // splice() to a connection that was closed raises it, and has no flag against that.
        sigset_t pipe_signal;
        sigemptyset(&pipe_signal);
        sigaddset(&pipe_signal, SIGPIPE);
        pthread_sigmask(SIG_BLOCK, &pipe_signal, nullptr);
        context.run();
      });
    }
  }

  ~Impl() {
    for (auto& lane : lanes_) lane->context.stop();
    for (auto& lane : lanes_) lane->thread.join();
  }

  uint16_t port() const { return port_; }
  TcpServerStats stats() const {
    TcpServerStats s;
    s.connections = connections_;
    s.accepted = accepted_;
    s.strangers = strangers_;
    s.bad_frames = bad_frames_;
    s.bytes_sent = bytes_sent_;
    s.refused = refused_;
    s.too_slow = too_slow_;
    s.crowded_out = crowded_out_;
    s.source_crowded_out = source_crowded_out_;
    s.unfinished = unfinished_;
    s.distrusted = distrusted_;
    s.gate = gate_.stats();
    return s;
  }

 private:
  using Connection = PeerConnection;
  using Lane = PeerLane;

  awaitable<void> Accept(tcp::acceptor acceptor) {
    for (size_t next = 0;; ++next) {
      Lane* lane = lanes_[next % lanes_.size()].get();
      tcp::endpoint from;
      auto [error, socket] = co_await acceptor.async_accept(lane->context, from, kAwait);
      if (error) {
        // Out of descriptors, mostly: wait instead of spinning.
        asio::steady_timer pause(acceptor.get_executor(), milliseconds(50));
        co_await pause.async_wait(kAwait);
        continue;
      }
      if (connections_ >= options_.max_connections) {
        ++refused_;
        continue;
      }
      auto visit = gate_.Admit(SourceOf(from.data()), Clock::now());
      ++connections_;
      ++accepted_;
      asio::co_spawn(lane->context, Serve(lane, std::move(socket), std::move(visit)),
                     asio::detached);
    }
  }

  // Disconnects peers that do not take their answers, because they hold pins, or do not finish
  // their requests, because they hold memory, and strangers that do not greet.
  awaitable<void> Sweep(Lane* lane) {
    const auto every = std::min<Duration>(std::chrono::seconds(1), options_.hello_timeout / 2);
    asio::steady_timer timer(lane->context);
    for (;;) {
      timer.expires_after(every);
      co_await timer.async_wait(kAwait);
      const TimePoint now = Clock::now();
      while (!lane->strangers.empty() &&
             lane->strangers.front()->arrived < now - options_.hello_timeout) {
        Dismiss(lane->strangers.front(), &too_slow_);
      }
      const TimePoint limit = now - options_.write_stall;
      for (Connection* c : lane->connections) {
        if (c->writing || !c->in_flight.pages().empty()) {
          if (c->progress <= limit || c->write_until <= now) c->Close();
          continue;
        }
        // Between requests: a peer that asked at this moment asks again, on a new connection.
        if (!service_->Trusts(c->key)) {
          ++distrusted_;
          c->Close();
          continue;
        }
        const milliseconds more(c->in.wanted() / kFrameBytesPerMilli);
        if (c->in.began() && *c->in.began() + options_.frame_limit + more <= now) {
          ++unfinished_;
          c->Close();
          continue;
        }
        if (!std::exchange(c->worked, false) && c->out.empty()) c->Rest();
      }
    }
  }

  // Wakes those for whose frames there is memory now, and makes room for the others.
  awaitable<void> GrantAll(Lane* lane) {
    for (;;) {
      lane->grant.expires_after(lane->waiting.empty() ? Duration::max() : FrameMemory::kLook);
      co_await lane->grant.async_wait(kAwait);
      if (lane->waiting.empty()) continue;
      options_.memory->LookRound(Clock::now());
      for (Connection* c : lane->waiting)
        if (HasMemory(c)) c->granted.cancel();
    }
  }

  bool HasMemory(const Connection* c) const {
    return c->awaits_turn ? !options_.memory->over() : c->in.hold().granted();
  }

  // Until HasMemory. False: the connection is gone.
  awaitable<bool> AwaitMemory(Connection* c) {
    auto& waiting = c->lane->waiting;
    waiting.push_back(c);
    if (waiting.size() == 1) c->lane->grant.cancel();
    while (c->socket.is_open() && !HasMemory(c)) co_await c->granted.async_wait(kAwait);
    std::erase(waiting, c);
    co_return c->socket.is_open();
  }

  // Before a request is taken up while answers take more than all the memory: a small request can
  // have a large answer.
  awaitable<bool> Turn(Connection* c) {
    c->awaits_turn = true;
    const bool open = co_await AwaitMemory(c);
    c->awaits_turn = false;
    co_return open;
  }

  // Unpins what was acknowledged, also on connections that are asked for nothing more.
  awaitable<void> SettleAll(Lane* lane) {
    for (;;) {
      lane->settle.expires_after(lane->unsettled.empty() ? Duration::max() : kSettle);
      co_await lane->settle.async_wait(kAwait);
      std::erase_if(lane->unsettled, [](Connection* c) {
        c->unsettled = !c->Settle();
        return !c->unsettled;
      });
    }
  }

  // All bytes of the pages were sent.
  void Unsettled(Connection* c, bool by_reference) {
    if (!by_reference) return c->in_flight.Copied();
    c->in_flight.Sent(c->written);
    if (c->unsettled) return;
    c->unsettled = true;
    c->lane->unsettled.push_back(c);
    if (c->lane->unsettled.size() == 1) c->lane->settle.cancel();
  }

  // Until nothing is in flight. Requests that come one after the other do not wait: the next one
  // brings the acknowledgement.
  awaitable<bool> AllSettled(Connection* c) {
    asio::steady_timer timer(c->lane->context);
    while (!c->Settle()) {
      timer.expires_after(kSettle);
      co_await timer.async_wait(kAwait);
      if (!c->socket.is_open()) co_return false;
    }
    co_return true;
  }

  // Closes a stranger; its coroutine ends when it notices.
  void Dismiss(Connection* c, std::atomic<uint64_t>* reason) {
    ++*reason;
    c->Close();
    NoStranger(c);
  }

  void NoStranger(Connection* c) {
    --strangers_;
    c->visit.reset();
    c->lane->connections.splice(c->lane->connections.end(), c->lane->strangers, c->here);
  }

  awaitable<void> Serve(Lane* lane, tcp::socket socket, Gate::Visit visit) {
    Connection c(lane, std::move(socket), std::move(visit), options_);
    ++strangers_;
    c.here = lane->strangers.insert(lane->strangers.end(), &c);
    const size_t share = (options_.max_strangers + lanes_.size() - 1) / lanes_.size();
    if (c.visit->crowded()) {
      Connection* oldest = *std::ranges::find_if(lane->strangers, [&](const Connection* other) {
        return other->visit->SameSource(*c.visit);
      });
      if (oldest != &c) Dismiss(oldest, &source_crowded_out_);  // else they are on other threads
    }
    if (lane->strangers.size() > share) Dismiss(lane->strangers.front(), &crowded_out_);
    asio::error_code ignored;
    c.socket.non_blocking(true, ignored);
    c.socket.set_option(tcp::no_delay(true), ignored);
    c.socket.set_option(asio::socket_base::keep_alive(true), ignored);
    InFlight::ResetAtKill(c.socket.native_handle());
    for (bool open = !c.stream.encrypted() || co_await Handshake(&c); open;) {
      if (!co_await Receive(&c)) break;
      c.Settle();
      open = co_await HandleAll(lane, &c);
      c.in.Settle(Clock::now());
    }
    if (c.visit) NoStranger(&c);
    if (c.unsettled) std::erase(lane->unsettled, &c);
    lane->connections.erase(c.here);
    --connections_;
  }

  // The whole frames that have come. False: the connection is over.
  awaitable<bool> HandleAll(Lane* lane, Connection* c) {
    bool open = true;
    while (open) {
      const auto frame = NextFrame(c, &open);
      if (frame.empty()) break;
      const bool wait = options_.memory != nullptr && options_.memory->over();
      if (wait) open = co_await Turn(c);
      if (!open) break;
      Handle(c, frame, &open);
      c->in.Consume(frame.size());
      if (c->in.large()) c->in.Settle(Clock::now());
      if (c->greeted && c->visit) NoStranger(c);
      const bool large = !c->answer.pages.empty() || c->out.size() > kMaxWaiting;
      if (large && open) open = co_await Flush(lane, c);
    }
    if (c->out.empty()) co_return open;
    const bool sent = co_await Flush(lane, c);
    co_return open&& sent;
  }

  // False: it has failed, or the connection is gone.
  awaitable<bool> Handshake(Connection* c) {
    // Who is silent has not begun.
    Moved step{Io::kWantsRead};
    if (!co_await Again(c, step) || !co_await BeginHandshake(c)) co_return false;
    while ((step = c->stream.Handshake()).io != Io::kMoved) {
      if (co_await Again(c, step)) continue;
      if (step.io == Io::kFailed) OnFailedHandshake(c);
      if (c->visit && !c->stream.answered()) c->visit->Done();  // as by who looks for open ports
      co_return false;
    }
    if (c->visit) c->visit->Done();
    co_return true;
  }

  // Waits while its source has failed too often. False: the connection is gone.
  awaitable<bool> BeginHandshake(Connection* c) {
    asio::steady_timer timer(c->lane->context);
    while (c->visit && !c->visit->Begin(Clock::now())) {
      timer.expires_after(kTurn);
      co_await timer.async_wait(kAwait);
    }
    co_return c->visit.has_value();
  }

  void OnFailedHandshake(Connection* c) {
    const TlsFailure* failure = c->stream.tls_failure();
    if (failure == nullptr) return;  // it broke off
    if (c->visit) (void)OnFailedHello(c, {Code::kUnauthenticated, "TLS: " + failure->text});
    if (failure->problem != TlsProblem::kNoTls) return;
    // One of ours, perhaps, that was not told of TLS: it can read this.
    const Status reason(Code::kUnauthenticated,
                        "this node speaks TLS: set tls-cert-file, tls-key-file and tls-ca-file");
    FrameWriter answer;
    answer.Start(MessageType::kError, 0);
    ErrorMessage{reason}.Encode(&answer);
    const auto bytes = answer.Finish();
    (void)send(c->socket.native_handle(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  // At least a byte into `in`.
  awaitable<bool> Receive(Connection* c) {
    for (;;) {
      bool there = c->in.Ask(c->socket.native_handle());
      if (!there) there = co_await AwaitMemory(c);
      if (!there) co_return false;
      const auto room = c->in.Room();
      if (room.empty()) co_return false;
      if (!c->stream.encrypted()) {  // a system call less than to try and to wait
        auto [error, n] =
            co_await c->socket.async_read_some(asio::buffer(room.data(), room.size()), kAwait);
        if (error) co_return false;
        c->in.Arrived(n, Clock::now());
        co_return true;
      }
      const Moved moved = c->stream.Receive(room);  // TLS may have read ahead: before any wait
      if (moved.bytes > 0) c->in.Arrived(moved.bytes, Clock::now());
      if (moved.io == Io::kMoved) co_return true;
      if (!co_await Again(c, moved)) co_return false;
    }
  }

  // The next complete frame, or empty when more bytes are needed.
  std::span<const std::byte> NextFrame(Connection* c, bool* open) {
    const auto available = c->in.unread();
    if (available.size() < sizeof(FrameHeader)) return {};
    FrameHeader header;
    std::memcpy(&header, available.data(), sizeof(header));
    Status s = CheckHeader(header);
    if (!s.ok() && !c->greeted && LooksLikeTls(available[0], available[1]))
      s = Status(Code::kUnauthenticated, kUnexpectedTls);
    if (s.ok() && header.payload_length != 0) s = Corrupt("a request cannot carry a payload");
    if (s.ok() && !c->greeted &&
        (header.type != (c->expected ? MessageType::kProve : MessageType::kHello) ||
         header.body_length > kMaxBodyBeforeHello)) {
      s = Status(Code::kUnauthenticated, c->expected ? "the frame after Hello must be Prove"
                                                     : "the first frame must be Hello");
    }
    if (s.ok() && c->greeted && c->only_members && header.type != MessageType::kHeartbeat &&
        header.type != MessageType::kLeave) {
      s = Status(Code::kUnauthenticated,
                 "the caller has sent no dialled address: that is enough for membership only");
    }
    if (!s.ok()) {
      Refuse(c, header.request_id, s, open);
      return {};
    }
    const size_t size = sizeof(header) + header.body_length;
    if (available.size() >= size) {
      c->in.hold().Whole();
      return available.first(size);
    }
    c->in.Want(size);
    return {};
  }

  void Handle(Connection* c, std::span<const std::byte> frame, bool* open) {
    c->worked = true;
    FrameHeader header;
    std::memcpy(&header, frame.data(), sizeof(header));
    FrameReader body(frame.subspan(sizeof(header)));
    Status s;
    if (!c->greeted) {
      s = c->expected ? OnProve(c, header, body) : OnHello(c, header, body);
    } else {
      s = service_->OnRequest(header, body, &c->answer);
      if (c->answer.lent) c->lent = std::move(c->answer.lent);
    }
    if (!s.ok()) {
      Refuse(c, header.request_id, s, open);
      return;
    }
    uint64_t payload = 0;
    for (const PagePin& page : c->answer.pages) payload += page.payload().size();
    const auto bytes = c->answer.frame.Finish(payload);
    c->out.insert(c->out.end(), bytes.begin(), bytes.end());
  }

  Status OnHello(Connection* c, const FrameHeader& header, FrameReader body) {
    Hello hello;
    Greeting greeting;
    if (!hello.Decode(&body)) return Corrupt("malformed Hello");
    hello.machine = header.number;
    if (Status s = service_->OnHello(hello, &greeting); !s.ok()) return s;
    if (!greeting.proving) {
      c->greeted = true;
      c->answer.Start(MessageType::kHelloOk, header.request_id);
      greeting.Encode(&c->answer.frame);
      return {};
    }
    c->expected = greeting.proving->expected;
    c->key = greeting.proving->key;
    c->only_members = hello.to.empty();
    c->answer.Start(MessageType::kChallenge, header.request_id);
    greeting.proving->challenge.Encode(&c->answer.frame);
    return {};
  }

  static Status OnProve(Connection* c, const FrameHeader& header, FrameReader body) {
    ProveMessage message;
    if (!message.Decode(&body)) return Corrupt("malformed Prove");
    if (!Same(message.proof, *c->expected))
      return {Code::kUnauthenticated, "the caller does not have the cluster's secret"};
    c->expected.reset();
    c->greeted = true;
    c->answer.Start(MessageType::kProveOk, header.request_id);
    return {};
  }

  void Refuse(Connection* c, uint64_t request_id, const Status& status, bool* open) {
    ++bad_frames_;
    *open = false;
    if (c->visit && !OnFailedHello(c, status)) return;
    c->answer.Start(MessageType::kError, request_id);
    ErrorMessage{status}.Encode(&c->answer.frame);
    const auto bytes = c->answer.frame.Finish();
    c->out.insert(c->out.end(), bytes.begin(), bytes.end());
    spdlog::debug("peer refused: {}", status.ToString());
  }

  // False: it is not told why.
  bool OnFailedHello(Connection* c, const Status& status) {
    const TimePoint now = Clock::now();
    if (!c->visit->Failed(now)) return false;
    if (c->lane->complaints.Full(kComplaints, now) || !c->visit->TakeLine(now)) return true;
    c->lane->complaints.Add(kComplaints, now);
    asio::error_code ignored;
    spdlog::warn("a peer at {} was refused: {}",
                 c->socket.remote_endpoint(ignored).address().to_string(), status.ToString());
    return true;
  }

  // Sends `out` and then the answer's pages, whose pins are in flight then.
  awaitable<bool> Flush(Lane* lane, Connection* c) {
    uint64_t bytes = 0;
    for (const PagePin& page : c->answer.pages) bytes += page.payload().size();
    if (c->out.capacity() > FrameMemory::kFree)
      c->unsent.Take(c->out.capacity(), c->socket.native_handle());
    c->writing = true;
    c->progress = Clock::now();
    c->write_until = c->progress + options_.write_stall + milliseconds(bytes / kPageBytesPerMilli);
    bool good = c->answer.pages.empty() || co_await AllSettled(c);
    c->pages.assign(1, {c->out.data(), c->out.size()});
    good = good &&
           co_await Copy(c, 0, c->answer.pages.empty() ? Stream::More::kLast : Stream::More::kMore);
    c->pages.clear();
    c->out.clear();
    GiveBack(kKeptBytes, &c->out);
    if (c->answer.frame.bytes().size() > kKeptBytes) c->answer.frame = FrameWriter();
    c->unsent.Release();
    if (good && !c->answer.pages.empty()) {
      c->in_flight.Take(&c->answer.pages);
      for (const PagePin& page : c->in_flight.pages()) {
        const auto payload = page.payload();
        c->pages.push_back({const_cast<std::byte*>(payload.data()), payload.size()});
      }
      bool by_reference = false;
      good = co_await SendPages(lane, c, &by_reference);
      if (good) Unsettled(c, by_reference);
    }
    c->writing = false;
    co_return good;
  }

  // Through a pipe where that works, *by_reference then, else by copying, or encrypting.
  awaitable<bool> SendPages(Lane* lane, Connection* c, bool* by_reference) {
    size_t next = 0;
    if (!c->stream.encrypted() && pipes_work_.load(std::memory_order_relaxed)) {
      PagePipe pipe = TakePipe(lane);
      while (pipe.valid()) {
        uint64_t sent = 0;
        const auto progress = pipe.Send(c->socket.native_handle(), c->pages, &next, &sent);
        Progressed(c, sent);
        *by_reference = *by_reference || sent > 0;
        if (progress == PagePipe::Progress::kDone) {
          lane->pipes.push_back(std::move(pipe));
          co_return true;
        }
        if (progress == PagePipe::Progress::kFailed) co_return false;
        if (progress == PagePipe::Progress::kUnsupported) {
          if (pipes_work_.exchange(false))
            spdlog::warn("pages are copied on their way out: vmsplice is not allowed here");
          break;
        }
        if (!co_await Again(c, {Io::kWantsWrite})) co_return false;
      }
    }
    co_return co_await Copy(c, next, Stream::More::kLast);
  }

  static PagePipe TakePipe(Lane* lane) {
    if (lane->pipes.empty()) return PagePipe::Create();
    PagePipe pipe = std::move(lane->pipes.back());
    lane->pipes.pop_back();
    return pipe;
  }

  // Sends c->pages[next...].
  awaitable<bool> Copy(Connection* c, size_t next, Stream::More more) {
    while (next < c->pages.size()) {
      const size_t count = std::min(kPartsPerCall, c->pages.size() - next);
      const bool all = next + count == c->pages.size();
      const Moved moved = c->stream.Send(std::span(c->pages).subspan(next, count),
                                         all ? more : Stream::More::kMore);
      if (moved.io != Io::kMoved) {
        if (!co_await Again(c, moved)) co_return false;
        continue;
      }
      Progressed(c, moved.bytes);
      next = SkipMoved(c->pages, next, moved.bytes);
    }
    if (more == Stream::More::kMore) co_return true;
    for (Moved flushed; (flushed = c->stream.Flush()).io != Io::kMoved;) {
      if (!co_await Again(c, flushed)) co_return false;
    }
    co_return true;
  }

  // Waits for what a step lacks. False: there is no point in trying it again.
  awaitable<bool> Again(Connection* c, Moved moved) {
    if (moved.io != Io::kWantsRead && moved.io != Io::kWantsWrite) co_return false;
    auto [error] = co_await c->socket.async_wait(
        moved.io == Io::kWantsRead ? tcp::socket::wait_read : tcp::socket::wait_write, kAwait);
    co_return !error && c->socket.is_open();
  }

  // Notes progress for the sweeper.
  void Progressed(Connection* c, uint64_t bytes) {
    if (bytes == 0) return;
    c->progress = Clock::now();
    c->written += bytes;
    bytes_sent_.fetch_add(bytes, std::memory_order_relaxed);
  }

  PeerService* const service_;
  const TcpServerOptions options_;
  const uint16_t port_;
  Gate gate_;
  std::atomic<uint64_t> connections_{0}, strangers_{0}, accepted_{0}, bad_frames_{0},
      bytes_sent_{0};
  std::atomic<uint64_t> refused_{0}, too_slow_{0}, crowded_out_{0}, source_crowded_out_{0},
      unfinished_{0}, distrusted_{0};
  std::atomic<bool> pipes_work_{true};
  std::vector<std::unique_ptr<Lane>> lanes_;
};

TcpServer::TcpServer(Listener listener, PeerService* service, TcpServerOptions options)
    : impl_(std::make_unique<Impl>(std::move(listener), service, options)) {}
TcpServer::~TcpServer() = default;
uint16_t TcpServer::port() const { return impl_->port(); }
TcpServerStats TcpServer::stats() const { return impl_->stats(); }

}  // namespace peercache
