// What tests of an engine whose own node is killed share. The node brings pages from another node
// into the engine's memory meanwhile. Both nodes are processes; the engine is this one.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/wrong_bytes.h"
#include "node/integration/node_process_testing.h"
#include "node/integration/node_testing.h"

namespace peercache::testing {

using namespace std::chrono_literals;

class KilledReader : public ::testing::Test {
 protected:
  static constexpr size_t kPage = 64 << 10;
  static constexpr size_t kPages = 1024;
  static constexpr std::byte kMine{0xab};

  // `options` of both nodes.
  explicit KilledReader(std::vector<std::string> options = {})
      : options_(std::move(options)),
        discovery_(fmt::format("127.0.0.1:{}", TestCluster::FreePort())),
        far_(Start("far", discovery_.substr(discovery_.find(':') + 1))),
        memory_(MappedRegion::Create("pages", kPages * kPage, HugePages::kOff).value()) {
    for (size_t i = 0; i < kPages; ++i) {
      keys_.push_back(KeyOf(i));
      segments_.push_back({reinterpret_cast<uint64_t>(page(i).data()), kPage});
    }
  }
  std::unique_ptr<NodeProcess> Start(const std::string& id, const std::string& port) const {
    std::vector<std::string> options{"node-id=" + id,
                                     "bind-addr=127.0.0.1",
                                     "advertise-addr=127.0.0.1",
                                     "peer-port=" + port,
                                     "huge-pages=off",
                                     "pool-size=128Mi",
                                     "log-level=error",
                                     "heartbeat-ms=100",
                                     "member-ttl-ms=1500",
                                     "discovery-addr=" + discovery_,
                                     "socket=" + SocketOf(id),
                                     id == "near" ? "http-port=" + http_port_ : "http=off"};
    options.insert(options.end(), options_.begin(), options_.end());
    return std::make_unique<NodeProcess>(options);
  }
  std::string SocketOf(const std::string& id) const { return dir_.path() + "/" + id + ".sock"; }
  std::unique_ptr<Client> Attach(const std::string& id) const {
    auto client = Client::Connect({.socket = SocketOf(id), .engine = id, .timeout = kEndsAHang});
    EXPECT_TRUE(client.ok()) << client.status().ToString();
    EXPECT_TRUE(Eventually([&] { return (*client)->attached(); }));
    EXPECT_TRUE((*client)->RegisterRegion(memory_.fd(), memory_.data(), memory_.size()).ok());
    return std::move(*client);
  }
  std::span<std::byte> page(size_t i) const { return memory_.bytes().subspan(i * kPage, kPage); }
  bool SetAtFar() const {
    const auto writer = Attach("far");
    for (size_t i = 0; i < kPages; ++i) TestEngine::Fill(page(i), i);
    return Eventually([&] {
      std::vector<uint8_t> ok(kPages);
      writer->Set(keys_, segments_, 1, 1, ok);
      return std::ranges::count(ok, 1) == std::ssize(ok);
    });
  }
  // Pages that came with the bytes that were set.
  size_t Get() const {
    std::vector<uint8_t> ok(kPages);
    reader_->Get(keys_, segments_, 1, ok);
    std::vector<std::byte> wanted(kPage);
    size_t right = 0;
    for (size_t i = 0; i < kPages; ++i) {
      TestEngine::Fill(wanted, i);
      if (ok[i] == 0) continue;
      const bool same = HasRightBytes(fmt::format("page {}", i), page(i), wanted);
      EXPECT_TRUE(same);
      right += same;
    }
    return right;
  }
  // Pages that have been written into since all were kMine, as their first bytes tell.
  size_t Begun() const {
    return static_cast<size_t>(std::ranges::count_if(segments_, [](const Segment& s) {
      return *reinterpret_cast<const volatile std::byte*>(s.address) != kMine;
    }));
  }
  // A node that comes back has no replicas, so it reads each page from the other one.
  void StartReader() {
    near_.reset();
    near_ = Start("near", "0");
    if (!reader_) reader_ = Attach("near");
    ASSERT_TRUE(Eventually([&] { return reader_->Exists(keys_) == kPages; }))
        << reader_->state().message();
    ASSERT_NO_FATAL_FAILURE(AwaitWay());
  }
  // Until reads go the way that a test is about.
  virtual void AwaitWay() {}
  // Kills the node when it has begun with so many pages of a get. False when the get was over
  // before.
  bool KillDuringGet(size_t begun) {
    std::ranges::fill(memory_.bytes(), kMine);
    std::vector<uint8_t> ok(kPages);
    std::atomic<bool> returned{false};
    std::thread getting([&] {
      reader_->Get(keys_, segments_, 1, ok);
      returned = true;
    });
    while (!returned && Begun() < begun) std::this_thread::yield();
    const TimePoint killed = Clock::now();
    near_->End(SIGKILL);
    getting.join();
    EXPECT_LT(Clock::now() - killed, kEndsAHang / 2) << "it waited for its time-out";
    return std::ranges::count(ok, 0) == std::ssize(ok);
  }
  // Nobody writes over what the engine does with its memory now.
  void ExpectMemoryIsTheEngines() const {
    std::ranges::fill(memory_.bytes(), kMine);
    std::this_thread::sleep_for(200ms);
    const std::vector<std::byte> mine(kPage, kMine);
    for (size_t i = 0; i < kPages; ++i)
      EXPECT_TRUE(HasRightBytes(fmt::format("the engine's page {}", i), page(i), mine));
  }

  // Kills it several times, at several moments of a get.
  void KillInTheMiddle() {
    ASSERT_TRUE(SetAtFar());
    for (const size_t begun : {size_t{1}, size_t{64}, kPages / 2}) {
      bool killed = false;
      for (int attempt = 0; attempt < 5 && !killed; ++attempt) {
        ASSERT_NO_FATAL_FAILURE(StartReader());
        killed = KillDuringGet(begun);
      }
      EXPECT_TRUE(killed) << "in the middle of a get, at page " << begun;
      ExpectMemoryIsTheEngines();
      ASSERT_NO_FATAL_FAILURE(StartReader());
      // On a machine that is busy elsewhere, a holder may be late for one get.
      EXPECT_TRUE(Eventually([&] { return Get() == kPages; })) << reader_->state().message();
    }
  }

  const std::vector<std::string> options_;
  const std::string http_port_ = std::to_string(TestCluster::FreePort());  // of near
  TempDir dir_;
  const std::string discovery_;
  std::unique_ptr<NodeProcess> far_, near_;
  std::unique_ptr<Client> reader_;  // of near
  const MappedRegion memory_;
  std::vector<Key> keys_;
  std::vector<Segment> segments_;
};

}  // namespace peercache::testing
