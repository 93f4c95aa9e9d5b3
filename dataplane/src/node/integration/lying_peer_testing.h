// A member with the cluster's secret that says what a test wants it to: it heartbeats, answers what
// it is asked, and lies where it is told to. Until then it answers as a node would that keeps no
// records and has no pages.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "membership/clear_table.h"
#include "transport/peer_key.h"
#include "transport/tcp/channel.h"
#include "transport/tcp/socket.h"
#include "wire/heartbeat.h"
#include "wire/messages.h"
#include "wire/stream.h"

namespace peercache::testing {

inline constexpr char kLyingToken[] = "correct horse battery staple";
inline PeerKey LyingKey() { return *DeriveKey("test", kLyingToken); }

using RawBytes = std::vector<std::byte>;

// Who shows that a message does no harm, of all there are: the compiler misses one that is added.
//
//   kByRows      HostilePeerTest, which has a row for each
//   kAsAnswers   LyingPeerTest, which has a lie for each
//   kByRails     what a node asks for where it has rails: FabricMessagesTest and the fuzz targets
//                links and read_channel; OneSidedTest and the fuzz target bucket
enum class Shown : uint8_t { kByRows, kAsAnswers, kByRails, kByProving, kByEngines };
inline Shown ShownBy(MessageType type) {
  switch (type) {
    case MessageType::kHello:
    case MessageType::kHelloOk:
    case MessageType::kChallenge:
    case MessageType::kProve:
    case MessageType::kProveOk: return Shown::kByProving;
    case MessageType::kLookup:
    case MessageType::kPublish:
    case MessageType::kWithdraw:
    case MessageType::kContact:
    case MessageType::kRead:
    case MessageType::kHeartbeat:
    case MessageType::kLeave:
    case MessageType::kClearTag:
    case MessageType::kConnect:
    case MessageType::kOffer:
    case MessageType::kDirectory:
    case MessageType::kFetch:
    case MessageType::kClears: return Shown::kByRows;
    case MessageType::kError:
    case MessageType::kLookupOk:
    case MessageType::kPublishOk:
    case MessageType::kWithdrawOk:
    case MessageType::kContactOk:
    case MessageType::kReadOk:
    case MessageType::kHeartbeatOk:
    case MessageType::kLeaveOk:
    case MessageType::kClearTagOk:
    case MessageType::kOfferOk:
    case MessageType::kFetchOk:
    case MessageType::kClearsOk: return Shown::kAsAnswers;
    case MessageType::kConnectOk:
    case MessageType::kDirectoryOk: return Shown::kByRails;
    case MessageType::kAttach:
    case MessageType::kAttachOk:
    case MessageType::kRegion:
    case MessageType::kRegionOk:
    case MessageType::kSet:
    case MessageType::kSetOk:
    case MessageType::kGet:
    case MessageType::kGetOk:
    case MessageType::kExists:
    case MessageType::kExistsOk:
    case MessageType::kClear:
    case MessageType::kClearOk:
    case MessageType::kDmaBuf:
    case MessageType::kDmaBufOk:
    case MessageType::kDevicePointer:
    case MessageType::kDevicePointerOk:
    case MessageType::kPresence:
    case MessageType::kPresenceOk:
    case MessageType::kPrefill:
    case MessageType::kPrefillOk: return Shown::kByEngines;
  }
  return Shown::kByEngines;  // no message at all
}

template <typename Fill>
RawBytes RawFrame(MessageType type, uint64_t id, Fill fill) {
  FrameWriter w;
  w.Start(type, id);
  fill(&w);
  const auto bytes = w.Finish();
  return {bytes.begin(), bytes.end()};
}

class LyingPeer {
 public:
  static constexpr char kId[] = "liar";
  static constexpr uint32_t kPageBytes = 16 << 10;
  // What goes out instead of `honest`, which answers `request`; nothing: the connection is closed.
  using Lie = std::function<RawBytes(const FrameHeader& request, RawBytes honest)>;

