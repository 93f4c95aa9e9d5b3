// Engines whose node comes late, goes, comes back, or does not take them: with real nodes, and with
// processes that can be stopped and killed.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/permit.h"
#include "base/wrong_bytes.h"
#include "client/client.h"
#include "node/integration/node_process_testing.h"
#include "node/integration/node_testing.h"
#include "version.h"
#include "wire/messages.h"
#include "wire/stream.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;
using testing::Eventually;
using testing::KeyOf;
using testing::NodeProcess;

constexpr size_t kPage = 8192;
constexpr size_t kPages = 16;
constexpr size_t kPool = kPages / 2 * kPage;
// Until what waits for a node has begun to.
constexpr milliseconds kAWhile{500};
// Of what has nothing to wait for: to attach waits 6 s for a node that does not answer, to share
// memory 12 s.
constexpr milliseconds kAtOnce{3000};

Duration Time(const std::function<void()>& call) {
  const TimePoint start = Clock::now();
  call();
  return Clock::now() - start;
}

// An engine with two host pools, of which every other page is in the second.
class Engine {
 public:
  explicit Engine(const std::string& socket, bool share = true) {
    auto client = Client::Connect(
        {.socket = socket, .engine = "late", .timeout = 1500ms, .staging_bytes = 4 * kPool});
    EXPECT_TRUE(client.ok()) << client.status().ToString();
    client_ = std::move(*client);
    if (share) Share();
  }
  void Share() {
    for (const MappedRegion& pool : pools_)
      EXPECT_TRUE(client_->RegisterRegion(pool.fd(), pool.data(), pool.size()).ok());
  }
  size_t Set(uint64_t first) {
    for (size_t i = 0; i < kPages; ++i) testing::TestEngine::Fill(page(i), first + i);
    std::vector<uint8_t> ok(kPages);
    client_->Set(Keys(first), Segments(), 1, 1, ok);
    return static_cast<size_t>(std::ranges::count(ok, 1));
  }
  // Pages that came, with the bytes that were set.
  size_t Get(uint64_t first) {
    for (size_t i = 0; i < kPages; ++i) std::ranges::fill(page(i), std::byte{0xee});
    std::vector<uint8_t> ok(kPages);
    client_->Get(Keys(first), Segments(), 1, ok);
    size_t right = 0;
    std::vector<std::byte> wanted(kPage);
    for (size_t i = 0; i < kPages; ++i) {
      testing::TestEngine::Fill(wanted, first + i);
      EXPECT_TRUE(!ok[i] || HasRightBytes(std::to_string(i), page(i), wanted));
      right += ok[i];
    }
    return right;
  }
  size_t Exists(uint64_t first) { return client_->Exists(Keys(first)); }
  bool attached() const { return client_->attached(); }
  Client& client() { return *client_; }
  std::string why() const { return client_->state().message(); }

 private:
  static std::vector<Key> Keys(uint64_t first) {
    std::vector<Key> keys;
    for (size_t i = 0; i < kPages; ++i) keys.push_back(KeyOf(first + i));
    return keys;
  }
  std::span<std::byte> page(size_t i) {
    return pools_[i % 2].bytes().subspan(i / 2 * kPage, kPage);
  }
  std::vector<Segment> Segments() {
    std::vector<Segment> segments;
    for (size_t i = 0; i < kPages; ++i)
      segments.push_back({reinterpret_cast<uint64_t>(page(i).data()), kPage});
    return segments;
  }

  const std::array<MappedRegion, 2> pools_{
      MappedRegion::Create("one", kPool, HugePages::kOff).value(),
      MappedRegion::Create("two", 2 * kPool, HugePages::kOff).value()};
  std::unique_ptr<Client> client_;
};

class AttachmentTest : public ::testing::Test {
 protected:
  std::unique_ptr<NodeProcess> Process(const std::vector<std::string>& more = {}) {
    std::vector<std::string> options{
        "node-id=late",     "bind-addr=127.0.0.1", "advertise-addr=127.0.0.1", "peer-port=0",
        "http=off",         "huge-pages=off",      "pool-size=16Mi",           "log-level=error",
        "socket=" + socket_};
    options.insert(options.end(), more.begin(), more.end());
    return std::make_unique<NodeProcess>(options);
  }
  // A process that takes connections and answers none.
  std::unique_ptr<NodeProcess> Stopped() {
    auto node = Process();
    EXPECT_TRUE(Eventually([&] { return ConnectUnix(socket_).ok(); }));
    node->Signal(SIGSTOP);
    return node;
  }
  std::unique_ptr<Node> Start(const std::function<void(NodeConfig*)>& tweak = {}) {
    testing::TestCluster cluster;
    NodeConfig config = cluster.Config("late");
    config.socket = socket_;
    if (tweak) tweak(&config);
    auto node = Node::Start(config);
    EXPECT_TRUE(node.ok()) << node.status().ToString();
    return node.ok() ? std::move(*node) : nullptr;
  }

