// Nodes of one machine that read each other's pools, which they have mapped: whole nodes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/copy.h"
#include "node/integration/node_process_testing.h"
#include "node/integration/node_testing.h"
#include "node/mapped/mapped_reader.h"
#include "node/mapped/pool_server.h"
#include "node/mapped/readable_pool.h"
#include "wire/stream.h"

namespace peercache {
namespace {

using nlohmann::json;
using testing::Eventually;
using testing::NodeProcess;
using testing::TempDir;
using testing::TestCluster;
using testing::TestEngine;

constexpr size_t kPage = 16 << 10, kPages = 64;
constexpr auto kSoon = testing::kEndsAHang;
constexpr char kSecret[] = "of this cluster, and drawn at random",
               kOther[] = "of quite another one";

uint64_t FromMappedPools(const Node& node) {
  return json::parse(node.StatusJson())["lookups"]["delivered"]["mapped"]["pages"];
}
uint64_t Served(const Node& node) {
  return json::parse(node.StatusJson())["counters"]["served_pages"];
}
// Pools of other processes or nodes that this process has mapped to read.
size_t PoolsMapped() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find(" r--s ") != std::string::npos &&
             (line.find("memfd:peercache-pool") != std::string::npos ||
              line.find(".pool") != std::string::npos);
  return count;
}

TEST(MappedNodesTest, PagesAreCopiedOutOfTheHoldersPoolAndTheHolderSendsNone) {
  TestCluster cluster([](NodeConfig* c) {
    c->map_pools = true;
    c->promotion_percent = 0;
    c->checksums = ChecksumPolicy::kAll;
  });
  const auto holder = cluster.Start("holder"), reader = cluster.Start("reader");
  TestEngine writer(holder->socket(), kPages, kPage), engine(reader->socket(), kPages, kPage);
  ASSERT_EQ(writer.Set(0, kPages), kPages);
  ASSERT_TRUE(Eventually(kSoon, [&] {
    return engine.Get(0, kPages).hits == kPages && FromMappedPools(*reader) >= kPages;
  }));
  const uint64_t sent = Served(*holder);
  EXPECT_EQ(engine.Get(0, kPages).hits, kPages);
  EXPECT_EQ(Served(*holder), sent);
  // Pages that go while their location is remembered.
  ASSERT_TRUE(writer.client().Clear(1).ok());
  EXPECT_EQ(engine.Get(0, kPages).hits, 0u);
}

TEST(MappedNodesTest, WithTheOptionOffPagesAreSent) {
  TestCluster cluster;
  const auto holder = cluster.Start("holder"), reader = cluster.Start("reader");
  TestEngine writer(holder->socket(), kPages, kPage), engine(reader->socket(), kPages, kPage);
  ASSERT_EQ(writer.Set(0, kPages), kPages);
  EXPECT_EQ(engine.Get(0, kPages).hits, kPages);
  EXPECT_EQ(FromMappedPools(*reader), 0u);
  EXPECT_EQ(Served(*holder), kPages);
}

// Else a restart of a node would need its memory twice.
TEST(MappedNodesTest, ThePoolOfANodeThatIsGoneIsUnmapped) {
  TestCluster cluster([](NodeConfig* c) { c->map_pools = true; });
  const auto reader = cluster.Start("reader");
  const NodeConfig other = cluster.Config("holder");
  const uint16_t port = TestCluster::FreePort();
  NodeProcess holder({"node-id=holder", "cluster=test", "bind-addr=127.0.0.1",
                      "peer-port=" + std::to_string(port), "http-port=0", "map-pools=on",
                      "discovery-addr=" + other.discovery_addr, "socket=" + other.socket,
                      "pool-size=32Mi", "huge-pages=off", "transport=tcp"});
  ASSERT_TRUE(Eventually(kSoon, [] { return PoolsMapped() == 1; }));
  holder.End(SIGKILL);
  EXPECT_TRUE(Eventually([] { return PoolsMapped() == 0; }));
}

// A cluster that is deleted and made again has new nodes of the same names while the former ones
// end.
TEST(MappedNodesTest, ANodeWaitsForTheSocketOfOneThatHasNotEnded) {
  TestCluster cluster([](NodeConfig* c) { c->map_pools = true; });
  const auto reader = cluster.Start("reader");
  const std::string path = PoolSocket(cluster.dir(), NodeHash("holder"));
  auto former = ListenUnix(path, 0600);
  ASSERT_TRUE(former.ok()) << former.status().ToString();
  const auto holder = cluster.Start("holder");
  ASSERT_TRUE(Eventually(kSoon, [] { return PoolsMapped() == 1; }))
      << "the reader's, by the holder";
  former->Reset();
  EXPECT_TRUE(Eventually(kSoon, [] { return PoolsMapped() == 2; })) << "and the holder's";
}

// A pool that is a file, in a folder that is on a read-only mount besides, as in a pod.
TEST(MappedNodesTest, AFileIsMappedThroughItsView) {
  ASSERT_EQ(geteuid(), 0u) << "only root can mount: run this test as root";
  InstallCopyGuard();
  TestCluster cluster([](NodeConfig* c) {
    c->map_pools = true;
    c->promotion_percent = 0;
  });
  const auto reader = cluster.Start("reader");
  const TempDir memory("/dev/shm"), view;
  const NodeConfig other = cluster.Config("holder");
  const auto start = [&] {
    return std::make_unique<NodeProcess>(
        std::vector<std::string>{"node-id=holder", "cluster=test", "bind-addr=127.0.0.1",
                                 "peer-port=" + std::to_string(TestCluster::FreePort()), "http=off",
                                 "map-pools=on", "discovery-addr=" + other.discovery_addr,
                                 "socket=" + other.socket, "pool-size=32Mi", "huge-pages=off",
                                 "transport=tcp", "heartbeat-ms=100", "member-ttl-ms=1500",
                                 "pool-file=" + memory.path(), "pool-file-view=" + view.path()},
        std::vector<std::string>{"unshare", "--mount", "sh", "-c",
                                 "mount --bind " + memory.path() + " " + view.path() +
                                     " && mount -o remount,ro,bind " + view.path() +
                                     R"( && exec "$0" "$@")"});
  };
  auto holder = start();
  ASSERT_TRUE(Eventually(kSoon, [] { return PoolsMapped() == 1; }));
  TestEngine writer(other.socket, kPages, kPage), engine(reader->socket(), kPages, kPage);
  ASSERT_TRUE(Eventually(kSoon, [&] { return writer.Set(0, kPages) == kPages; }));
  const auto all_mapped = [&] {
    const uint64_t before = FromMappedPools(*reader);
    return engine.Get(0, kPages).hits == kPages && FromMappedPools(*reader) == before + kPages;
  };
  EXPECT_TRUE(Eventually(kSoon, all_mapped));
  holder->End(SIGKILL);
  ASSERT_TRUE(Eventually(kSoon, [] { return PoolsMapped() == 0; }));
  holder = start();
  EXPECT_TRUE(Eventually(kSoon, all_mapped))
      << "the next process has the pages, and hands them out";

  // The reader goes on when its copies meet the end of a file that was cut short.
  holder->Signal(SIGSTOP);
  ASSERT_EQ(PoolsMapped(), 1u);
  ASSERT_EQ(truncate((memory.path() + "/default.pool").c_str(), 0), 0);
  EXPECT_EQ(engine.Get(0, kPages).hits, 0u);
  holder->End(SIGKILL);
  EXPECT_TRUE(Eventually(kSoon, [&] { return engine.Set(1000, 8) == 8; }));
}

// ---- who is given the pool

class PoolServerTest : public ::testing::Test {
 protected:
  PoolServerTest() {
    auto pool = MappedRegion::Create("peercache-pool", 1 << 20, HugePages::kOff);
    EXPECT_TRUE(pool.ok());
    pool_ = std::move(*pool);
    path_ = PoolSocket(dir_.path(), kHolder);
  }
  void Serve(std::unique_ptr<Secret> secret) {
    server_.reset();  // it looks at the former secret, and has the socket
    secret_ = std::move(secret);
    auto readable = ReadableMemory(pool_);
    ASSERT_TRUE(readable.ok()) << readable.status().ToString();
    server_ = std::make_unique<PoolServer>(dir_.path(), Hello{"test", path_, kHolder, 7, 1},
                                           secret_.get(), std::move(*readable));
    EXPECT_TRUE(Eventually(kSoon, [&] { return ConnectUnix(path_).ok(); }));
  }
  static std::unique_ptr<Secret> Of(const std::string& text, Duration spread = kSoon) {
    auto secret = Secret::Of(text, "test", spread);
    EXPECT_TRUE(secret.ok());
    return std::move(*secret);
  }
  // The descriptor that a caller gets who has this secret; none: it is refused.
  UniqueFd Ask(const Secret& secret, const std::string& to, UniqueFd* connection) {
    const TimePoint deadline = Clock::now() + kSoon;
    auto fd = ConnectUnix(path_);
    EXPECT_TRUE(fd.ok());
    const auto key = secret.ToProve(Clock::now());
    Hello hello{"test", to, 2, 1, 1};
    if (key) {
      hello.key = key->id;
      hello.nonce = *FreshNonce();
    }
    FrameWriter out;
    ReceivedFrame in;
    out.Start(MessageType::kHello, 1);
    hello.Encode(&out);
    if (!SendFrame(fd->get(), out.Finish(), -1, deadline).ok()) return {};
    if (!ReceiveFrame(fd->get(), deadline, &in).ok()) return {};
    if (key) {
      Challenge challenge;
      FrameReader body(in.body);
      EXPECT_TRUE(!in.fd) << "before anything was proven";
      if (!challenge.Decode(&body)) return {};
      challenge.machine = in.header.number;
      const auto proof = Respond(*key, hello, challenge);
      EXPECT_TRUE(proof.ok());
      out.Start(MessageType::kProve, 2);
      ProveMessage{*proof}.Encode(&out);
      if (!SendFrame(fd->get(), out.Finish(), -1, deadline).ok()) return {};
      if (!ReceiveFrame(fd->get(), deadline, &in).ok()) return {};
    }
    *connection = std::move(*fd);
    return std::move(in.fd);
  }
  static bool Closed(int fd) {
    std::byte byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
  }

