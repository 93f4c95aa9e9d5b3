#include "bare.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "base/fd.h"
#include "base/iovec.h"
#include "engine_memory.h"
#include "measure.h"
#include "transport/tcp/socket.h"
#include "wire/stream.h"

namespace peercache::perf {
namespace {

struct Pair {
  UniqueFd a, b;
};

Result<Pair> ConnectedPair() {
  UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener.get(), 1) != 0 ||
      getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return FromErrno("listening on loopback", errno);
  }
  Pair pair;
  pair.a = UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(pair.a.get(), reinterpret_cast<sockaddr*>(&address), size) != 0)
    return FromErrno("connecting over loopback", errno);
  pair.b = UniqueFd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!pair.b) return FromErrno("accepting over loopback", errno);
  const int on = 1;
  for (const int fd : {pair.a.get(), pair.b.get()}) {
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)SetCongestion(fd, "auto");  // as nodes have it
  }
  return pair;
}

// Runs `body` in a child that dies with us; Stop() ends it.
class Child {
 public:
  explicit Child(const std::function<void()>& body) : pid_(fork()) {
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    body();
    _exit(0);
  }
  ~Child() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  const pid_t pid_;
};

// Moves all bytes of the vectors with `call` (readv or writev); false when the other side is gone.
template <typename Call>
bool MoveAll(int fd, std::vector<iovec>* parts, const Call& call) {
  for (size_t first = 0; first < parts->size();) {
    const size_t count = std::min<size_t>(parts->size() - first, 256);
    ssize_t n = call(fd, parts->data() + first, static_cast<int>(count));
    if (n <= 0) {
      if (n < 0 && errno == EINTR) continue;
      return false;
    }
    first = SkipMoved(*parts, first, static_cast<size_t>(n));
  }
  return true;
}

// Sends the pages of `memory` round and round until the socket is closed. One page a call: larger
// gathered writes are slower, since they sleep for room in the socket more often.
void SendPages(int fd, const MappedRegion& memory, const Shape& shape, size_t first, size_t count) {
  std::vector<iovec> parts;
  for (size_t next = 0;; next = (next + 1) % count) {
    parts.assign(1, {memory.data() + (first + next) * shape.page_bytes, shape.page_bytes});
    if (!MoveAll(fd, &parts, writev)) return;
  }
}

Result<UniqueFd> Connected(const Sender& sender) {
  auto fd = StartConnect(sender.host, sender.port);
  if (!fd.ok()) return fd.status();
  const auto ready = WaitFor(fd->get(), POLLOUT, Clock::now() + std::chrono::seconds(5));
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(fd->get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (!ready.ok() || !*ready || error != 0) {
    return Unavailable(
        fmt::format("nobody sends bare pages at {}:{}; does a firewall keep the "
                    "hosts apart?",
                    sender.host, sender.port));
  }
  fcntl(fd->get(), F_SETFL, fcntl(fd->get(), F_GETFL) & ~O_NONBLOCK);
  return fd;
}

Result<MappedRegion> Pages(const char* name, size_t pages, const Shape& shape) {
  return WrittenMemory(name, pages * shape.page_bytes, shape.huge_pages);
}

// Runs step(thread) on every thread for shape.seconds after shape.warmup.
nlohmann::json RunThreads(const Shape& shape, std::vector<pid_t> cpu_of,
                          const std::function<void(size_t, Work*)>& step) {
  std::vector<Work> work(shape.threads), warm(shape.threads);
  std::atomic<int> phase{0};  // 0 warm-up, 1 measurement, 2 the end
  std::vector<std::thread> threads;
  for (size_t t = 0; t < shape.threads; ++t) {
    threads.emplace_back([&, t] {
      for (int now = 0; (now = phase.load(std::memory_order_acquire)) < 2;) {
        Work& w = now == 0 ? warm[t] : work[t];
        const TimePoint start = Clock::now();
        step(t, &w);
        ++w.calls;
        w.latencies.push_back(Clock::now() - start);
      }
    });
  }
  std::this_thread::sleep_for(Duration(static_cast<int64_t>(shape.warmup * 1e9)));
  Stopwatch watch(std::move(cpu_of));
  watch.Start();
  phase = 1;
  std::this_thread::sleep_for(Duration(static_cast<int64_t>(shape.seconds * 1e9)));
  phase = 2;
  watch.Stop();
  for (std::thread& t : threads) t.join();
  return watch.Result(work);
}

// The end of bare TCP that pages come to: a connection for each thread.
struct Receiver {
  EngineMemory to;
  std::vector<UniqueFd> connections;
  std::unique_ptr<Child> sender;  // over loopback
};

Status ConnectTo(const Sender& from, const Shape& shape, Receiver* receiver) {
  for (size_t t = 0; t < shape.threads; ++t) {
    auto fd = Connected(from);
    if (!fd.ok()) return fd.status();
    receiver->connections.push_back(std::move(*fd));
  }
  return {};
}

Status SendHere(const Shape& shape, Receiver* receiver) {
  auto memory = Pages("pages", shape.pages, shape);
  if (!memory.ok()) return memory.status();
  std::vector<Pair> pairs;
  for (size_t t = 0; t < shape.threads; ++t) {
    auto pair = ConnectedPair();
    if (!pair.ok()) return pair.status();
    pairs.push_back(std::move(*pair));
  }
  const size_t share = shape.pages / shape.threads;
  receiver->sender = std::make_unique<Child>([&] {
    for (Pair& pair : pairs) pair.b.Reset();
    std::vector<std::thread> threads;
    for (size_t t = 0; t < shape.threads; ++t)
      threads.emplace_back(
          [&, t] { SendPages(pairs[t].a.get(), *memory, shape, t * share, share); });
    for (std::thread& t : threads) t.join();
  });
  for (Pair& pair : pairs) receiver->connections.push_back(std::move(pair.b));
  return {};
}

nlohmann::json Receive(Receiver* receiver, const Shape& shape) {
  const size_t window = std::max(shape.window / shape.threads, shape.batch);
  std::vector<size_t> next(shape.threads);
  std::vector<std::vector<iovec>> parts(shape.threads);
  std::vector<Segment> segments(shape.threads * shape.segments);
  std::vector<pid_t> cpu_of;
  if (receiver->sender != nullptr) cpu_of.push_back(receiver->sender->pid());
  return RunThreads(shape, std::move(cpu_of), [&](size_t t, Work* work) {
    if (next[t] + shape.batch > window) next[t] = 0;
    parts[t].clear();
    const auto mine = std::span(segments).subspan(t * shape.segments, shape.segments);
    for (size_t i = 0; i < shape.batch; ++i) {
      receiver->to.SegmentsOf(t * window + next[t]++, mine);
      for (const Segment& s : mine)
        parts[t].push_back({reinterpret_cast<void*>(s.address), s.length});
    }
    if (!MoveAll(receiver->connections[t].get(), &parts[t], readv)) return;
    work->pages += shape.batch;
    work->bytes += shape.batch * shape.page_bytes;
  });
}

}  // namespace

