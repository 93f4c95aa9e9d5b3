#include "transport/tcp/channel.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "base/iovec.h"
#include "transport/tcp/socket.h"

namespace peercache {
namespace {

// iovecs handed to one readv; the kernel takes at most IOV_MAX (1024).
constexpr size_t kIovecsPerCall = 256;
// While a payload arrives, the thread is woken for this much at once. Waking it for every segment
// costs a third of the throughput; with much more, the copy of the last part starts late.
constexpr uint64_t kLowWater = 128 << 10;

}  // namespace

Channel::Channel(PeerAddress address, const Hello& hello) : address_(std::move(address)) {
  hello_.Start(MessageType::kHello, 0);
  hello.Encode(&hello_);
  hello_.Finish();
}

void Channel::Begin(std::span<const std::byte> request, PayloadSink* sink, TimePoint now) {
  FrameHeader header;
  std::memcpy(&header, request.data(), sizeof(header));
  request_id_ = header.request_id;
  unsent_ = request;
  sink_ = sink;
  status_ = {};
  stale_ = false;
  got_bytes_ = false;
  last_progress_ = now;
  if (fd_) {
    state_ = State::kSending;
  } else {
    Connect(now);
  }
  Advance(now);
}

short Channel::events() const {
  return state_ == State::kConnecting || state_ == State::kSending ? POLLOUT : POLLIN;
}

void Channel::Connect(TimePoint) {
  greeted_ = false;
  served_ = false;
  low_water_ = 1;
  unsent_hello_ = hello_.bytes();
  auto fd = StartConnect(address_.host, address_.port);
  if (!fd.ok()) {
    Fail(fd.status());
    return;
  }
  fd_ = std::move(*fd);
  state_ = State::kConnecting;
}

void Channel::Advance(TimePoint now) {
  for (;;) {
    switch (state_) {
      case State::kIdle:
      case State::kFailed: return;
      case State::kConnecting: {
        pollfd entry{fd_.get(), POLLOUT, 0};
        if (poll(&entry, 1, 0) <= 0) return;
        int error = 0;
        socklen_t size = sizeof(error);
        getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
        if (error != 0) {
          OnClosed("connecting", error);
          return;
        }
        last_progress_ = now;
        state_ = State::kSending;
        break;
      }
      case State::kSending:
        if (!Send(now)) return;
        StartReceiving();
        return;  // no answer can be here yet
      case State::kHelloHeader:
      case State::kHeader:
        if (!Receive({reinterpret_cast<std::byte*>(&header_), sizeof(header_)}, now)) return;
        OnHeader();
        break;
      case State::kHelloBody:
      case State::kBody:
        if (!Receive(body_, now)) return;
        OnBody();
        break;
      case State::kPayload:
        if (!ReceivePayload(now)) return;
        SetLowWater(1);
        Finish();
        break;
    }
  }
}

bool Channel::Send(TimePoint now) {
  while (!unsent_hello_.empty() || !unsent_.empty()) {
    iovec parts[2] = {{const_cast<std::byte*>(unsent_hello_.data()), unsent_hello_.size()},
                      {const_cast<std::byte*>(unsent_.data()), unsent_.size()}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    const ssize_t n = sendmsg(fd_.get(), &message, MSG_NOSIGNAL);
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) return false;
      OnClosed("sending", errno);
      return false;
    }
    last_progress_ = now;
    size_t sent = static_cast<size_t>(n);
    const size_t of_hello = std::min(sent, unsent_hello_.size());
    unsent_hello_ = unsent_hello_.subspan(of_hello);
    unsent_ = unsent_.subspan(sent - of_hello);
  }
  return true;
}

void Channel::StartReceiving() {
  received_ = 0;
  state_ = greeted_ ? State::kHeader : State::kHelloHeader;
}

bool Channel::Receive(std::span<std::byte> part, TimePoint now) {
  while (received_ < part.size()) {
    const ssize_t n = recv(fd_.get(), part.data() + received_, part.size() - received_, 0);
    if (n == 0) {
      OnClosed("receiving", 0);
      return false;
    }
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) return false;
      OnClosed("receiving", errno);
      return false;
    }
    got_bytes_ = true;
    last_progress_ = now;
    received_ += static_cast<size_t>(n);
  }
  received_ = 0;
  return true;
}

void Channel::OnHeader() {
  if (Status s = CheckHeader(header_); !s.ok()) {
    Fail(s.Annotate(fmt::format("answer of {}:{}", address_.host, address_.port)));
    return;
  }
  body_.resize(header_.body_length);
  state_ = state_ == State::kHelloHeader ? State::kHelloBody : State::kBody;
}