  testing::TempDir dir_;
  const std::string socket_ = dir_.path() + "/node.sock";
};

TEST_F(AttachmentTest, AnEngineIsCreatedWithoutANodeAndMisses) {
  std::optional<Engine> engine;
  EXPECT_LT(Time([&] { engine.emplace(socket_); }), kAtOnce);
  EXPECT_FALSE(engine->attached());
  EXPECT_NE(engine->why().find(socket_), std::string::npos) << engine->why();
  EXPECT_EQ(engine->Exists(0) + engine->Set(0) + engine->Get(0), 0u);
  EXPECT_FALSE(engine->client().Clear(1).ok());
  const ClientStats stats = engine->client().stats();
  EXPECT_FALSE(stats.attached);
  EXPECT_NE(stats.detached.find("is peercached running"), std::string::npos) << stats.detached;
  EXPECT_EQ(stats.exists_pages, kPages);
  EXPECT_EQ(stats.get_pages, kPages);
  EXPECT_EQ(stats.set_failed, kPages);
  EXPECT_EQ(stats.faults, 1u) << "the clear, which has an answer: " << stats.last_fault;
}

TEST_F(AttachmentTest, ANodeThatComesLateIsFoundWithoutACallAndMapsThePool) {
  Engine before(socket_, false), engine(socket_);
  const auto node = Process();
  ASSERT_TRUE(Eventually([&] { return ConnectUnix(socket_).ok(); }));
  EXPECT_TRUE(Eventually([&] { return engine.attached() && before.attached(); })) << engine.why();
  before.Share();
  for (Engine* e : {&engine, &before}) {
    EXPECT_EQ(e->Set(0), kPages);
    EXPECT_EQ(e->Get(0), kPages);
    const ClientStats stats = e->client().stats();
    EXPECT_EQ(stats.staged_bytes, 0u) << "the pool is not mapped";
    EXPECT_EQ(stats.faults, 0u) << stats.last_fault;
    EXPECT_EQ(stats.reconnects, 0u);
    EXPECT_EQ(stats.node, fmt::format("late (release {})", kVersion));
  }
}

TEST_F(AttachmentTest, AnotherIncarnationIsFoundWithoutACallAndMapsThePool) {
  auto node = Process();
  ASSERT_TRUE(Eventually([&] { return ConnectUnix(socket_).ok(); }));
  Engine engine(socket_);
  ASSERT_EQ(engine.Set(0), kPages);
  for (const int signal : {SIGKILL, SIGTERM}) {
    node->End(signal);
    EXPECT_TRUE(Eventually([&] { return !engine.attached(); }));
    EXPECT_EQ(engine.Get(0), 0u);
    node = Process();
    ASSERT_TRUE(Eventually([&] { return ConnectUnix(socket_).ok(); }));
    EXPECT_TRUE(Eventually([&] { return engine.attached(); })) << engine.why();
    EXPECT_EQ(engine.Exists(0), 0u) << "its pages went with it";
    EXPECT_EQ(engine.Set(0), kPages) << "the first call after it";
    EXPECT_EQ(engine.Get(0), kPages);
  }
  EXPECT_EQ(engine.client().stats().reconnects, 2u);
  EXPECT_EQ(engine.client().stats().staged_bytes, 0u) << "the pool is not mapped";
}

TEST_F(AttachmentTest, ANodeLendsItsProcessWhichTellsThatItHasEnded) {
  const auto node = Process();
  ASSERT_TRUE(Eventually([&] { return ConnectUnix(socket_).ok(); }));
  const UniqueFd socket = ConnectUnix(socket_).value();
  const Permit permit = Permit::Create().value();
  FrameWriter attach;
  attach.Start(MessageType::kAttach, 1);
  AttachRequest{0, "raw", kVersion}.Encode(&attach);
  const TimePoint deadline = Clock::now() + 20s;
  ASSERT_TRUE(SendFrame(socket.get(), attach.Finish(), permit.fd(), deadline).ok());
  ReceivedFrame answer;
  ASSERT_TRUE(ReceiveFrame(socket.get(), deadline, &answer).ok());
  ASSERT_EQ(answer.header.type, MessageType::kAttachOk);
  ASSERT_TRUE(answer.fd);
  EXPECT_FALSE(WaitFor(answer.fd.get(), POLLIN, Clock::now() + 50ms).value());
  node->End(SIGKILL);
  EXPECT_TRUE(WaitFor(answer.fd.get(), POLLIN, Clock::now() + testing::kEndsAHang).value());
}

