// Readers and writers of more pages than fit, over RDMA, while nodes stutter, are killed, leave and
// come back: what python/tests/fleet/test_stress.py does over TCP. Every byte of every hit is
// checked. With checksums off only the protocol stands between a READ that comes too late and the
// engine: the holder of a page takes no part in it, and does not even run while it is stopped.
//
// RDMA_STRESS_SECONDS (5) is how long each kind of checksum runs, longer where that was too little.
// Runs in namespace A of hack/lab/soft-rdma/fabric.sh, by hack/lab/soft-rdma/tests/13-stress.sh.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/temp_dir_testing.h"
#include "node/integration/node_process_testing.h"
#include "node/integration/node_testing.h"
#include "node/report/http_get.h"

namespace peercache {
namespace {

using nlohmann::json;
using std::chrono::seconds;
using testing::Eventually;
using testing::NodeProcess;
using testing::TempDir;
using testing::TestEngine;

constexpr size_t kPage = 32 << 10, kHeader = 64;
constexpr size_t kBatch = 16;
// The pools take 250 pages each.
constexpr uint64_t kWorkingSet = 1000;
constexpr milliseconds kLease{100};
constexpr seconds kBetweenRestarts{2};
constexpr seconds kLongest{40};

struct Place {
  std::string id, space, address, rails;
};
const Place kPlaces[] = {{"a", "A", "10.10.0.1", "rxe_a0,rxe_a1"},
                         {"b", "B", "10.10.0.2", "rxe_b0,rxe_b1"}};
constexpr int kHttpPort = 31997;

struct Counted {
  uint64_t rail_bytes = 0, evictions = 0, remote_hits = 0;
  // A page has its header twice.
  uint64_t pages_by_read() const { return rail_bytes / (kPage + 2 * kHeader); }
};

// One of the nodes, in all its lives.
class Lives {
 public:
  Lives(const Place& place, const std::string& folder, const std::string& checksums)
      : place_(place),
        socket_(folder + "/" + place.id + ".sock"),
        options_(
            {"node-id=" + place.id, "bind-addr=" + place.address, "advertise-addr=" + place.address,
             "discovery-addr=10.10.0.1:31998,10.10.0.2:31998",
             fmt::format("http-port={}", kHttpPort), "socket=" + socket_, "pool-size=8Mi",
             "huge-pages=off", "insecure-peers=on", "transport=rdma", "device-name=" + place.rails,
             "checksums=" + checksums, fmt::format("lease-ms={}", kLease.count()),
             fmt::format("dir-cache-ttl-ms={}", kLease.count()), "heartbeat-ms=50",
             "member-ttl-ms=1000"}) {
    Begin();
  }
  void Begin() {
    process_ = std::make_unique<NodeProcess>(
        options_, std::vector<std::string>{"ip", "netns", "exec", place_.space});
  }
  void End(int signal) {
    before_ = Total();
    process_->End(signal);
  }
  void Signal(int signal) { process_->Signal(signal); }
  bool Ready() {
    const auto answer = Get("/readyz");
    return answer.ok() && answer->status == 200;
  }
  // Of all lives so far.
  Counted Total() {
    Counted total = before_;
    const auto answer = Get("/v1/status");
    if (!answer.ok()) return total;
    const json status = json::parse(answer->body);
    for (const json& rail : status["transport"]["rails"])
      total.rail_bytes += rail["read_bytes"].get<uint64_t>();
    total.evictions += status["pool"]["evictions"].get<uint64_t>();
    total.remote_hits += status["counters"]["read_remote_hits"].get<uint64_t>();
    return total;
  }
  const std::string& socket() const { return socket_; }

 private:
  Result<HttpAnswer> Get(const std::string& path) const {
    return HttpGet(place_.address, kHttpPort, path, seconds(5));
  }

