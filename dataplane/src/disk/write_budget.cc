#include "disk/write_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/size.h"
#include "base/splitmix.h"

namespace peercache::disk {
namespace {

constexpr double kDay = 86400, kHour = 3600;
// While it does, all pages of a batch get the same answer.
constexpr Duration kShareLasts = std::chrono::seconds(60);

}  // namespace

Result<uint64_t> ParseWriteBudget(std::string_view text, uint64_t disk_bytes) {
  if (text == "unlimited") return uint64_t{0};
  double writes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), writes);
  if (error == std::errc() && end == text.data() + text.size()) {
    if (std::isfinite(writes) && writes > 0 && writes <= 1000)
      return std::max<uint64_t>(1, static_cast<uint64_t>(writes * static_cast<double>(disk_bytes)));
  } else if (const Result<uint64_t> bytes = ParseSize(text); bytes.ok() && *bytes > 0) {
    return *bytes;
  }
  return InvalidArgument(
      fmt::format("disk-write-budget \"{}\": write drive writes a day up to 1000, as 1 or 0.3, "
                  "bytes a day, as 500Gi, or unlimited",
                  text));
}

WriteBudget::WriteBudget(uint64_t bytes_a_day, TimePoint now)
    : a_second_(static_cast<double>(bytes_a_day) / kDay), left_(a_second_ * kHour), at_(now) {}

double WriteBudget::Left(TimePoint now) {
  left_ = std::min(left_ + a_second_ * ToSeconds(now - at_), a_second_ * kDay);
  at_ = now;
  return left_;
}

bool WriteBudget::Admits(uint64_t batch, bool continues_hit, TimePoint now) {
  if (unlimited()) return true;
  const double left = Left(now);
  if (left <= 0) return false;
  if (now >= share_until_) {
    share_ = left / (a_second_ * kHour);
    share_until_ = now + kShareLasts;
  }
  return continues_hit || static_cast<double>(SplitMix64(batch)) < share_ * 0x1p64;
}

void WriteBudget::Spend(uint64_t bytes, TimePoint now) {
  if (unlimited()) return;
  left_ = Left(now) - static_cast<double>(bytes);
}

}  // namespace peercache::disk