TEST_F(AttachmentTest, ANodeThatIsKilledDuringTheAttachIsAMiss) {
  auto node = Stopped();
  std::optional<Engine> engine;
  std::atomic<bool> made{false};
  std::thread attaching([&] {
    engine.emplace(socket_, false);
    made = true;
  });
  std::this_thread::sleep_for(kAWhile);
  EXPECT_FALSE(made) << "it waits for a node that has taken the connection";
  node->End(SIGKILL);
  EXPECT_LT(Time([&] { attaching.join(); }), kAtOnce);
  EXPECT_FALSE(engine->attached());
  engine->Share();
  node = Process();
  ASSERT_TRUE(Eventually([&] { return ConnectUnix(socket_).ok(); }));
  EXPECT_TRUE(Eventually([&] { return engine->attached(); })) << engine->why();
  EXPECT_EQ(engine->Set(0), kPages);
  EXPECT_EQ(engine->client().stats().staged_bytes, 0u);
}

TEST_F(AttachmentTest, ANodeThatIsKilledWhileAPoolIsRegisteredIsAMiss) {
  auto node = Process();
  ASSERT_TRUE(Eventually([&] { return ConnectUnix(socket_).ok(); }));
  Engine engine(socket_, false);
  ASSERT_TRUE(engine.attached());
  node->Signal(SIGSTOP);
  std::thread registering([&] { engine.Share(); });  // which succeeds
  std::this_thread::sleep_for(kAWhile);
  node->End(SIGKILL);
  EXPECT_LT(Time([&] { registering.join(); }), kAtOnce);
  node = Process();
  ASSERT_TRUE(Eventually([&] { return ConnectUnix(socket_).ok(); }));
  EXPECT_TRUE(Eventually([&] { return engine.attached(); })) << engine.why();
  EXPECT_EQ(engine.Set(0), kPages);
  EXPECT_EQ(engine.Get(0), kPages);
  EXPECT_EQ(engine.client().stats().staged_bytes, 0u);
}

TEST_F(AttachmentTest, AnEngineEndsAtOnceWhateverItsNodeDoes) {
  std::optional<Engine> alone(std::in_place, socket_);
  EXPECT_LT(Time([&] { alone.reset(); }), kAtOnce);
  std::optional<Engine> waiting(std::in_place, socket_);
  const auto node = Stopped();
  std::this_thread::sleep_for(kAWhile);  // its thread waits for the answer to its attach
  EXPECT_LT(Time([&] { waiting.reset(); }), kAtOnce);
}

TEST_F(AttachmentTest, ANodeIsFoundWhileEnginesCallAndRegister) {
  std::atomic<bool> stop{false};
  Engine engine(socket_);
  std::vector<std::thread> busy;
  busy.emplace_back([&] {
    while (!stop) engine.Exists(0);
  });
  busy.emplace_back([&] {
    const auto own = MappedRegion::Create("own", kPage, HugePages::kOff).value();
    while (!stop)
      EXPECT_TRUE(engine.client().RegisterRegion(own.fd(), own.data(), own.size()).ok());
  });
  for (int round = 0; round < 4; ++round) {
    const auto node = Start();
    EXPECT_TRUE(Eventually([&] { return engine.Set(0) == kPages; })) << engine.why();
    EXPECT_EQ(engine.Get(0), kPages);
  }
  stop = true;
  for (std::thread& t : busy) t.join();
  EXPECT_EQ(engine.client().stats().staged_bytes, 0u);
}

// ---- what waiting does not mend -----------------------------------------------------------------

