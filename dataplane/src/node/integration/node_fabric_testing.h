// What tests of whole nodes over RDMA share; they need devices (hack/lab/soft-rdma brings some).
// PEERCACHE_TEST_RAILS lists them. All nodes are in one process and use the same rails.
#pragma once

#include <atomic>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "node/integration/node_testing.h"
#include "node/node.h"

namespace peercache::testing {

inline void UseRails(NodeConfig* config) {
  config->transport = "rdma";
  config->device_name = std::getenv("PEERCACHE_TEST_RAILS");
  config->rdma_spin = {};
  config->promotion_percent = 0;  // replicas would be read instead
  config->lease = milliseconds(1000);
  config->peer_timeout = std::chrono::seconds(5);  // a guest may get little of the processors
}

inline nlohmann::json Status(Node& node) { return nlohmann::json::parse(node.StatusJson()); }
inline uint64_t CounterOf(Node& node, const char* name) { return Status(node)["counters"][name]; }
// Of all rails: "reads", or their "read_bytes".
inline uint64_t OfRails(Node& node, const char* what) {
  uint64_t sum = 0;
  const nlohmann::json status = Status(node);
  for (const nlohmann::json& rail : status["transport"]["rails"]) sum += rail[what].get<uint64_t>();
  return sum;
}
inline uint64_t RailBytes(Node& node) { return OfRails(node, "read_bytes"); }

// Pages come and go: while this lives, and until Stop, `writer` sets 16 new ones after the other.
class Churn {
 public:
  Churn(TestEngine* writer, TestEngine* reader)
      : reader_(reader), setting_([this, writer] {
          for (uint64_t first = 16; !stop_; first += 16) {
            writer->Set(first, 16);
            newest_ = first;
          }
        }) {}
  ~Churn() { Stop(); }
  Churn(const Churn&) = delete;
  Churn& operator=(const Churn&) = delete;

  // Gets the newest, and some that may be gone.
  void Read() {
    const uint64_t first = newest_;
    for (const uint64_t back : {0, 32, 64}) {
      if (back > first) continue;
      const auto got = reader_->Get(first - back, 16);
      hits += got.hits;
      wrong += got.wrong;
    }
  }
  void Stop() {
    stop_ = true;
    if (setting_.joinable()) setting_.join();
  }
  size_t hits = 0, wrong = 0;

 private:
  TestEngine* const reader_;
  std::atomic<uint64_t> newest_{0};
  std::atomic<bool> stop_{false};
  std::thread setting_;  // last: it uses the above
};

}  // namespace peercache::testing