  // `node`: the address of the node that it lies to, which hosts discovery.
  explicit LyingPeer(uint16_t node) : node_(node) {
    auto listener = Listen("127.0.0.1", 0);
    EXPECT_TRUE(listener.ok());
    listener_ = std::move(*listener);
    acceptor_ = std::thread([this] { Accept(); });
  }
  ~LyingPeer() {
    stop_ = true;
    if (heartbeats_.joinable()) heartbeats_.join();
    acceptor_.join();
    for (Connection& c : connections_) shutdown(c.fd.get(), SHUT_RDWR);
    for (Connection& c : connections_) c.thread.join();
  }
  LyingPeer(const LyingPeer&) = delete;
  LyingPeer& operator=(const LyingPeer&) = delete;

  uint16_t port() const { return listener_.port; }
  uint64_t hash() const { return NodeHash(kId); }
  // Tells the node that it is a member, again and again.
  void Join() {
    heartbeats_ = std::thread([this] {
      while (!stop_) {
        const RawBytes beat = RawFrame(MessageType::kHeartbeat, 1, [&](FrameWriter* w) {
          Heartbeat heartbeat;
          heartbeat.member = Self();
          heartbeat.Encode(w);
        });
        (void)Ask(beat);
        std::this_thread::sleep_for(milliseconds(50));
      }
    });
  }
  Member Self() const {
    Member self;
    self.id = kId;
    self.incarnation = incarnation_;
    self.state = MemberState::kActive;
    self.host = "127.0.0.1";
    self.peer_port = port();
    self.capacity_bytes = uint64_t{32} << 20;
    return self;
  }

  // Lies from now on when asked for one of these. Under another incarnation, so that nobody
  // remembers how it has answered before.
  void Begin(std::map<MessageType, Lie> lies) {
    std::lock_guard lock(mutex_);
    lies_ = std::move(lies);
    told_.clear();
    ++incarnation_;
  }
  void BeHonest() { Begin({}); }
  // Another process, of which nobody remembers anything.
  void BeReborn() { ++incarnation_; }
  // Of the last clear of the tag that it was told of.
  uint64_t EpochOf(uint64_t tag) const {
    std::lock_guard lock(mutex_);
    return clears_.EpochOf(tag);
  }
  // How often it was asked for it since Begin.
  size_t told(MessageType type) const {
    std::lock_guard lock(mutex_);
    const auto it = told_.find(type);
    return it == told_.end() ? 0 : it->second;
  }

  // A call of the node, over a connection of its own.
  struct Answered {
    Status status;
    MessageType type = MessageType::kError;
    RawBytes body;
  };
  Answered Ask(std::span<const std::byte> frame) const {
    Channel channel({"127.0.0.1", node_},
                    Hello{"test", fmt::format("127.0.0.1:{}", node_), hash(), incarnation_},
                    nullptr, Channel::Proving{LyingKey(), 0});
    channel.Begin(frame, nullptr, Clock::now());
    Channel* const channels[] = {&channel};
    RunAll(channels, {std::chrono::seconds(5), Clock::now() + std::chrono::seconds(10)});
    Answered answered{channel.status(), channel.answer().type, {}};
    if (channel.status().ok()) {
      FrameReader body = channel.body();
      body.GetInto(channel.answer().body_length, &answered.body);
    }
    return answered;
  }

 private:
  struct Connection {
    UniqueFd fd;
    std::thread thread;
  };

