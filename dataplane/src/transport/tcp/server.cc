#include "transport/tcp/server.h"

#include <spdlog/spdlog.h>

#include <asio.hpp>
#include <asio/experimental/as_tuple.hpp>
#include <atomic>
#include <cstring>
#include <list>
#include <thread>
#include <vector>

namespace peercache {
namespace {

using asio::awaitable;
using asio::ip::tcp;
constexpr auto kAwait = asio::experimental::as_tuple(asio::use_awaitable);

constexpr size_t kReadBuffer = 64 << 10;
// Before Hello nobody is trusted with memory.
constexpr uint32_t kMaxBodyBeforeHello = 8 << 10;
// Buffers per gathered write: asio hands at most this many to one sendmsg anyway.
constexpr size_t kBuffersPerWrite = 64;

}  // namespace

class TcpServer::Impl {
 public:
  Impl(Listener listener, PeerService* service, TcpServerOptions options)
      : service_(service), options_(options), port_(listener.port) {
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
      lane->thread = std::thread([&context = lane->context] { context.run(); });
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
    s.refused = refused_;
    s.bad_frames = bad_frames_;
    s.bytes_sent = bytes_sent_;
    return s;
  }

 private:
  struct Connection {
    explicit Connection(tcp::socket s) : socket(std::move(s)), in(kReadBuffer) {}
    tcp::socket socket;
    std::vector<std::byte> in;
    size_t have = 0;  // bytes of `in` that are filled
    bool greeted = false;
    bool writing = false;
    TimePoint progress{};  // of the write in flight
    PeerAnswer answer;
    std::vector<std::byte> out;  // complete answers without pages, sent together
  };
  // One thread, its io_context and its connections; only that thread touches them.
  struct Lane {
    asio::io_context context{1};
    std::list<Connection*> connections;
    std::thread thread;
  };

  awaitable<void> Accept(tcp::acceptor acceptor) {
    for (size_t next = 0;; ++next) {
      Lane* lane = lanes_[next % lanes_.size()].get();
      auto [error, socket] = co_await acceptor.async_accept(lane->context, kAwait);
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
      ++accepted_;
      ++connections_;
      asio::co_spawn(lane->context, Serve(lane, std::move(socket)), asio::detached);
    }
  }

  // Disconnects peers that do not take their answers: they hold pins.
  awaitable<void> Sweep(Lane* lane) {
    asio::steady_timer timer(lane->context);
    for (;;) {
      timer.expires_after(std::chrono::seconds(1));
      co_await timer.async_wait(kAwait);
      const TimePoint limit = Clock::now() - options_.write_stall;
      for (Connection* c : lane->connections) {
        if (!c->writing || c->progress > limit) continue;
        asio::error_code ignored;
        c->socket.close(ignored);
      }
    }
  }

  awaitable<void> Serve(Lane* lane, tcp::socket socket) {
    Connection c(std::move(socket));
    const auto here = lane->connections.insert(lane->connections.end(), &c);
    asio::error_code ignored;
    c.socket.set_option(tcp::no_delay(true), ignored);
    c.socket.set_option(asio::socket_base::keep_alive(true), ignored);
    for (bool open = true; open;) {
      auto [error, n] = co_await c.socket.async_read_some(
          asio::buffer(c.in.data() + c.have, c.in.size() - c.have), kAwait);
      if (error) break;
      c.have += n;
      size_t used = 0;
      while (open) {
        const auto frame = NextFrame(&c, used, &open);
        if (frame.empty()) break;
        used += frame.size();
        Handle(&c, frame, &open);
        if (!c.answer.pages.empty() && open) open = co_await Flush(&c);
      }
      if (!c.out.empty()) open = co_await Flush(&c) && open;
      std::memmove(c.in.data(), c.in.data() + used, c.have - used);
      c.have -= used;
    }
    lane->connections.erase(here);
    --connections_;
  }

