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

#include "base/give_back.h"
#include "base/iovec.h"
#include "transport/tcp/socket.h"

namespace peercache {
namespace {

// While a payload arrives, the thread is woken for this much at once. Waking it for every segment
// costs a third of the throughput; with much more, the copy of the last part starts late.
constexpr uint64_t kLowWater = 128 << 10;

}  // namespace

Channel::Channel(PeerAddress address, Hello hello, const Tls* tls, std::optional<Proving> proving,
                 FrameMemory* memory)
    : address_(std::move(address)),
      tls_(tls),
      hello_(std::move(hello)),
      proving_(proving),
      body_(memory) {
  if (proving_) hello_.key = proving_->key.id;
}

void Channel::Begin(std::span<const std::byte> request, PayloadSink* sink, TimePoint now) {
  FrameHeader header;
  std::memcpy(&header, request.data(), sizeof(header));
  request_id_ = header.request_id;
  unsent_ = request;
  sink_ = sink;
  status_ = {};
  stale_ = false;
  refused_ = false;
  got_bytes_ = false;
  last_progress_ = now;
  if (fd_) {
    state_ = State::kSending;
  } else {
    Connect(now);
  }
  Advance(now);
}

void Channel::Connect(TimePoint) {
  greeted_ = false;
  challenged_ = false;
  served_ = false;
  low_water_ = 1;
  if (proving_) {
    auto nonce = FreshNonce();
    if (!nonce.ok()) {
      Fail(nonce.status());
      return;
    }
    hello_.nonce = *nonce;
  }
  greeting_.Start(MessageType::kHello, 0);
  hello_.Encode(&greeting_);
  unsent_hello_ = greeting_.Finish();
  errno = 0;  // of an address that is none, nobody has set it
  auto fd = StartConnect(address_.host, address_.port);
  if (!fd.ok()) {
    refused_ = errno == ECONNREFUSED;  // on one machine it is said at once
    Fail(fd.status());
    return;
  }
  fd_ = std::move(*fd);
  stream_ = Stream(fd_.get(), tls_ != nullptr ? tls_->Connecting(fd_.get()) : nullptr);
  state_ = State::kConnecting;
  events_ = POLLOUT;
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
          refused_ = error == ECONNREFUSED;
          OnBroken(FromErrno(Name() + ": connecting", error));
          return;
        }
        last_progress_ = now;
        state_ = stream_.encrypted() ? State::kHandshaking : State::kSending;
        break;
      }
      case State::kHandshaking:
        if (!Progressed(stream_.Handshake(), "TLS handshake", now)) return;
        state_ = State::kSending;
        break;
      case State::kSending:
        if (!Send(now)) return;
        StartReceiving();
        // No answer can be here yet. Of TLS, something may have been read ahead all the same.
        if (!stream_.encrypted()) return;
        break;
      case State::kHelloHeader:
      case State::kHeader:
        if (!Receive({reinterpret_cast<std::byte*>(&header_), sizeof(header_)}, now)) return;
        OnHeader();
        break;
      case State::kHelloBody:
      case State::kBody:
        if (!ReceiveBody(now)) return;
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

bool Channel::Progressed(const Moved& moved, std::string_view doing, TimePoint now) {
  switch (moved.io) {
    case Io::kMoved: last_progress_ = now; return true;
    case Io::kWantsRead: events_ = POLLIN; return false;
    case Io::kWantsWrite: events_ = POLLOUT; return false;
    case Io::kClosed:
    case Io::kFailed: break;
  }
  OnBroken(stream_.Failure(fmt::format("{}: {}", Name(), doing)));
  return false;
}