void Channel::OnBody() {
  if (header_.type == MessageType::kError) {
    ErrorMessage error;
    FrameReader reader(body_);
    if (!error.Decode(&reader)) error.status = Corrupt("malformed Error frame");
    Fail(error.status.Annotate(fmt::format("{}:{} says", address_.host, address_.port)));
    return;
  }
  if (state_ == State::kHelloBody) {
    HelloOk hello;
    FrameReader reader(body_);
    if (header_.type != MessageType::kHelloOk || !hello.Decode(&reader)) {
      Fail(Corrupt("malformed HelloOk"));
      return;
    }
    greeted_ = true;
    peer_incarnation_ = hello.incarnation;
    state_ = State::kHeader;
    return;
  }
  if (header_.request_id != request_id_) {
    Fail(
        Corrupt(fmt::format("answer to request {}, expected {}", header_.request_id, request_id_)));
    return;
  }
  if (header_.payload_length == 0) {
    if (sink_ != nullptr) {
      destinations_.clear();
      if (Status s = sink_->Accept(FrameReader(body_), 0, &destinations_); !s.ok()) {
        Fail(s);
        return;
      }
    }
    Finish();
    return;
  }
  destinations_.clear();
  destination_ = 0;
  payload_left_ = header_.payload_length;
  const Status accepted = sink_ == nullptr
                              ? Corrupt("payload where none is due")
                              : sink_->Accept(FrameReader(body_), payload_left_, &destinations_);
  if (!accepted.ok()) {
    Fail(accepted);
    return;
  }
  state_ = State::kPayload;
}

bool Channel::ReceivePayload(TimePoint now) {
  while (payload_left_ > 0) {
    const size_t count = std::min(kIovecsPerCall, destinations_.size() - destination_);
    const ssize_t n =
        readv(fd_.get(), destinations_.data() + destination_, static_cast<int>(count));
    if (n == 0) {
      OnClosed("receiving pages", 0);
      return false;
    }
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) {
        SetLowWater(static_cast<int>(std::min(payload_left_, kLowWater)));
        return false;
      }
      OnClosed("receiving pages", errno);
      return false;
    }
    last_progress_ = now;
    payload_left_ -= static_cast<uint64_t>(n);
    destination_ = SkipMoved(destinations_, destination_, static_cast<size_t>(n));
  }
  return true;
}

void Channel::Finish() {
  finished_ = Clock::now();  // read now: `now` is older than the last bytes
  served_ = true;
  state_ = State::kIdle;
}

void Channel::SetLowWater(int bytes) {
  if (bytes == low_water_) return;
  low_water_ = bytes;
  setsockopt(fd_.get(), SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes));
}

void Channel::OnClosed(std::string_view doing, int error) {
  const bool stale = served_ && !got_bytes_;
  std::string what = fmt::format("{}:{}: {}", address_.host, address_.port, doing);
  if (error == EFAULT) {  // our own destination is gone (an engine shrank its memory): not the peer
    Fail(InvalidArgument(what + ": the destination is not mapped any more"));
    return;
  }
  Fail(error == 0 ? Unavailable(what + ": closed by the peer") : FromErrno(what, error));
  stale_ = stale;
}

void Channel::Fail(Status status) {
  fd_.Reset();
  status_ = std::move(status);
  state_ = State::kFailed;
}

void RunAll(std::span<Channel* const> channels, const GroupLimits& limits) {
  std::vector<pollfd> polls;
  std::vector<Channel*> polled;
  for (;;) {
    polls.clear();
    polled.clear();
    TimePoint now = Clock::now();
    TimePoint wake = limits.deadline;
    for (Channel* channel : channels) {
      if (channel->done()) continue;
      const TimePoint limit = std::min(limits.deadline, channel->last_progress() + limits.stall);
      if (now >= limit) {
        channel->Fail(DeadlineExceeded(now >= limits.deadline ? "the call's time is up"
                                                              : "the peer made no progress"));
        continue;
      }
      wake = std::min(wake, limit);
      polls.push_back({channel->fd(), channel->events(), 0});
      polled.push_back(channel);
    }
    if (polls.empty()) return;
    const auto wait = std::chrono::duration_cast<std::chrono::nanoseconds>(wake - now).count();
    const timespec timeout{wait / 1'000'000'000, wait % 1'000'000'000};
    const int n = ppoll(polls.data(), polls.size(), &timeout, nullptr);
    if (n <= 0) continue;
    now = Clock::now();
    for (size_t i = 0; i < polls.size(); ++i) {
      if (polls[i].revents != 0) polled[i]->Advance(now);
    }
  }
}

}  // namespace peercache
