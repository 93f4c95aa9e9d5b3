// Measures the ring and prints the table of docs/dev/performance.md ("Directory ring"):
//
//   cmake --build build/release --target ring_benchmark && build/release/ring_benchmark
//
// Time is CPU time of the one thread, so that other processes disturb little.

#include <fmt/format.h>
#include <time.h>

#include <cstring>

#include "directory/ring_simulation.h"

namespace {

using namespace peercache;

constexpr uint32_t kVnodes = 160;
constexpr size_t kKeys = 1 << 12;  // few enough to stay in the cache
constexpr int kRounds = 200;

double CpuNanos() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

double NanosPerLookup(const Ring& ring, std::mt19937_64* rng) {
  std::vector<Key> keys(kKeys);
  for (Key& key : keys) {
    for (size_t word = 0; word < 4; ++word) {
      const uint64_t x = (*rng)();
      std::memcpy(key.bytes.data() + 8 * word, &x, sizeof(x));
    }
  }
  uint64_t sum = 0;
  const double start = CpuNanos();
  for (int round = 0; round < kRounds; ++round) {
    for (const Key& key : keys) sum += ring.OwnerOf(key);
  }
  const double took = CpuNanos() - start;
  if (sum == 0) fmt::print("no owners\n");  // keeps the loop
  return took / kRounds / kKeys;
}

void Row(size_t count, Capacities capacities) {
  std::mt19937_64 rng(11);
  const auto members = SimulatedMembers(count, capacities, &rng);
  const double start = CpuNanos();
  const Ring ring(members, kVnodes);
  const double build = CpuNanos() - start;
  const double lookup = NanosPerLookup(ring, &rng);
  const auto shares = SimulateShares(members, kVnodes, &rng);
  const Balance balance = BalanceOf(members, shares);
  // Minimal movement (ring_simulation_test.cc): a member that joins takes its share, no more.
  const double ideal = static_cast<double>(members.back().weight) / TotalWeight(members);
  fmt::print("| {} | {} | {:.3f} | {:.3f} | {:.3f} | {:.0f} | {:.2f} |\n", count,
             capacities == Capacities::kEqual ? "equal" : "1 : 2 : 4 : 8", balance.most,
             balance.least, shares.back() / ideal, lookup, build / 1e6);
}

}  // namespace

int main() {
  fmt::print(
      "| members | capacities | most loaded / fair | least loaded / fair | moved on join / ideal | "
      "ns per lookup | build, ms |\n|---|---|---|---|---|---|---|\n");
  for (const Capacities capacities : {Capacities::kEqual, Capacities::kMixed}) {
    for (const size_t count : {3, 10, 100, 1000, 10000}) Row(count, capacities);
  }
}