TEST_F(AttachmentTest, WhatCanBeNoSocketOfANodeFailsTheAttach) {
  std::ofstream(dir_.path() + "/file") << "text";
  const UniqueFd datagrams(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const std::string other = dir_.path() + "/datagrams";
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  other.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(datagrams.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  for (const auto& [path, problem] : std::vector<std::pair<std::string, std::string>>{
           {"", "must have 1 to 107 bytes"},
           {"/" + std::string(107, 'x'), "must have 1 to 107 bytes"},
           {dir_.path(), "is a folder: name the node's socket in it"},
           {dir_.path() + "/file", "is a file of another kind"},
           {dir_.path() + "/file/node.sock", "leads nowhere"},
           {other, "is not a node's"},
       }) {
    const auto client = Client::Connect({.socket = path});
    ASSERT_FALSE(client.ok()) << path;
    EXPECT_EQ(client.status().code(), Code::kInvalidArgument) << path;
    EXPECT_NE(client.status().message().find(problem), std::string::npos)
        << client.status().message();
    EXPECT_NE(client.status().message().find(path), std::string::npos);
  }
}

// Answers every connection with these bytes.
class Stranger {
 public:
  Stranger(const std::string& path, std::string bytes)
      : listener_(ListenUnix(path, 0600).value()), thread_([this, bytes = std::move(bytes)] {
          while (!stop_) {
            (void)WaitFor(listener_.get(), POLLIN, Clock::now() + 20ms);
            UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
            if (!fd) continue;
            char sink[4096];
            (void)!recv(fd.get(), sink, sizeof(sink), 0);
            (void)!send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
            ++answered_;
          }
        }) {}
  ~Stranger() {
    stop_ = true;
    thread_.join();
  }
  int answered() const { return answered_; }

 private:
  const UniqueFd listener_;
  std::atomic<bool> stop_{false};
  std::atomic<int> answered_{0};
  std::thread thread_;
};

TEST_F(AttachmentTest, WhoDoesNotSpeakPeerCacheFailsTheAttach) {
  const Stranger http(socket_, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
  const auto client = Client::Connect({.socket = socket_});
  ASSERT_FALSE(client.ok());
  EXPECT_NE(client.status().message().find("does not speak PeerCache"), std::string::npos)
      << client.status().message();
  EXPECT_NE(client.status().message().find(socket_), std::string::npos);
}

TEST_F(AttachmentTest, AUserThatIsNotAdmittedWorksWithoutCacheUntilItIs) {
  auto node =
      Start([](NodeConfig* c) { c->socket_uids = *UidList::Parse(std::to_string(geteuid() + 1)); });
  Engine engine(socket_);
  EXPECT_TRUE(Eventually([&] { return engine.client().stats().faults > 0; }));
  EXPECT_NE(engine.client().stats().last_fault.find("--socket-uids="), std::string::npos);
  EXPECT_NE(engine.why().find("--socket-uids="), std::string::npos);
  EXPECT_EQ(engine.Exists(0), 0u);
  node.reset();
  node = Start();
  EXPECT_TRUE(Eventually([&] { return engine.attached(); })) << engine.why();
}

// As under SELinux, or where a host's hardening closes the folder.
TEST_F(AttachmentTest, AHostThatDeniesTheSocketCostsTheCacheAndNotTheEngine) {
  ASSERT_EQ(geteuid(), 0u) << "only root can connect as another user: run this test as root";
  ASSERT_EQ(chmod(dir_.path().c_str(), 0755), 0);
  const auto node = Start([](NodeConfig* c) { c->socket_mode = 0600; });
  std::thread([&] {  // a system call changes this thread only, and those that it makes
    EXPECT_EQ(syscall(SYS_setresuid, -1, 65534, -1), 0);
    Engine engine(socket_);
    EXPECT_NE(engine.why().find("--socket-mode"), std::string::npos) << engine.why();
    EXPECT_EQ(engine.Exists(0), 0u);
    EXPECT_EQ(chmod(socket_.c_str(), 0666), -1);
    EXPECT_FALSE(engine.attached());
    EXPECT_EQ(syscall(SYS_setresuid, -1, 0, -1), 0);
    EXPECT_EQ(chmod(socket_.c_str(), 0666), 0);
    EXPECT_TRUE(Eventually([&] { return engine.attached(); })) << engine.why();
  })
      .join();
}

// ---- what may be over at any moment -------------------------------------------------------------

TEST_F(AttachmentTest, ANodeOfAnotherProtocolIsAMissUntilItIsRolled) {
  // What a node of the next protocol answers to this release.
  FrameWriter w;
  w.Start(MessageType::kError, 1);
  ErrorMessage{Corrupt("this node (release 9.8.7) speaks 2")}.Encode(&w);
  const auto frame = w.Finish();
  std::string bytes(reinterpret_cast<const char*>(frame.data()), frame.size());
  bytes[offsetof(FrameHeader, version)] = 2;
  std::optional<Engine> engine;
  {
    const Stranger next(socket_, bytes);
    engine.emplace(socket_);
    EXPECT_FALSE(engine->attached());
    for (const char* part : {"9.8.7", kVersion, "protocol version 2"})
      EXPECT_NE(engine->why().find(part), std::string::npos) << engine->why();
  }
  const auto node = Process();
  ASSERT_TRUE(Eventually([&] { return ConnectUnix(socket_).ok(); }));
  EXPECT_TRUE(Eventually([&] { return engine->attached(); })) << engine->why();
  EXPECT_EQ(engine->Set(0), kPages);
}

TEST_F(AttachmentTest, WhoTakesAnEngineAndDropsItIsNotAskedAllTheTime) {
  FrameWriter w;
  w.Start(MessageType::kAttachOk, 1);
  AttachOk{5, "fickle", "0"}.Encode(&w);
  const auto frame = w.Finish();
  const Stranger fickle(socket_, {reinterpret_cast<const char*>(frame.data()), frame.size()});
  Engine engine(socket_, false);
  const TimePoint start = Clock::now();
  EXPECT_TRUE(Eventually([&] { return fickle.answered() >= 4; }));
  const int answered = fickle.answered();
  EXPECT_LE(answered, 2 + (Clock::now() - start) / 250ms) << "once in 250 ms";
}

TEST_F(AttachmentTest, TheNodeTellsAnotherProtocolItsRelease) {
  const auto node = Start();
  const auto fd = ConnectUnix(socket_);
  ASSERT_TRUE(fd.ok());
  FrameHeader header;
  header.version = 2;
  header.type = MessageType::kAttach;
  ASSERT_TRUE(SendFrame(fd->get(), std::as_bytes(std::span(&header, 1)), -1,
                        Clock::now() + testing::kEndsAHang)
                  .ok());
  ReceivedFrame answer;
  ASSERT_TRUE(ReceiveFrame(fd->get(), Clock::now() + testing::kEndsAHang, &answer).ok());
  ErrorMessage error;
  FrameReader reader(answer.body);
  ASSERT_TRUE(error.Decode(&reader));
  EXPECT_NE(error.status.message().find(fmt::format("this side (release {})", kVersion)),
            std::string::npos)
      << error.status.message();
}

// The next node has the socket as soon as nobody listens there, also while this one is ending.
TEST_F(AttachmentTest, ANodeThatEndsLeavesTheSocketOfTheNextAlone) {
  Engine engine(socket_);
  for (int round = 0; round < 10; ++round) {
    auto node = Start();
    ASSERT_TRUE(Eventually([&] { return engine.attached(); })) << engine.why();
    std::thread ends([&] { node.reset(); });
    auto next = ListenUnix(socket_, 0600);
    while (!next.ok()) next = ListenUnix(socket_, 0600);
    ends.join();
    ASSERT_EQ(access(socket_.c_str(), F_OK), 0) << "round " << round;
  }
}

TEST_F(AttachmentTest, MemoryThatANodeDoesNotTakeAgainIsStagedUntilOneDoes) {
  Engine engine(socket_);
  // The first pool fits and a lane of the staging ring beside it, but not the second pool.
  auto node = Start([](NodeConfig* c) { c->max_engine_memory = 2 * kPool; });
  ASSERT_TRUE(Eventually([&] { return engine.client().stats().faults > 0; }));
  EXPECT_NE(engine.client().stats().last_fault.find("--max-engine-memory"), std::string::npos)
      << engine.client().stats().last_fault;
  ASSERT_TRUE(Eventually([&] { return engine.attached(); })) << engine.why();
  EXPECT_EQ(engine.Set(0), kPages);
  EXPECT_EQ(engine.Get(0), kPages);
  EXPECT_EQ(engine.client().stats().staged_bytes, 2 * kPool) << "a set and a get of one pool";
  node.reset();
  node = Start();
  ASSERT_TRUE(Eventually([&] { return engine.attached(); })) << engine.why();
  const uint64_t staged = engine.client().stats().staged_bytes;
  EXPECT_EQ(engine.Set(0), kPages);
  EXPECT_EQ(engine.client().stats().staged_bytes, staged);
}

}  // namespace
}  // namespace peercache