bool Channel::Send(TimePoint now) {
  // Whoever has proven nothing is told nothing.
  const bool alone = proving_ && !challenged_;
  while (!unsent_hello_.empty() || (!alone && !unsent_.empty())) {
    const iovec parts[2] = {{const_cast<std::byte*>(unsent_hello_.data()), unsent_hello_.size()},
                            {const_cast<std::byte*>(unsent_.data()), unsent_.size()}};
    const Moved moved = stream_.Send(std::span(parts, alone ? 1 : 2), Stream::More::kLast);
    if (!Progressed(moved, "sending", now)) return false;
    const size_t of_hello = std::min(moved.bytes, unsent_hello_.size());
    unsent_hello_ = unsent_hello_.subspan(of_hello);
    unsent_ = unsent_.subspan(moved.bytes - of_hello);
  }
  return Progressed(stream_.Flush(), "sending", now);
}

void Channel::StartReceiving() {
  received_ = 0;
  events_ = POLLIN;
  state_ = greeted_ ? State::kHeader : State::kHelloHeader;
}

bool Channel::Receive(std::span<std::byte> part, TimePoint now) {
  while (received_ < part.size()) {
    const Moved moved = stream_.Receive(part.subspan(received_));
    if (!Progressed(moved, "receiving", now)) return false;
    got_bytes_ = true;
    received_ += moved.bytes;
  }
  received_ = 0;
  return true;
}

// Memory grows with what has come, whatever was announced.
bool Channel::ReceiveBody(TimePoint now) {
  const size_t size = header_.body_length;
  for (;;) {
    const size_t part = std::min(size, body_.size());
    if (!Receive(body_.bytes().first(part), now)) return false;
    if (part == size) break;
    received_ = part;
    awaits_memory_ = !body_.Ask(part, size, fd_.get());
    if (awaits_memory_) {
      body_.hold().memory()->LookRound(now);
      return false;
    }
    if (!body_.Grow(part, size)) {
      Fail(ResourceExhausted("no memory for the answer"));
      return false;
    }
  }
  body_.hold().Whole();
  body_length_ = size;
  return true;
}

void Channel::Rest() {
  body_length_ = 0;
  body_.Shrink(0);
  GiveBack(kKeptBytes, &destinations_);
}

void Channel::OnHeader() {
  if (Status s = CheckHeader(header_); !s.ok()) {
    Fail(s.Annotate(fmt::format("answer of {}:{}", address_.host, address_.port)));
    return;
  }
  Rest();
  state_ = state_ == State::kHelloHeader ? State::kHelloBody : State::kBody;
}

