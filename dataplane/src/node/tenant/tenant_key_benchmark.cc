// Measures what it costs to bind the keys of one Presence to a tenant:
//
//   cmake --build build/release --target tenant_key_benchmark && build/release/tenant_key_benchmark
//
// Time is CPU time of the one thread, so that other processes disturb little.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "node/tenant/tenant_key.h"

namespace {

using namespace peercache;

constexpr size_t kKeys = 16'384;
constexpr int kRounds = 200;

double CpuNanos() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

}  // namespace

int main() {
  const auto key = TenantKey::Derive("serving/kv", "team-a", "of at least 16 bytes");
  if (!key.ok()) return 1;
  auto binding = TenantBinding::Make(&*key);
  if (!binding.ok()) return 1;
  std::vector<Key> keys(kKeys);
  for (size_t i = 0; i < kKeys; ++i) std::memcpy(keys[i].bytes.data(), &i, sizeof(i));
  double best = 1e18;
  for (int round = 0; round < kRounds; ++round) {
    const double start = CpuNanos();
    if (!binding->Bind(keys).ok()) return 1;
    best = std::min(best, CpuNanos() - start);
  }
  fmt::print("{} keys: {:.3f} ms, {:.1f} ns each (best of {})\n", kKeys, best / 1e6, best / kKeys,
             kRounds);
}