  // The next complete frame at `used`, or empty when more bytes are needed (room for them is made).
  std::span<const std::byte> NextFrame(Connection* c, size_t used, bool* open) {
    const size_t available = c->have - used;
    if (available < sizeof(FrameHeader)) return {};
    FrameHeader header;
    std::memcpy(&header, c->in.data() + used, sizeof(header));
    Status s = CheckHeader(header);
    if (s.ok() && header.payload_length != 0) s = Corrupt("a request cannot carry a payload");
    if (s.ok() && !c->greeted &&
        (header.type != MessageType::kHello || header.body_length > kMaxBodyBeforeHello)) {
      s = Status(Code::kUnauthenticated, "the first frame must be Hello");
    }
    if (!s.ok()) {
      Refuse(c, header.request_id, s, open);
      return {};
    }
    const size_t size = sizeof(header) + header.body_length;
    if (available >= size) return {c->in.data() + used, size};
    if (c->in.size() < used + size) c->in.resize(used + size);
    return {};
  }

  void Handle(Connection* c, std::span<const std::byte> frame, bool* open) {
    FrameHeader header;
    std::memcpy(&header, frame.data(), sizeof(header));
    FrameReader body(frame.subspan(sizeof(header)));
    Status s;
    if (!c->greeted) {
      Hello hello;
      HelloOk ok;
      s = hello.Decode(&body) ? service_->OnHello(hello, &ok) : Corrupt("malformed Hello");
      if (s.ok()) {
        c->greeted = true;
        c->answer.Start(MessageType::kHelloOk, header.request_id);
        ok.Encode(&c->answer.frame);
      }
    } else {
      s = service_->OnRequest(header, body, &c->answer);
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

  void Refuse(Connection* c, uint64_t request_id, const Status& status, bool* open) {
    ++bad_frames_;
    c->answer.Start(MessageType::kError, request_id);
    ErrorMessage{status}.Encode(&c->answer.frame);
    const auto bytes = c->answer.frame.Finish();
    c->out.insert(c->out.end(), bytes.begin(), bytes.end());
    *open = false;
    spdlog::debug("peer refused: {}", status.ToString());
  }

  // Sends `out` and then the answer's pages; releases the pins.
  awaitable<bool> Flush(Connection* c) {
    std::vector<asio::const_buffer> buffers;
    buffers.reserve(kBuffersPerWrite);
    buffers.emplace_back(c->out.data(), c->out.size());
    size_t next = 0;
    bool good = true;
    do {
      while (next < c->answer.pages.size() && buffers.size() < kBuffersPerWrite) {
        const auto payload = c->answer.pages[next++].payload();
        buffers.emplace_back(payload.data(), payload.size());
      }
      good = co_await Write(c, &buffers);
      buffers.clear();
    } while (good && next < c->answer.pages.size());
    c->answer.pages.clear();
    c->out.clear();
    co_return good;
  }

  // Writes all buffers, noting every progress for the sweeper.
  awaitable<bool> Write(Connection* c, std::vector<asio::const_buffer>* buffers) {
    size_t first = 0;
    c->writing = true;
    c->progress = Clock::now();
    while (first < buffers->size()) {
      auto [error, n] = co_await c->socket.async_write_some(
          std::span<const asio::const_buffer>(*buffers).subspan(first), kAwait);
      if (error) {
        c->writing = false;
        co_return false;
      }
      c->progress = Clock::now();
      bytes_sent_.fetch_add(n, std::memory_order_relaxed);
      while (first < buffers->size() && n >= (*buffers)[first].size())
        n -= (*buffers)[first++].size();
      if (n > 0) (*buffers)[first] += n;
    }
    c->writing = false;
    co_return true;
  }

  PeerService* const service_;
  const TcpServerOptions options_;
  const uint16_t port_;
  std::atomic<uint64_t> connections_{0}, accepted_{0}, refused_{0}, bad_frames_{0}, bytes_sent_{0};
  std::vector<std::unique_ptr<Lane>> lanes_;
};

TcpServer::TcpServer(Listener listener, PeerService* service, TcpServerOptions options)
    : impl_(std::make_unique<Impl>(std::move(listener), service, options)) {}
TcpServer::~TcpServer() = default;
uint16_t TcpServer::port() const { return impl_->port(); }
TcpServerStats TcpServer::stats() const { return impl_->stats(); }

}  // namespace peercache