void Channel::OnBody() {
  if (header_.type == MessageType::kError) {
    ErrorMessage error;
    FrameReader reader = body();
    if (!error.Decode(&reader)) error.status = Corrupt("malformed Error frame");
    Fail(error.status.Annotate(fmt::format("{}:{} answers", address_.host, address_.port)));
    return;
  }
  if (state_ == State::kHelloBody) {
    if (Status s = OnHelloBody(); !s.ok()) Fail(s.Annotate(Name()));
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
      if (Status s = sink_->Accept(body(), 0, &destinations_); !s.ok()) {
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
  const Status accepted = sink_ == nullptr ? Corrupt("payload where none is due")
                                           : sink_->Accept(body(), payload_left_, &destinations_);
  if (!accepted.ok()) {
    Fail(accepted);
    return;
  }
  state_ = State::kPayload;
}

Status Channel::OnHelloBody() {
  if (proving_ && !challenged_) return OnChallenge();
  FrameReader reader = body();
  if (proving_) {
    if (header_.type != MessageType::kProveOk || !reader.AtEnd())
      return Corrupt("malformed ProveOk");
  } else {
    HelloOk ok;
    if (header_.type != MessageType::kHelloOk || !ok.Decode(&reader))
      return Corrupt("malformed HelloOk");
    peer_incarnation_ = ok.incarnation;
    peer_machine_ = header_.number;
  }
  greeted_ = true;
  state_ = State::kHeader;
  return {};
}

Status Channel::OnChallenge() {
  Challenge challenge;
  FrameReader reader = body();
  if (header_.type != MessageType::kChallenge || !challenge.Decode(&reader))
    return {Code::kUnauthenticated, "it does not prove that it has the cluster's secret"};
  challenge.machine = header_.number;
  const auto own = Respond(proving_->key, hello_, challenge);
  if (!own.ok()) return own.status();
  if (proving_->node != 0 && proving_->node != challenge.node)
    return Unavailable(
        fmt::format("node {:016x} answers, not {:016x}", challenge.node, proving_->node));
  peer_incarnation_ = challenge.incarnation;
  peer_machine_ = challenge.machine;
  challenged_ = true;
  greeting_.Start(MessageType::kProve, 0);
  ProveMessage{*own}.Encode(&greeting_);
  unsent_hello_ = greeting_.Finish();
  state_ = State::kSending;
  return {};
}

bool Channel::ReceivePayload(TimePoint now) {
  while (payload_left_ > 0) {
    const size_t count = std::min(kIovecsPerCall, destinations_.size() - destination_);
    const bool granted = sink_->Enter();
    const Moved moved =
        granted ? stream_.ReceiveInto(std::span(destinations_).subspan(destination_, count))
                : Moved{};
    sink_->Leave();
    if (!granted) {
      Fail({Code::kAborted, "the destinations are written no more: no call waits for the answer"});
      return false;
    }
    if (!Progressed(moved, "receiving pages", now)) {
      // Inside TLS, bytes that are read ahead would be waited for in vain.
      if (moved.io == Io::kWantsRead && !stream_.encrypted())
        SetLowWater(static_cast<int>(std::min(payload_left_, kLowWater)));
      return false;
    }
    payload_left_ -= moved.bytes;
    destination_ = SkipMoved(destinations_, destination_, moved.bytes);
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

void Channel::OnBroken(const Status& why) {
  const bool stale = served_ && !got_bytes_;
  Fail(why);
  stale_ = stale;
}

std::string Channel::Name() const { return fmt::format("{}:{}", address_.host, address_.port); }

void Channel::Fail(Status status) {
  stream_ = {};
  Rest();  // before the descriptor can be another connection's
  awaits_memory_ = false;
  fd_.Reset();
  status_ = std::move(status);
  state_ = State::kFailed;
}

void RunAll(std::span<Channel* const> channels, const GroupLimits& limits,
            const std::function<void(size_t)>& done) {
  std::vector<pollfd> polls;
  std::vector<size_t> polled;
  const auto ended = [&](size_t i) {
    if (done && channels[i]->done()) done(i);
  };
  for (;;) {
    polls.clear();
    polled.clear();
    TimePoint now = Clock::now();
    TimePoint wake = limits.deadline;
    for (size_t i = 0; i < channels.size(); ++i) {
      Channel* const channel = channels[i];
      if (channel->done()) continue;
      const auto limit_of = [&] {
        return std::min(limits.deadline, channel->last_progress() + limits.stall);
      };
      // What came while this thread had no processor came in time.
      if (now >= limit_of()) channel->Advance(now);
      const TimePoint limit = limit_of();
      if (!channel->done() && now >= limit) {
        channel->Fail(DeadlineExceeded(now >= limits.deadline ? "the call's time is up"
                                                              : "the peer made no progress"));
      }
      if (channel->done()) {
        ended(i);
        continue;
      }
      wake = std::min(wake, limit);
      const bool awaits_memory = channel->awaits_memory();
      if (awaits_memory) wake = std::min(wake, now + FrameMemory::kLook);
      polls.push_back({awaits_memory ? -1 : channel->fd(), channel->events(), 0});
      polled.push_back(i);
    }
    if (polls.empty()) return;
    const auto wait = std::chrono::duration_cast<std::chrono::nanoseconds>(wake - now).count();
    const timespec timeout{wait / 1'000'000'000, wait % 1'000'000'000};
    if (ppoll(polls.data(), polls.size(), &timeout, nullptr) < 0) continue;
    now = Clock::now();
    for (size_t p = 0; p < polls.size(); ++p) {
      Channel* const channel = channels[polled[p]];
      if (polls[p].revents == 0 && !channel->awaits_memory()) continue;
      channel->Advance(now);
      ended(polled[p]);
    }
  }
}

}  // namespace peercache
