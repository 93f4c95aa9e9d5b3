#include "node/peer/read_cost.h"

#include <algorithm>

namespace peercache {
namespace {

// The share of what a slower read adds that counts at each: one in so many.
constexpr int kSlowerWeight = 4;
constexpr double kPicosPerNano = 1000, kPicosPerSecond = 1e12;
// Of fewer bytes than this the time is that of messages and of waking threads.
constexpr uint64_t kLeastBytes = 64 << 10;

uint64_t PicosPerByte(uint64_t bytes, Duration took) {
  const double picos = static_cast<double>(took.count()) * kPicosPerNano;
  return std::max<uint64_t>(1, static_cast<uint64_t>(picos / static_cast<double>(bytes)));
}

}  // namespace

void ReadCost::Took(uint64_t bytes, uint64_t queued, Duration took) {
  if (bytes == 0) return;
  const uint64_t sample = PicosPerByte(bytes + queued, took);
  const uint64_t now = ps_per_byte_.load(std::memory_order_relaxed);
  if (failed_.load(std::memory_order_relaxed) != 0 && took <= kLeastPatience) {
    // A trial gives the place another chance, and the get that follows shows what it is worth.
    if (now != 0) return ps_per_byte_.store(0, std::memory_order_relaxed);
    failed_.store(0, std::memory_order_relaxed);
  }
  if (bytes < kLeastBytes && sample >= now) return;
  ps_per_byte_.store(now == 0 || sample < now ? sample : now + (sample - now) / kSlowerWeight,
                     std::memory_order_relaxed);
}

void ReadCost::Lost(uint64_t bytes, Duration took, TimePoint now) {
  if (bytes == 0) return;
  const uint64_t least = PicosPerByte(bytes, took) + 1;  // the same again is not worth it
  if (ps_per_byte_.load(std::memory_order_relaxed) < least)
    ps_per_byte_.store(least, std::memory_order_relaxed);
  trial_at_.store(NextTrial(now, took), std::memory_order_relaxed);
}

void ReadCost::Forget() {
  ps_per_byte_.store(0, std::memory_order_relaxed);
  failed_.store(0, std::memory_order_relaxed);
}

bool ReadCost::Pays(uint64_t bytes, uint64_t queued, Duration worth) {
  const uint64_t pace = ps_per_byte_.load(std::memory_order_relaxed);
  if (pace == 0) return true;
  const double picos = static_cast<double>(pace) * static_cast<double>(bytes + queued);
  const Duration patience = std::max<Duration>(worth, kNoWait);
  const bool pays = picos < static_cast<double>(patience.count()) * kPicosPerNano;
  if (pays && failed_.load(std::memory_order_relaxed) != 0)
    failed_.store(0, std::memory_order_relaxed);
  return pays;
}

size_t ReadCost::ToAskFor(size_t pages, uint64_t bytes, uint64_t queued, Duration worth,
                          Purpose purpose, TimePoint now) {
  if (Pays(bytes, queued, worth)) return pages;
  if (purpose == Purpose::kExists) return TrialDue(now) ? pages : 0;
  return TakeTrial(now) ? std::min<size_t>(pages, 1) : 0;
}

bool ReadCost::slow() const {
  return failed_.load(std::memory_order_relaxed) != 0 && bytes_per_second() != 0;
}

bool ReadCost::TrialDue(TimePoint now) const {
  return now.time_since_epoch().count() >= trial_at_.load(std::memory_order_relaxed);
}

bool ReadCost::TakeTrial(TimePoint now) {
  int64_t due = trial_at_.load(std::memory_order_relaxed);
  return now.time_since_epoch().count() >= due &&
         trial_at_.compare_exchange_strong(due, NextTrial(now), std::memory_order_relaxed);
}

uint64_t ReadCost::bytes_per_second() const {
  const uint64_t picos = ps_per_byte_.load(std::memory_order_relaxed);
  return picos == 0 ? 0 : static_cast<uint64_t>(kPicosPerSecond / static_cast<double>(picos));
}

int64_t ReadCost::NextTrial(TimePoint now, Duration lost) {
  constexpr uint32_t kDoublings = 5;  // from kFirstPause to kLongestPause
  static_assert(kFirstPause * (1 << kDoublings) == kLongestPause);
  const uint32_t failed = failed_.fetch_add(1, std::memory_order_relaxed);
  const Duration pause =
      std::max<Duration>(kFirstPause * (1 << std::min(failed, kDoublings)), kPauseShare * lost);
  return (now + pause).time_since_epoch().count();
}

}  // namespace peercache