  const Place place_;
  const std::string socket_;
  const std::vector<std::string> options_;
  std::unique_ptr<NodeProcess> process_;
  Counted before_;
};

struct Seen {
  std::atomic<size_t> hits{0}, misses{0}, sets{0}, wrong{0};
};

// Gets, whose misses are set, and as many sets of its own as `writes` says, until `stop`. As SGLang
// does, asks for the pages before, so that a get goes by what was remembered, for up to a lease.
void Use(const std::string& socket, unsigned seed, double writes, const std::atomic<bool>& stop,
         Seen* seen) {
  TestEngine engine(socket, kBatch, kPage);
  std::mt19937_64 random(seed);
  std::bernoulli_distribution write(writes);
  std::uniform_int_distribution<uint64_t> pick(0, kWorkingSet - kBatch);
  std::uniform_int_distribution<int64_t> pause(0, kLease.count());
  while (!stop) {
    const uint64_t first = pick(random);
    size_t done = 0;
    bool full = false;
    if (!write(random)) {
      engine.Exists(first, kBatch);
      std::this_thread::sleep_for(milliseconds(pause(random)));
      const auto got = engine.Get(first, kBatch);
      done = got.hits;
      full = got.hits == kBatch;
      seen->hits += got.hits;
      seen->misses += kBatch - got.hits;
      seen->wrong += got.wrong;
    }
    if (!full) {
      const size_t stored = engine.Set(first, kBatch);
      seen->sets += stored;
      done += stored;
    }
    // Its node is away.
    if (done == 0) std::this_thread::sleep_for(milliseconds(5));
  }
}

Duration StressTime() {
  const char* wanted = std::getenv("RDMA_STRESS_SECONDS");
  return seconds(wanted != nullptr ? std::atoi(wanted) : 5);
}

struct Troubles {
  int stutters = 0, restarts = 0;
};

// Stops a node for less than a lease or for more. When it is time for that, kills one before, or
// asks it to leave, and starts it again.
void Trouble(std::vector<std::unique_ptr<Lives>>* nodes, std::mt19937* random, TimePoint* restart,
             Troubles* troubles) {
  if (Clock::now() >= *restart) {
    Lives& node = *(*nodes)[troubles->restarts / 2 % 2];
    node.End(troubles->restarts % 2 == 0 ? SIGKILL : SIGTERM);
    node.Begin();
    ++troubles->restarts;
    *restart = Clock::now() + kBetweenRestarts;
  }
  constexpr double kLeases[] = {0.3, 0.6, 0.9, 1.2, 2, 4};
  Lives& node = *(*nodes)[(*random)() % 2];
  node.Signal(SIGSTOP);
  std::this_thread::sleep_for(kLease * kLeases[(*random)() % std::size(kLeases)]);
  node.Signal(SIGCONT);
  ++troubles->stutters;
  std::this_thread::sleep_for(milliseconds((*random)() % 600));
}

void NoWrongByte(const std::string& checksums) {
  const TempDir folder;
  std::vector<std::unique_ptr<Lives>> nodes;
  for (const Place& place : kPlaces)
    nodes.push_back(std::make_unique<Lives>(place, folder.path(), checksums));
  for (const auto& node : nodes)
    ASSERT_TRUE(Eventually(seconds(20), [&] { return node->Ready(); }));

  Seen seen;
  std::atomic<bool> stop{false};
  std::vector<std::thread> engines;
  for (unsigned i = 0; i < 6; ++i) {
    engines.emplace_back(Use, nodes[i % 2]->socket(), i, i < 4 ? 0.0 : 0.9, std::cref(stop), &seen);
  }
  const TimePoint start = Clock::now();
  TimePoint restart = start + kBetweenRestarts;
  std::mt19937 random(1);
  Troubles troubles;
  const auto counted = [&] {
    Counted sum = nodes[0]->Total();
    const Counted other = nodes[1]->Total();
    sum.rail_bytes += other.rail_bytes;
    sum.evictions += other.evictions;
    sum.remote_hits += other.remote_hits;
    return sum;
  };
  const auto enough = [&] {
    const Counted now = counted();
    return troubles.restarts >= 2 && now.pages_by_read() > 100 && now.evictions > 100 &&
           seen.hits > 200;
  };
  for (Duration ran{}; ran < StressTime() || (ran < kLongest && !enough());
       ran = Clock::now() - start) {
    if (ran < StressTime() || troubles.restarts < 2) {
      Trouble(&nodes, &random, &restart, &troubles);
    } else {
      // Rails that fail again and again are tried less and less often.
      std::this_thread::sleep_for(milliseconds(100));
    }
  }
  stop = true;
  for (std::thread& engine : engines) engine.join();
  const Counted all = counted();
  fmt::print(
      "stress over RDMA, checksums {}: {} hits, {} from the other node, {} pages READ, {} misses, "
      "{} sets, {} evictions, {} restarts, {} stutters, {} wrong pages\n",
      checksums, seen.hits.load(), all.remote_hits, all.pages_by_read(), seen.misses.load(),
      seen.sets.load(), all.evictions, troubles.restarts, troubles.stutters, seen.wrong.load());
  EXPECT_EQ(seen.wrong, 0u) << "wrong bytes";
  EXPECT_TRUE(enough()) << "it was not the pressure it was meant to be";
}

TEST(StressFabricTest, NoWrongByteWithoutChecksums) { NoWrongByte("off"); }
TEST(StressFabricTest, NoWrongByteWithChecksums) { NoWrongByte("all"); }

}  // namespace
}  // namespace peercache
