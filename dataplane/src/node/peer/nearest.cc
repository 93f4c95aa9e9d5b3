#include "node/peer/nearest.h"

#include <algorithm>
#include <array>
#include <limits>

namespace peercache {
namespace {

// Of what a longer round trip adds, counted at each.
constexpr int kSmooth = 8;

}  // namespace

size_t Nearest(std::span<const Way> ways) {
  ways = ways.first(std::min(ways.size(), kMostWays));
  std::array<bool, kMostWays> out{};
  // Leaves those that are `wanted`, if there are any.
  const auto keep = [&](const auto& wanted) {
    std::array<bool, kMostWays> now = out;
    bool any = false;
    for (size_t i = 0; i < ways.size(); ++i) {
      now[i] = out[i] || !wanted(ways[i]);
      any |= !now[i];
    }
    if (any) out = now;
  };
  const auto least = [&](auto most, const auto& of) {
    for (size_t i = 0; i < ways.size(); ++i)
      if (!out[i]) most = std::min(most, of(ways[i]));
    return most;
  };
  keep([](const Way& way) { return !way.disk; });
  keep([](const Way& way) { return way.rdma; });
  keep([](const Way& way) { return way.here; });
  // What is not measured yet may be the nearest.
  const Duration trip = least(Duration::max() / kEqualFactor - kEqualTrips, [](const Way& way) {
    return way.round_trip > Duration::zero() ? way.round_trip : Duration::max();
  });
  keep([&](const Way& way) { return way.round_trip <= kEqualFactor * trip + kEqualTrips; });
  const uint64_t bytes = least(std::numeric_limits<uint64_t>::max() - kEqualBytes,
                               [](const Way& way) { return way.under_way; });
  keep([&](const Way& way) { return way.under_way <= bytes + kEqualBytes; });
  size_t nearest = 0;
  for (size_t i = 0; i < ways.size(); ++i)
    if (!out[i] && (out[nearest] || ways[i].preference > ways[nearest].preference)) nearest = i;
  return nearest;
}

void RoundTrip::Took(Duration took) {
  const int64_t sample = std::max<int64_t>(took.count(), 1);
  const int64_t now = ns_.load(std::memory_order_relaxed);
  ns_.store(now == 0 || sample < now ? sample : now + (sample - now) / kSmooth,
            std::memory_order_relaxed);
}

}  // namespace peercache