  void Accept() {
    while (!stop_) {
      (void)WaitFor(listener_.fd.get(), POLLIN, Clock::now() + milliseconds(50));
      UniqueFd fd(accept4(listener_.fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!fd) continue;
      Connection& c = connections_.emplace_back();
      c.fd = std::move(fd);
      c.thread = std::thread([this, &c] {
        Serve(c.fd.get());
        shutdown(c.fd.get(), SHUT_RDWR);
      });
    }
  }

  void Send(int fd, const RawBytes& bytes) const {
    (void)SendFrame(fd, bytes, -1, Clock::now() + std::chrono::seconds(2));
  }

  // Behind the proof there may be the first request, in `frame`.
  bool Greet(int fd, ReceivedFrame* frame) const {
    const TimePoint limit = Clock::now() + std::chrono::seconds(5);
    if (!ReceiveFrame(fd, limit, frame).ok()) return false;
    Hello hello;
    FrameReader body(frame->body);
    if (!hello.Decode(&body)) return false;
    hello.machine = frame->header.number;
    Challenge challenge{hash(), incarnation_, 0, *FreshNonce(), {}};
    challenge.proof = *Prove(LyingKey(), PeerRole::kAnswerer, hello, challenge);
    Send(fd, RawFrame(MessageType::kChallenge, 0, [&](FrameWriter* w) { challenge.Encode(w); }));
    if (!ReceiveFrame(fd, limit, frame).ok()) return false;
    Send(fd, RawFrame(MessageType::kProveOk, 0, [](FrameWriter*) {}));
    return true;
  }

  void Serve(int fd) {
    ReceivedFrame frame;
    if (!Greet(fd, &frame)) return;
    while (!stop_) {
      const Status s = ReceiveFrame(fd, Clock::now() + milliseconds(100), &frame);
      if (s.code() == Code::kDeadlineExceeded) continue;
      if (!s.ok()) return;
      RawBytes answer = Honest(frame.header, FrameReader(frame.body));
      Lie lie;
      {
        std::lock_guard lock(mutex_);
        ++told_[frame.header.type];
        if (const auto it = lies_.find(frame.header.type); it != lies_.end()) lie = it->second;
      }
      if (lie) answer = lie(frame.header, std::move(answer));
      if (answer.empty()) return;
      Send(fd, answer);
    }
  }

  RawBytes Honest(const FrameHeader& header, FrameReader body) {
    return RawFrame(AnswerTo(header.type), header.request_id, [&](FrameWriter* w) {
      switch (header.type) {
        case MessageType::kLookup: {
          // It has what nobody else has: so it is read from.
          LookupRequest request;
          EXPECT_TRUE(request.Decode(&body));
          const Record record{.node = hash(),
                              .incarnation = incarnation_,
                              .generation = 1,
                              .length = kPageBytes,
                              .lease_ms = 1000};
          EncodeRecords(std::vector<Record>(request.keys.size(), record), {}, w);
          break;
        }
        case MessageType::kPublish:
        case MessageType::kWithdraw:
        case MessageType::kContact: {
          OwnerRequest request;
          EXPECT_TRUE(request.Decode(header.type, &body));
          ShardAnswer answer;
          answer.stamp = Clock::now().time_since_epoch().count();
          answer.instance = incarnation_;
          answer.outcomes.assign(request.publish.size(), kServed);
          std::lock_guard lock(mutex_);
          if ((header.can & FrameHeader::kHearsClears) != 0)
            answer.clears = ClearsVoice{clears_.digest(), 1};
          answer.Encode(w);
          break;
        }
        case MessageType::kRead: {
          ReadRequest request;
          EXPECT_TRUE(request.Decode(&body));
          EncodeReadOk(std::vector<uint32_t>(request.items.size()), w);
          break;
        }
        case MessageType::kFetch: {
          std::vector<Key> keys;
          EXPECT_TRUE(DecodeKeys(&body, &keys));
          FetchAnswer{incarnation_, std::vector<FetchPlace>(keys.size())}.Encode(w);
          break;
        }
        case MessageType::kHeartbeat:
          w->Can(Heartbeat::kHearsAll);
          MemberListMessage{1, {}}.EncodeOnce(w);
          break;
        case MessageType::kClearTag: w->Put(uint32_t{0}); break;
        case MessageType::kClears: {
          ClearsMessage message;
          EXPECT_TRUE(message.Decode(&body));
          std::lock_guard lock(mutex_);
          clears_.Take(message.state);
          ClearsAnswer{clears_.state(), 1}.Encode(w);
          break;
        }
        case MessageType::kOffer: {
          OfferRequest request;
          EXPECT_TRUE(request.Decode(&body));
          OfferAnswer answer{uint64_t{1} << 30, 1, {}};
          answer.outcomes.assign(request.items.size(), kNotTaken);
          answer.Encode(w);
          break;
        }
        default: break;
      }
    });
  }

  const uint16_t node_;
  Listener listener_;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> incarnation_{1};
  mutable std::mutex mutex_;
  std::map<MessageType, Lie> lies_;
  std::map<MessageType, size_t> told_;
  ClearTable clears_;
  std::list<Connection> connections_;  // of the acceptor, and then of the destructor
  std::thread acceptor_, heartbeats_;
};

}  // namespace peercache::testing