Result<Measurement> Memcpy(const Shape& shape) {
  auto pool = EngineMemory::Create(shape);
  if (!pool.ok()) return pool.status();
  auto copies = Pages("copies", shape.pages, shape);
  if (!copies.ok()) return copies.status();
  const size_t window = std::max(shape.window / shape.threads, shape.batch);
  const size_t share = shape.pages / shape.threads;
  return Measurement([=, from = std::make_shared<EngineMemory>(std::move(*pool)),
                      to = std::make_shared<MappedRegion>(std::move(*copies))] {
    std::vector<std::pair<size_t, size_t>> next(shape.threads);  // page read, page written
    return RunThreads(shape, {}, [&](size_t t, Work* work) {
      auto& [in, out] = next[t];
      for (size_t i = 0; i < shape.batch; ++i) {
        std::memcpy(to->data() + (t * share + out) * shape.page_bytes,
                    from->bytes().data() + (t * window + in) * shape.page_bytes, shape.page_bytes);
        in = (in + 1) % window;
        out = (out + 1) % share;
      }
      work->pages += shape.batch;
      work->bytes += shape.batch * shape.page_bytes;
    });
  });
}

Status ServePages(const Shape& shape, uint16_t port) {
  auto from = Pages("pages", shape.pages, shape);
  if (!from.ok()) return from.status();
  auto listener = Listen("0.0.0.0", port);
  if (!listener.ok()) return listener.status();
  (void)SetCongestion(listener->fd.get(), "auto");
  fmt::print("{}\n", nlohmann::json{{"port", listener->port}}.dump());
  std::fflush(stdout);
  for (;;) {
    (void)WaitFor(listener->fd.get(), POLLIN, std::nullopt);
    UniqueFd receiver(accept4(listener->fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!receiver) continue;
    std::thread([&shape, &from, fd = std::move(receiver)] {
      SendPages(fd.get(), *from, shape, 0, shape.pages);
    }).detach();  // it ends with its connection
  }
}

Result<Measurement> TcpPages(const Shape& shape, const Sender& from) {
  auto receiver = std::make_shared<Receiver>();
  auto pool = EngineMemory::Create(shape);
  if (!pool.ok()) return pool.status();
  receiver->to = std::move(*pool);
  const Status connected =
      from.port != 0 ? ConnectTo(from, shape, receiver.get()) : SendHere(shape, receiver.get());
  if (!connected.ok()) return connected;
  return Measurement([=] { return Receive(receiver.get(), shape); });
}

Result<nlohmann::json> TcpPingPong(size_t message_bytes, double seconds) {
  auto pair = ConnectedPair();
  if (!pair.ok()) return pair.status();
  std::vector<std::byte> message(message_bytes);
  const auto move_all = [&](int fd, auto call) {
    for (size_t at = 0; at < message.size();) {
      const ssize_t n = call(fd, message.data() + at, message.size() - at);
      if (n <= 0) return false;
      at += static_cast<size_t>(n);
    }
    return true;
  };
  const auto send_all = [&](int fd) {
    return move_all(fd, [](int s, auto* p, size_t n) { return send(s, p, n, MSG_NOSIGNAL); });
  };
  const auto receive_all = [&](int fd) {
    return move_all(fd, [](int s, auto* p, size_t n) { return recv(s, p, n, 0); });
  };
  Child echo([&] {
    pair->a.Reset();
    while (receive_all(pair->b.get()) && send_all(pair->b.get())) {
    }
  });
  pair->b.Reset();
  Shape shape;
  shape.seconds = seconds;
  shape.warmup = 0.1;
  return RunThreads(shape, {echo.pid()}, [&](size_t, Work*) {
    if (send_all(pair->a.get())) receive_all(pair->a.get());
  });
}

}  // namespace peercache::perf
