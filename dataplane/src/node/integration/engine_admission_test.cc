// Who may attach to the engine socket, and what a connection may cost before it has.

#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <nlohmann/json.hpp>

#include "base/no_thread_testing.h"
#include "node/engine/engine_server.h"
#include "node/integration/node_testing.h"
#include "wire/messages.h"
#include "wire/stream.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;
using testing::Eventually;
using testing::TempDir;
using testing::TestCluster;

constexpr uint32_t kSomebody = 4711;

// An EngineServer without anything behind it: nothing here gets further than Attach.
struct Server {
  explicit Server(EngineServerOptions options, ThreadLimit threads = {})
      : path(dir.path() + "/engine.sock") {
    // The library makes it on first use, without synchronization that ThreadSanitizer can see.
    spdlog::default_logger();
    auto listener = ListenUnix(path, 0777);
    EXPECT_TRUE(listener.ok()) << listener.status().ToString();
    chmod(dir.path().c_str(), 0755);
    options.node_id = "node";
    TenantsOptions tenants_options;
    tenants_options.max_engines = options.max_engines;
    tenants_options.threads = std::move(threads);
    auto made = Tenants::Create(tenants_options, nullptr);
    EXPECT_TRUE(made.ok());
    tenants = std::move(*made);
    EngineServices services;
    services.tenants = tenants.get();
    services.counters = &counters;
    services.wait_joined = [] {};
    services.clear = [this](uint64_t tag) {
      cleared.push_back(tag);
      return Status();
    };
    auto served = EngineServer::Serve(std::move(*listener), options, services, *tenants->Enter(""));
    EXPECT_TRUE(served.ok()) << served.status().ToString();
    engines = std::move(*served);
  }
  UniqueFd Connect() const {
    auto fd = ConnectUnix(path);
    EXPECT_TRUE(fd.ok()) << fd.status().ToString();
    return fd.ok() ? std::move(fd).value() : UniqueFd();
  }
  TempDir dir;
  std::string path;
  Counters counters;
  std::vector<uint64_t> cleared;  // tags
  std::unique_ptr<Tenants> tenants;
  std::unique_ptr<EngineServer> engines;
};

// Sends an Attach and returns the session, or why not.
Result<uint64_t> Attach(int fd, uint64_t session = 0) {
  FrameWriter w;
  w.Start(MessageType::kAttach, 1);
  AttachRequest{session, "engine", "0"}.Encode(&w);
  if (Status s = SendFrame(fd, w.Finish(), -1, Clock::now() + testing::kEndsAHang); !s.ok())
    return s;
  ReceivedFrame frame;
  if (Status s = ReceiveFrame(fd, Clock::now() + testing::kEndsAHang, &frame); !s.ok()) return s;
  FrameReader body(frame.body);
  if (frame.header.type == MessageType::kError) {
    ErrorMessage error;
    if (!error.Decode(&body)) return Corrupt("malformed Error");
    return error.status;
  }
  AttachOk ok;
  if (!ok.Decode(&body)) return Corrupt("malformed AttachOk");
  return ok.session;
}

bool ClosedByNode(int fd) {
  char byte;
  const ssize_t n = recv(fd, &byte, 1, 0);
  return n == 0 || (n < 0 && errno != EAGAIN);
}

// The connection a process of another user makes. The kernel notes the user at the connect.
UniqueFd ConnectAs(uint32_t uid, const Server& server) {
  UniqueFd fd;
  std::thread([&] {  // setresuid as a system call changes this thread only
    EXPECT_EQ(syscall(SYS_setresuid, -1, uid, -1), 0);
    fd = server.Connect();
  })
      .join();
  return fd;
}

TEST(EngineAdmissionTest, AUserThatIsNotListedIsToldSoAndDisconnected) {
  EngineServerOptions options;
  options.uids = *UidList::Parse(std::to_string(geteuid() + 1));
  Server server(options);
  UniqueFd fd = server.Connect();
  auto attached = Attach(fd.get());
  ASSERT_FALSE(attached.ok());
  EXPECT_EQ(attached.status().code(), Code::kUnauthenticated);
  const std::string& text = attached.status().message();
  EXPECT_NE(text.find(fmt::format("user {} ", geteuid())), std::string::npos) << text;
  EXPECT_NE(text.find(fmt::format("--socket-uids={}", geteuid() + 1)), std::string::npos) << text;
  EXPECT_NE(text.find(std::to_string(getpid())), std::string::npos) << text;
  EXPECT_TRUE(Eventually([&] { return ClosedByNode(fd.get()); }));
  EXPECT_EQ(server.counters.engine_refused_user, 1u);
  EXPECT_TRUE(server.engines->engines().empty());
}

TEST(EngineAdmissionTest, AListedUserAttaches) {
  EngineServerOptions options;
  options.uids = *UidList::Parse(fmt::format("1,{}", geteuid()));
  Server server(options);
  UniqueFd fd = server.Connect();
  EXPECT_TRUE(Attach(fd.get()).ok());
  ASSERT_EQ(server.engines->engines().size(), 1u);
  EXPECT_EQ(server.engines->engines()[0].owner.uid, geteuid());
}