  static constexpr uint64_t kHolder = 0x1234;
  TempDir dir_;
  std::string path_;
  MappedRegion pool_;
  std::unique_ptr<Secret> secret_;
  std::unique_ptr<PoolServer> server_;
  UniqueFd connection_;
};

TEST_F(PoolServerTest, GivesItToWhoHasTheSecretAndToRead) {
  Serve(Of(kSecret));
  const UniqueFd pool = Ask(*Of(kSecret), path_, &connection_);
  ASSERT_TRUE(pool);
  struct stat info {};
  ASSERT_EQ(fstat(pool.get(), &info), 0);
  EXPECT_EQ(static_cast<size_t>(info.st_size), pool_.size());
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, pool.get(), 0), MAP_FAILED);
  // Nor by way of /proc, which opens the file anew.
  const UniqueFd again(
      open(("/proc/self/fd/" + std::to_string(pool.get())).c_str(), O_RDWR | O_CLOEXEC));
  if (again) {
    EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, again.get(), 0), MAP_FAILED);
    EXPECT_LT(pwrite(again.get(), "x", 1, 0), 0);
  }
}

TEST_F(PoolServerTest, RefusesOtherSecretsAndNone) {
  Serve(Of(kSecret));
  EXPECT_FALSE(Ask(*Of(kOther), path_, &connection_));
  EXPECT_FALSE(Ask(*Secret::None(), path_, &connection_));
  Serve(Secret::None());
  EXPECT_FALSE(Ask(*Of(kSecret), path_, &connection_));
  EXPECT_TRUE(Ask(*Secret::None(), path_, &connection_));
}

