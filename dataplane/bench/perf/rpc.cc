#include "rpc.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "load.h"
#include "measure.h"
#include "transport/tcp/channel.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/stream.h"
#include "wire/stream.h"

namespace peercache::perf {
namespace {

constexpr uint64_t kReader = 0x70657266;  // any node id that is no member's

Hello HelloOf(const RpcTarget& target) { return {target.cluster, "", kReader, 1}; }

// Null: the node speaks without TLS.
Result<std::unique_ptr<Tls>> TlsOf(const RpcTarget& target) {
  if (target.tls.cert.empty()) return std::unique_ptr<Tls>();
  return Tls::Load(target.tls, Tls::kLookEvery);
}

std::span<const std::byte> LookupFrame(uint64_t number, FrameWriter* frame) {
  const Key key = KeyOf(number);
  frame->Start(MessageType::kLookup, 1);
  EncodeLookup(kReader, {}, {&key, 1}, frame);
  return frame->Finish();
}

Result<nlohmann::json> One(Channel* channel, const std::function<bool()>& more, Work* work) {
  FrameWriter frame;
  while (more()) {
    const TimePoint start = Clock::now();
    channel->Begin(LookupFrame(work->calls, &frame), nullptr, start);
    RunAll({&channel, 1}, {milliseconds(1000), start + milliseconds(1000)});
    if (!channel->status().ok()) return channel->status();
    work->latencies.push_back(Clock::now() - start);
    ++work->calls;
  }
  return nlohmann::json{};
}

}  // namespace

Result<nlohmann::json> RpcLatency(const RpcTarget& target, double seconds, pid_t server) {
  auto tls = TlsOf(target);
  if (!tls.ok()) return tls.status();
  Channel channel({target.host, target.port}, HelloOf(target), tls->get());
  Work warm, work;
  auto result = One(
      &channel, [&] { return warm.calls < 1000; }, &warm);
  if (!result.ok()) return result.status();
  Stopwatch watch({server});
  watch.Start();
  const TimePoint end = Clock::now() + Duration(static_cast<int64_t>(seconds * 1e9));
  result = One(
      &channel, [&] { return Clock::now() < end; }, &work);
  watch.Stop();
  if (!result.ok()) return result.status();
  return watch.Result({&work, 1});
}

namespace {

// A connection whose bytes are moved as they come, plain or in TLS.
class Pipe {
 public:
  static Result<Pipe> Open(const RpcTarget& target, const Tls* tls, TimePoint deadline) {
    auto fd = StartConnect(target.host, target.port);
    if (!fd.ok()) return fd.status();
    if (auto w = WaitFor(fd->get(), POLLOUT, deadline); !w.ok() || !*w)
      return Unavailable(fmt::format("{}:{} does not answer", target.host, target.port));
    Pipe pipe;
    pipe.stream_ = Stream(fd->get(), tls != nullptr ? tls->Connecting(fd->get()) : nullptr);
    pipe.fd_ = std::move(*fd);
    const auto shaken = pipe.Until([&] { return pipe.stream_.Handshake(); }, deadline);
    if (!shaken.ok()) return shaken.status();
    return pipe;
  }

  // Bytes moved, 0: none can be now.
  Result<size_t> Send(std::span<const std::byte> bytes) {
    const iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
    const Moved sent = stream_.Send({&part, 1}, Stream::More::kLast);
    if (auto bytes_sent = Count(sent, "sending lookups"); !bytes_sent.ok()) return bytes_sent;
    // With TLS, what was taken may not have left; the next call flushes it too.
    if (auto flushed = Count(stream_.Flush(), "sending lookups"); !flushed.ok()) return flushed;
    return sent.bytes;
  }
  Result<size_t> Receive(std::span<std::byte> bytes) {
    return Count(stream_.Receive(bytes), "receiving answers");
  }
  Status SendAll(std::span<const std::byte> bytes, TimePoint deadline) {
    while (!bytes.empty()) {
      auto n = Send(bytes);
      if (!n.ok()) return n.status();
      bytes = bytes.subspan(*n);
      if (Status s = *n == 0 ? Wait(POLLOUT, deadline) : Status(); !s.ok()) return s;
    }
    return {};
  }
  Status ReceiveAll(std::span<std::byte> bytes, TimePoint deadline) {
    while (!bytes.empty()) {
      auto n = Receive(bytes);
      if (!n.ok()) return n.status();
      bytes = bytes.subspan(*n);
      if (Status s = *n == 0 ? Wait(POLLIN, deadline) : Status(); !s.ok()) return s;
    }
    return {};
  }
  Status Wait(short events, TimePoint deadline) const {
    auto ready = WaitFor(fd_.get(), events, deadline);
    if (!ready.ok()) return ready.status();
    return *ready ? Status() : DeadlineExceeded("the node does not answer");
  }