TEST(EngineAdmissionTest, NobodyJoinsTheSessionOfAnotherUser) {
  ASSERT_EQ(geteuid(), 0u) << "only root can connect as another user: run this test as root";
  Server server({});
  UniqueFd own = server.Connect();
  auto session = Attach(own.get());
  ASSERT_TRUE(session.ok());
  UniqueFd foreign = ConnectAs(kSomebody, server);
  auto joined = Attach(foreign.get(), *session);
  ASSERT_FALSE(joined.ok());
  EXPECT_EQ(joined.status().code(), Code::kUnauthenticated);
  EXPECT_TRUE(Attach(server.Connect().get(), *session).ok());
}

TEST(EngineAdmissionTest, StatusShowsTheProcess) {
  TestCluster cluster;
  auto node = cluster.Start("a");
  auto client = Client::Connect({.socket = node->socket(), .engine = "rank0"});
  ASSERT_TRUE(client.ok());
  const auto engines = nlohmann::json::parse(node->StatusJson())["engines"];
  ASSERT_EQ(engines.size(), 1u);
  EXPECT_EQ(engines[0]["uid"], geteuid());
  EXPECT_EQ(engines[0]["pid"], getpid());
}

TEST(EngineAdmissionTest, ASlowAttachIsCutOffHoweverSteadilyItDrips) {
  EngineServerOptions options;
  options.attach_timeout = 300ms;
  Server server(options);
  UniqueFd silent = server.Connect();
  UniqueFd dripping = server.Connect();
  FrameWriter w;
  w.Start(MessageType::kAttach, 1);
  AttachRequest{0, std::string(128, 'e'), std::string(128, 'v')}.Encode(&w);
  const auto frame = w.Finish();
  // The node answers with an Error before it closes: an answer is the end of patience, too.
  const auto ended = [](int fd) { return *WaitFor(fd, POLLIN, Clock::now()); };
  size_t sent = 0;
  while (sent < frame.size() && !ended(dripping.get())) {
    if (!SendFrame(dripping.get(), frame.subspan(sent, 1), -1, Clock::now() + testing::kEndsAHang)
             .ok())
      break;
    ++sent;
    std::this_thread::sleep_for(20ms);  // would be 6 s
  }
  EXPECT_LT(sent, frame.size());
  ReceivedFrame answer;
  ASSERT_TRUE(ReceiveFrame(silent.get(), Clock::now() + testing::kEndsAHang, &answer).ok());
  EXPECT_EQ(answer.header.type, MessageType::kError);
  EXPECT_TRUE(Eventually([&] { return ClosedByNode(silent.get()); }));
  EXPECT_EQ(server.counters.engine_refused_slow, 2u);
}

TEST(EngineAdmissionTest, AnEngineThatHasAttachedMayBeSilent) {
  EngineServerOptions options;
  options.attach_timeout = 1s;
  Server server(options);
  UniqueFd fd = server.Connect();
  ASSERT_TRUE(Attach(fd.get()).ok());
  const UniqueFd silent = server.Connect();  // which came later
  ASSERT_TRUE(Eventually([&] { return server.counters.engine_refused_slow == 1u; }));
  EXPECT_FALSE(ClosedByNode(fd.get()));
}

TEST(EngineAdmissionTest, ALargeFrameBeforeAttachIsRefusedAtItsHeader) {
  Server server({});
  UniqueFd fd = server.Connect();
  FrameHeader header;
  header.type = MessageType::kAttach;
  header.body_length = kMaxBody;
  ASSERT_TRUE(SendFrame(fd.get(), std::as_bytes(std::span(&header, 1)), -1,
                        Clock::now() + testing::kEndsAHang)
                  .ok());
  ReceivedFrame answer;
  ASSERT_TRUE(ReceiveFrame(fd.get(), Clock::now() + testing::kEndsAHang, &answer).ok());
  EXPECT_EQ(answer.header.type, MessageType::kError);
  EXPECT_TRUE(Eventually([&] { return ClosedByNode(fd.get()); }));
}

TEST(EngineAdmissionTest, ConnectionsThatDoNotAttachGiveWay) {
  EngineServerOptions options;
  options.max_unattached = 4;
  Server server(options);
  UniqueFd engine = server.Connect();
  ASSERT_TRUE(Attach(engine.get()).ok());
  std::vector<UniqueFd> loris;
  for (int i = 0; i < 6; ++i) loris.push_back(server.Connect());
  EXPECT_TRUE(Eventually([&] { return server.counters.engine_refused_crowded == 2; }));
  EXPECT_TRUE(Eventually([&] { return ClosedByNode(loris[0].get()); }));
  EXPECT_TRUE(Eventually([&] { return ClosedByNode(loris[1].get()); }));
  EXPECT_FALSE(ClosedByNode(loris[5].get()));
  EXPECT_FALSE(ClosedByNode(engine.get()));
  EXPECT_TRUE(Attach(server.Connect().get()).ok());
}

