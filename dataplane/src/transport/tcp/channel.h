// Channel: one TCP connection to a peer, driven by the one thread that owns it. The channel carries
// one exchange at a time: a request, its answer and, for reads, the payload received straight into
// its destination.
//
//   channel.Begin(frame, &sink, now);            // frame stays untouched until Done
//   RunAll(channels, limits);            // or poll(Fd(), Events()) and Advance()
//
// Nothing is written to a destination after the exchange is Done: a failed exchange closes the
// connection, and only the owning thread ever receives. That is what makes it safe to hand the
// destination back after a time-out.
//
// Connecting, TLS and the Hello handshake are part of the first exchange: Hello goes out together
// with the first request, so a new connection costs no extra round trip. With TLS it costs one, and
// with a key to prove another: the request waits until the other side has proven that it has it.
//
// Costs: an exchange without payload takes 17 us where a ping-pong over the same connection takes
// 15 (docs/dev/performance.md): waking the other side's thread. The kernel copies payload once,
// into its destination. Worse: exchanges of little payload each, as a channel has one at a time.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"
#include "transport/peer_key.h"
#include "transport/tcp/stream.h"
#include "transport/tcp/tls.h"
#include "wire/frame_buffer.h"
#include "wire/messages.h"

namespace peercache {

// Where the payload of an answer goes.
class PayloadSink {
 public:
  virtual ~PayloadSink() = default;
  // Called once when the answer's body is complete. Fills *destinations for exactly payload_length
  // bytes, or fails, which fails the exchange.
  virtual Status Accept(FrameReader body, uint64_t payload_length,
                        std::vector<iovec>* destinations) = 0;
  // Around every single write into the destinations, which is a system call, or with TLS a few of
  // them and copies. False: they may be written no more, which fails the exchange. Leave follows on
  // either answer.
  virtual bool Enter() { return true; }
  virtual void Leave() {}
};

struct PeerAddress {
  std::string host;
  uint16_t port = 0;
};

class Channel {
 public:
  // What both sides prove to each other.
  struct Proving {
    PeerKey key;
    uint64_t node = 0;  // who must answer; 0: any node that has the key
  };

  // `hello` is sent first on a new connection. With `tls`, connections are encrypted. `memory` is
  // of large answers; null: without a limit. Both outlive the channel.
  Channel(PeerAddress address, Hello hello, const Tls* tls = nullptr,
          std::optional<Proving> proving = {}, FrameMemory* memory = nullptr);

  // `request` must stay alive and unchanged until done(); `sink` may be null when no payload is
  // due.
  void Begin(std::span<const std::byte> request, PayloadSink* sink, TimePoint now);
  bool done() const { return state_ == State::kIdle || state_ == State::kFailed; }
  const Status& status() const { return status_; }
  // For poll. Valid while not done.
  int fd() const { return fd_.get(); }
  // Its answer waits for memory: not for the descriptor, but for a call of Advance in a moment.
  bool awaits_memory() const { return awaits_memory_; }
  short events() const { return events_; }
  // Does what can be done without blocking.
  void Advance(TimePoint now);
  // Gives the exchange up; the connection is closed.
  void Fail(Status status);

  // The answer after success.
  const FrameHeader& answer() const { return header_; }
  FrameReader body() const { return FrameReader(body_.bytes().first(body_length_)); }
  // The answer is not looked at any more: gives back what a large one has taken.
  void Rest();
  // When the last byte moved, in either direction; when the exchange began before the first.
  TimePoint last_progress() const { return last_progress_; }
  // When the exchange was complete: no byte of it was received later.
  TimePoint finished() const { return finished_; }
  // The connection had served an earlier exchange, and this one failed before any answer byte came:
  // the peer had closed it meanwhile. The caller may try again on a new connection.
  bool stale() const { return stale_; }
  // Nobody listens at the address: the process that did is gone.
  bool refused() const { return refused_; }
  // Of what is proven; 0: nothing.
  uint64_t key() const { return proving_ ? proving_->key.id : 0; }
  // These two are known after the first successful exchange.
  uint64_t peer_incarnation() const { return peer_incarnation_; }
  uint32_t peer_machine() const { return peer_machine_; }

 private:
  enum class State : uint8_t {
    kIdle,
    kConnecting,
    kHandshaking,
    kSending,
    kHelloHeader,
    kHelloBody,
    kHeader,
    kBody,
    kPayload,
    kFailed,
  };

  void Connect(TimePoint now);
  void StartReceiving();
  bool Send(TimePoint now);
  // What moved. False when nothing did: then events() says what to wait for, or the exchange has
  // failed.
  bool Progressed(const Moved& moved, std::string_view doing, TimePoint now);
  // Receives up to the end of the current part; true when it is complete.
  bool Receive(std::span<std::byte> part, TimePoint now);
  bool ReceiveBody(TimePoint now);
  bool ReceivePayload(TimePoint now);
  void SetLowWater(int bytes);
  void Finish();
  void OnHeader();
  void OnBody();
  Status OnHelloBody();
  Status OnChallenge();
  void OnBroken(const Status& why);
  std::string Name() const;

  const PeerAddress address_;
  const Tls* tls_;
  Hello hello_;
  const std::optional<Proving> proving_;
  FrameWriter greeting_;  // Hello, and then Prove
  UniqueFd fd_;
  Stream stream_;  // over fd_
  short events_ = 0;
  State state_ = State::kIdle;
  Status status_;
  bool greeted_ = false;     // the other side knows and answers us, on this connection
  bool challenged_ = false;  // and before that has proven itself
  bool served_ = false;      // an exchange has succeeded on this connection
  bool stale_ = false;
  bool refused_ = false;
  bool got_bytes_ = false;
  uint64_t peer_incarnation_ = 0;
  uint32_t peer_machine_ = 0;
  TimePoint last_progress_{}, finished_{};

  std::span<const std::byte> unsent_hello_, unsent_;
  uint64_t request_id_ = 0;
  PayloadSink* sink_ = nullptr;
  FrameHeader header_;
  size_t received_ = 0;  // of the current part
  FrameBuffer body_;
  size_t body_length_ = 0;
  bool awaits_memory_ = false;
  std::vector<iovec> destinations_;
  size_t destination_ = 0;  // first unfinished one
  uint64_t payload_left_ = 0;
  int low_water_ = 1;  // SO_RCVLOWAT of the connection
};

struct GroupLimits {
  Duration stall{};      // longest without progress of one exchange
  TimePoint deadline{};  // of the whole group
  // The deadline is what the answers are worth to the caller: a peer that misses it, and has not
  // stalled, is not at fault.
  bool hurried = false;
};

// Drives all channels, in one thread, until each is done or past its limits. `done(i)` is told of
// channels[i] as soon as its exchange has ended here; those that were done before are not told of.
void RunAll(std::span<Channel* const> channels, const GroupLimits& limits,
            const std::function<void(size_t)>& done = nullptr);

}  // namespace peercache
