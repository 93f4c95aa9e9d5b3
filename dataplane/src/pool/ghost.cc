#include "pool/ghost.h"

#include <algorithm>
#include <bit>

namespace peercache {
namespace {

constexpr size_t kLongestWindow = size_t{1} << 30;  // far below the range of departures
// Keys fall into buckets at random: with five expected, one bucket in fifteen has more than eight.
constexpr size_t kExpectedPerBucket = 5;

}  // namespace

Ghost::Ghost(size_t window) { SetWindow(window); }

void Ghost::SetWindow(size_t departures) {
  const size_t window = std::clamp<size_t>(departures, 1, kLongestWindow);
  if (window > capacity_) MakeTable(window);
  window_ = static_cast<uint32_t>(window);
}

void Ghost::MakeTable(size_t window) {
  buckets_.assign(std::bit_ceil(window / kExpectedPerBucket + 1), {});
  mask_ = buckets_.size() - 1;
  capacity_ = static_cast<uint32_t>(std::max(window, buckets_.size() * kExpectedPerBucket));
  departures_ = capacity_ + 1;  // so that empty entries are too old to count
}

void Ghost::Add(const Key& key) {
  ++departures_;
  const uint32_t fingerprint = FingerprintOf(key);
  Entry* place = nullptr;
  for (Entry& entry : BucketOf(key).entries) {
    if (entry.fingerprint == fingerprint) {
      place = &entry;
      break;
    }
    if (place == nullptr || Age(entry) > Age(*place)) place = &entry;
  }
  *place = {fingerprint, departures_};
}

bool Ghost::Take(const Key& key) {
  const uint32_t fingerprint = FingerprintOf(key);
  for (Entry& entry : BucketOf(key).entries) {
    if (entry.fingerprint != fingerprint || Age(entry) >= window_) continue;
    entry.departure = departures_ - capacity_;  // too old for any window
    return true;
  }
  return false;
}

}  // namespace peercache