TEST(EngineAdmissionTest, AnEngineForWhichThereIsNoThreadIsRefusedAndTheNodeLives) {
  Server server({});
  UniqueFd refused;
  {
    const testing::NoMoreThreads none;
    refused = server.Connect();
    EXPECT_TRUE(Eventually([&] { return server.counters.engine_refused_limit == 1u; }));
  }
  const auto told = Attach(refused.get());
  EXPECT_EQ(told.status().code(), Code::kResourceExhausted);
  EXPECT_NE(told.status().message().find("pids.max"), std::string::npos)
      << told.status().ToString();
  EXPECT_TRUE(Eventually([&] { return ClosedByNode(refused.get()); }));
  const UniqueFd fd = server.Connect();
  EXPECT_TRUE(Attach(fd.get()).ok());
}

TEST(EngineAdmissionTest, AProcessTakesHalfOfTheThreadsAtMost) {
  Server server({}, {.free = 24, .source = "pids.max of a test"});
  const UniqueFd first = server.Connect();
  const auto session = Attach(first.get());
  ASSERT_TRUE(session.ok());
  std::vector<UniqueFd> others;
  Status refused;
  while (refused.ok() && others.size() < 24) {
    others.push_back(server.Connect());
    refused = Attach(others.back().get(), *session).status();
  }
  // Half of the threads are for connections, half of these for one process.
  EXPECT_EQ(others.size(), 6u);
  EXPECT_EQ(refused.code(), Code::kResourceExhausted);
  EXPECT_NE(refused.message().find("24 in all (pids.max of a test)"), std::string::npos)
      << refused.ToString();
  others.erase(others.begin());
  EXPECT_TRUE(Eventually([&] { return Attach(server.Connect().get(), *session).ok(); }));
}

TEST(EngineAdmissionTest, AProcessTakesHalfOfTheSessionsAtMost) {
  EngineServerOptions options;
  options.max_engines = 6;
  Server server(options);
  std::vector<UniqueFd> all;
  for (int i = 0; i < 3; ++i) {
    all.push_back(server.Connect());
    ASSERT_TRUE(Attach(all.back().get()).ok());
  }
  const auto refused = Attach(server.Connect().get());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::kResourceExhausted);
  EXPECT_NE(refused.status().message().find("--max-engines"), std::string::npos);
  all.pop_back();
  EXPECT_TRUE(Eventually([&] { return Attach(server.Connect().get()).ok(); }));
}

// Sends a Clear and returns what the node says.
Status Clear(int fd, uint64_t tag) {
  FrameWriter w;
  w.Start(MessageType::kClear, 2);
  w.Put(tag);
  if (Status s = SendFrame(fd, w.Finish(), -1, Clock::now() + testing::kEndsAHang); !s.ok())
    return s;
  ReceivedFrame frame;
  if (Status s = ReceiveFrame(fd, Clock::now() + testing::kEndsAHang, &frame); !s.ok()) return s;
  ErrorMessage error;
  FrameReader body(frame.body);
  return frame.header.type == MessageType::kError && error.Decode(&body) ? error.status : Status();
}

TEST(EngineAdmissionTest, ClearsBeyondABurstAreRefusedAndSayWhenToComeAgain) {
  Server server({});
  const UniqueFd fd = server.Connect();
  ASSERT_TRUE(Attach(fd.get()).ok());
  Status last;
  for (uint64_t tag = 0; tag < 1000 && last.ok(); ++tag) last = Clear(fd.get(), tag);
  EXPECT_GE(server.cleared.size(), size_t{Tenant::kClears.burst});
  EXPECT_LT(server.cleared.size(), 1000u);
  EXPECT_EQ(server.cleared[3], 3u) << "the shared tenant's tags are as they are";
  EXPECT_EQ(last.code(), Code::kResourceExhausted);
  EXPECT_NE(last.message().find("repeat it in"), std::string::npos) << last.message();
  EXPECT_TRUE(Eventually([&] { return Clear(fd.get(), 5).ok(); }));
}

TEST(EngineAdmissionTest, AConnectionBeyondTheLimitOfItsSessionIsNotAttached) {
  Server server({});
  std::vector<UniqueFd> all;
  all.push_back(server.Connect());
  auto session = Attach(all.back().get());
  ASSERT_TRUE(session.ok());
  while (all.size() < EngineServer::kMaxConnectionsPerEngine) {
    all.push_back(server.Connect());
    ASSERT_TRUE(Attach(all.back().get(), *session).ok()) << all.size();
  }
  UniqueFd more = server.Connect();
  EXPECT_EQ(Attach(more.get(), *session).status().code(), Code::kResourceExhausted);
  FrameWriter w;
  w.Start(MessageType::kRegion, 2);
  RegionRequest{1, 0, 0}.Encode(&w);
  ASSERT_TRUE(SendFrame(more.get(), w.Finish(), -1, Clock::now() + testing::kEndsAHang).ok());
  ReceivedFrame answer;
  ASSERT_TRUE(ReceiveFrame(more.get(), Clock::now() + testing::kEndsAHang, &answer).ok());
  EXPECT_EQ(answer.header.type, MessageType::kError) << "it serves without being attached";
}

}  // namespace
}  // namespace peercache
