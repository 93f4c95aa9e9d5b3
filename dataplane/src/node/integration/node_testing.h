// Real nodes and engines on loopback, for tests: every node binds free ports, so tests run in
// parallel.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/claimed_port_testing.h"
#include "base/divide.h"
#include "base/memory.h"
#include "base/patience_testing.h"
#include "base/temp_dir_testing.h"
#include "base/wrong_bytes.h"
#include "client/client.h"
#include "node/node.h"

namespace peercache::testing {

inline bool Eventually(Duration limit, const std::function<bool()>& condition) {
  return Eventually(condition, limit);
}

// Nodes of one cluster; the first hosts discovery.
class TestCluster {
 public:
  using Tweak = std::function<void(NodeConfig*)>;

  explicit TestCluster(Tweak tweak = {}) : tweak_(std::move(tweak)) {}

  NodeConfig Config(const std::string& id) const {
    NodeConfig config;
    config.node_id = id;
    config.cluster = "test";
    config.bind_addr = "127.0.0.1";
    config.advertise_addr = "127.0.0.1";
    config.peer_port = 0;
    config.http_port = 0;
    config.socket = dir_.path() + "/" + id + ".sock";
    config.pool_bytes = size_t{32} << 20;
    config.huge_pages = HugePages::kOff;
    config.heartbeat = milliseconds(100);
    config.member_ttl = milliseconds(1500);
    config.lease = milliseconds(1000);         // longer than a busy machine stops a process
    config.peer_timeout = milliseconds(5000);  // a peer that is slow has not failed
    config.map_pools = false;                  // most tests are about what nodes send each other
    config.discovery_addr = discovery_;
    if (tweak_) tweak_(&config);
    return config;
  }

  // Starts a node and, unless told otherwise, waits until it has joined.
  std::unique_ptr<Node> Start(const std::string& id, bool wait = true, uint16_t port = 0) {
    NodeConfig config = Config(id);
    config.peer_port = port != 0 ? port : FreePort();  // nobody has it when the node starts anew
    if (discovery_.empty()) {
      // The first node is a host of its own: it needs to know its port beforehand.
      discovery_ = "127.0.0.1:" + std::to_string(config.peer_port);
      config.discovery_addr = discovery_;
    }
    auto node = Node::Start(config);
    EXPECT_TRUE(node.ok()) << node.status().ToString();
    if (!node.ok()) return nullptr;
    if (wait) {
      EXPECT_TRUE(Eventually([&] { return (*node)->ready(); }));
    }
    return std::move(*node);
  }

  // A port for who listens later.
  static uint16_t FreePort() { return ClaimPort(); }
  const std::string& dir() const { return dir_.path(); }

 private:
  TempDir dir_;
  Tweak tweak_;
  std::string discovery_;
};

inline Key KeyOf(uint64_t n) {
  Key key;
  for (size_t i = 0; i < key.bytes.size(); ++i) {
    n = n * 6364136223846793005u + 1442695040888963407u;
    key.bytes[i] = static_cast<uint8_t>(n >> 56);
  }
  return key;
}

// An engine with a shared host pool of `pages` pages of two segments each (like K and V).
class TestEngine {
 public:
  TestEngine(const std::string& socket, size_t pages, size_t page_bytes, bool shared = true)
      : page_bytes_(page_bytes) {
    const size_t page = SmallPageSize();
    auto region = MappedRegion::Create("test-engine", DivideUp(pages * page_bytes, page) * page,
                                       HugePages::kOff);
    EXPECT_TRUE(region.ok());
    host_ = std::move(*region);
    // Longer than any node here waits for others: one that is slow under a sanitizer is not one
    // that does not answer.
    auto client =
        Client::Connect({.socket = socket, .engine = "test", .timeout = milliseconds(15'000)});
    EXPECT_TRUE(client.ok()) << client.status().ToString();
    if (!client.ok()) return;
    client_ = std::move(*client);
    EXPECT_TRUE(client_->attached()) << client_->state().ToString();
    if (shared) {
      EXPECT_TRUE(client_->RegisterRegion(host_.fd(), host_.data(), host_.size()).ok());
    }
  }

  Client& client() { return *client_; }
  std::shared_ptr<Client> shared_client() { return client_; }

  // Sets pages [first, first + count), whose bytes follow from their number. Returns how many
  // worked.
  size_t Set(uint64_t first, size_t count, uint64_t tag = 1) {
    for (size_t i = 0; i < count; ++i) Write(i, first + i);
    std::vector<uint8_t> ok(count);
    client_->Set(Keys(first, count), Segments(count), 2, tag, ok);
    return static_cast<size_t>(std::count(ok.begin(), ok.end(), uint8_t{1}));
  }
  struct Got {
    size_t hits = 0;
    size_t wrong = 0;
  };
  Got Get(uint64_t first, size_t count, Counting counting = {}) {
    std::memset(host_.data(), 0xee, count * page_bytes_);
    std::vector<uint8_t> ok(count);
    client_->Get(Keys(first, count), Segments(count), 2, ok, counting);
    Got got;
    for (size_t i = 0; i < count; ++i) {
      if (!ok[i]) continue;
      ++got.hits;
      if (Holds(i, first + i)) continue;
      ++got.wrong;
      ADD_FAILURE() << "page " << first + i << " has wrong bytes";  // whatever the test looks at
    }
    return got;
  }
  size_t Exists(uint64_t first, size_t count, Counting counting = {}) {
    return client_->Exists(Keys(first, count), counting);
  }

  static std::vector<Key> Keys(uint64_t first, size_t count) {
    std::vector<Key> keys;
    for (size_t i = 0; i < count; ++i) keys.push_back(KeyOf(first + i));
    return keys;
  }

  // Of the host pool's pages from `at` on, for calls that a test makes itself.
  std::vector<Segment> Segments(size_t count, size_t at = 0) {
    std::vector<Segment> segments;
    const size_t k = page_bytes_ / 4;  // unequal halves show mix-ups
    for (size_t i = at; i < at + count; ++i) {
      const auto base = reinterpret_cast<uint64_t>(page(i).data());
      segments.push_back({base, k});
      segments.push_back({base + k, page_bytes_ - k});
    }
    return segments;
  }
  void Write(size_t at, uint64_t n) { Fill(page(at), n); }
  bool Holds(size_t at, uint64_t n) { return Matches(page(at), n); }
  // The bytes of page number n.
  static void Fill(std::span<std::byte> bytes, uint64_t n) {
    uint64_t x = n * 0x9e3779b97f4a7c15u + 1;
    for (size_t i = 0; i + 8 <= bytes.size(); i += 8, x += 0x2545f4914f6cdd1d) {
      std::memcpy(bytes.data() + i, &x, 8);
    }
  }

 private:
  std::span<std::byte> page(size_t i) {
    return host_.bytes().subspan(i * page_bytes_, page_bytes_);
  }
  static bool Matches(std::span<const std::byte> bytes, uint64_t n) {
    std::vector<std::byte> want(bytes.size());
    Fill(want, n);
    const size_t words = bytes.size() / 8 * 8;
    return HasRightBytes("page " + std::to_string(n), bytes.first(words),
                         std::span(want).first(words));
  }

  size_t page_bytes_;
  MappedRegion host_;
  std::shared_ptr<Client> client_;
};

}  // namespace peercache::testing
