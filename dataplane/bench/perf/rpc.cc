#include "rpc.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <functional>

#include "load.h"
#include "measure.h"
#include "transport/tcp/channel.h"
#include "transport/tcp/socket.h"
#include "wire/stream.h"

namespace peercache::perf {
namespace {

constexpr uint64_t kReader = 0x70657266;  // any node id that is no member's

Hello HelloOf(const RpcTarget& target) { return {target.cluster, "", kReader, 1}; }

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
  Channel channel({target.host, target.port}, HelloOf(target));
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

Result<nlohmann::json> RpcRate(const RpcTarget& target, size_t window, double seconds,
                               pid_t server) {
  auto fd = StartConnect(target.host, target.port);
  if (!fd.ok()) return fd.status();
  const TimePoint deadline =
      Clock::now() + milliseconds(5000) + Duration(static_cast<int64_t>(seconds * 1e9));
  if (auto w = WaitFor(fd->get(), POLLOUT, deadline); !w.ok() || !*w)
    return Unavailable(fmt::format("{}:{} does not answer", target.host, target.port));
  FrameWriter hello;
  hello.Start(MessageType::kHello, 0);
  HelloOf(target).Encode(&hello);
  ReceivedFrame answer;
  if (Status s = SendFrame(fd->get(), hello.Finish(), -1, deadline); !s.ok()) return s;
  if (Status s = ReceiveFrame(fd->get(), deadline, &answer); !s.ok()) return s;

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
      const size_t size = std::min(credit, requests.size() - at);
      const ssize_t n = send(fd->get(), requests.data() + at, size, MSG_NOSIGNAL);
      if (n > 0) {
        credit -= static_cast<size_t>(n);
        at = (at + static_cast<size_t>(n)) % requests.size();
      } else if (errno != EAGAIN) {
        return FromErrno("sending lookups", errno);
      } else {
        events |= POLLOUT;
      }
    }
    const ssize_t n = recv(fd->get(), received.data(), received.size(), 0);
    if (n == 0) return Unavailable("the node closed the connection");
    if (n < 0) {
      if (errno != EAGAIN) return FromErrno("receiving answers", errno);
      if (auto w = WaitFor(fd->get(), events, deadline); !w.ok()) return w.status();
      continue;
    }
    partial += static_cast<size_t>(n);
    work.calls += partial / answer_size;
    credit += partial / answer_size * request_size;
    partial %= answer_size;
  }
  watch.Stop();
  return watch.Result({&work, 1});
}

}  // namespace peercache::perf