 private:
  Pipe() = default;
  template <typename Step>
  Result<size_t> Until(const Step& step, TimePoint deadline) {
    for (;;) {
      const Moved moved = step();
      auto n = Count(moved, "TLS handshake");
      if (!n.ok() || moved.io == Io::kMoved) return n;
      if (Status s = Wait(moved.io == Io::kWantsRead ? POLLIN : POLLOUT, deadline); !s.ok())
        return s;
    }
  }
  Result<size_t> Count(const Moved& moved, const char* doing) const {
    if (moved.io == Io::kClosed || moved.io == Io::kFailed) return stream_.Failure(doing);
    return moved.io == Io::kMoved ? moved.bytes : size_t{0};
  }

  UniqueFd fd_;
  Stream stream_;  // over fd_
};

}  // namespace

Result<nlohmann::json> RpcRate(const RpcTarget& target, size_t window, double seconds,
                               pid_t server) {
  auto tls = TlsOf(target);
  if (!tls.ok()) return tls.status();
  const TimePoint deadline =
      Clock::now() + milliseconds(5000) + Duration(static_cast<int64_t>(seconds * 1e9));
  auto opened = Pipe::Open(target, tls->get(), deadline);
  if (!opened.ok()) return opened.status();
  Pipe& pipe = *opened;
  FrameWriter hello;
  hello.Start(MessageType::kHello, 0);
  HelloOf(target).Encode(&hello);
  if (Status s = pipe.SendAll(hello.Finish(), deadline); !s.ok()) return s;
  FrameHeader header;
  if (Status s = pipe.ReceiveAll(std::as_writable_bytes(std::span(&header, 1)), deadline); !s.ok())
    return s;
  if (Status s = CheckHeader(header); !s.ok()) return s;
  std::vector<std::byte> body(header.body_length);
  if (Status s = pipe.ReceiveAll(body, deadline); !s.ok()) return s;
  if (header.type == MessageType::kError) {
    ErrorMessage error;
    FrameReader reader(body);
    return error.Decode(&reader) ? error.status : Corrupt("malformed Error from the node");
  }

  std::vector<std::byte> requests;
  FrameWriter frame;
  for (uint64_t i = 0; i < window; ++i) {
    const auto bytes = LookupFrame(i, &frame);
    requests.insert(requests.end(), bytes.begin(), bytes.end());
  }
  const size_t request_size = requests.size() / window;
  // Answers are all of one size: a record.
  const size_t answer_size = sizeof(FrameHeader) + sizeof(uint32_t) + sizeof(Record);
  std::vector<std::byte> received(256 << 10);
  Work work;
  Stopwatch watch({server});
  watch.Start();
  const TimePoint end = Clock::now() + Duration(static_cast<int64_t>(seconds * 1e9));
  size_t credit = window * request_size;  // bytes of requests that may be sent
  size_t partial = 0;                     // bytes of an unfinished answer
  size_t at = 0;
  while (Clock::now() < end) {
    short events = POLLIN;
    if (credit > 0) {
      const auto n =
          pipe.Send(std::span(requests).subspan(at, std::min(credit, requests.size() - at)));
      if (!n.ok()) return n.status();
      credit -= *n;
      at = (at + *n) % requests.size();
      if (*n == 0) events |= POLLOUT;
    }
    const auto n = pipe.Receive(received);
    if (!n.ok()) return n.status();
    if (*n == 0) {
      if (Status s = pipe.Wait(events, deadline); !s.ok()) return s;
      continue;
    }
    partial += *n;
    work.calls += partial / answer_size;
    credit += partial / answer_size * request_size;
    partial %= answer_size;
  }
  watch.Stop();
  return watch.Result({&work, 1});
}

}  // namespace peercache::perf