// A proof that was made for the peer port, and passed on by somebody in the middle.
TEST_F(PoolServerTest, RefusesWhoHasDialledAnotherAddress) {
  Serve(Of(kSecret));
  EXPECT_FALSE(Ask(*Of(kSecret), "127.0.0.1:31998", &connection_));
  EXPECT_FALSE(Ask(*Of(kSecret), "", &connection_));
}

TEST_F(PoolServerTest, EndsConnectionsWithTheirSecret) {
  Serve(Of(kSecret, milliseconds(100)));
  ASSERT_TRUE(Ask(*Of(kSecret), path_, &connection_));
  EXPECT_FALSE(Closed(connection_.get()));
  ASSERT_TRUE(secret_->Replace(kOther, Clock::now()).ok());
  EXPECT_TRUE(Eventually(kSoon, [&] { return Closed(connection_.get()); }));
}

TEST_F(PoolServerTest, IsOfItsUserAlone) {
  Serve(Of(kSecret));
  struct stat info {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  server_.reset();
  EXPECT_NE(stat(path_.c_str(), &info), 0) << "the socket is still there";
}

// Whoever waits for a socket may have it as soon as nobody listens there.
TEST_F(PoolServerTest, LeavesTheSocketOfWhoComesNextAlone) {
  for (int round = 0; round < 200; ++round) {
    Serve(Secret::None());
    std::thread ends([&] { server_.reset(); });
    auto next = ListenUnix(path_, 0600);
    while (!next.ok()) next = ListenUnix(path_, 0600);
    ends.join();
    ASSERT_EQ(access(path_.c_str(), F_OK), 0) << "round " << round;
  }
}

}  // namespace
}  // namespace peercache
