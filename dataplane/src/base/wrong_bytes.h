// Says that a page read from the cache has other bytes than were set: for tests, fuzz targets and
// peercache-perf --check. hack/dev/lanes fails a run that prints the token.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace peercache {

inline constexpr std::string_view kWrongBytesToken = "PEERCACHE-WRONG-BYTES";
// Of a process; a broken cache would fill the log.
inline constexpr int kMostWrongPagesPrinted = 20;

// What is wrong with a page, as one line; "" when it has the bytes that were set.
inline std::string DescribeWrongBytes(std::string_view page, std::span<const std::byte> got,
                                      std::span<const std::byte> want) {
  const size_t common = std::min(got.size(), want.size());
  size_t differing = std::max(got.size(), want.size()) - common, first = common;
  for (size_t i = common; i-- > 0;) {
    if (got[i] == want[i]) continue;
    ++differing;
    first = i;
  }
  if (differing == 0) return "";
  const auto at = [&](std::span<const std::byte> bytes) {
    std::string hex;
    for (size_t i = first; i < std::min(bytes.size(), first + 8); ++i)
      hex += fmt::format("{:02x}", static_cast<unsigned>(bytes[i]));
    return hex;
  };
  return fmt::format("{}: {}: {} of {} bytes differ, from offset {} on: got {}, expected {}",
                     kWrongBytesToken, page, differing, want.size(), first, at(got), at(want));
}

// Whether a page has the bytes that were set. Prints what is wrong to standard error. Costs one
// comparison of memory when it is right.
inline bool HasRightBytes(std::string_view page, std::span<const std::byte> got,
                          std::span<const std::byte> want) {
  if (got.size() == want.size() &&
      (got.empty() || std::memcmp(got.data(), want.data(), got.size()) == 0))
    return true;
  static std::atomic<int> printed{0};
  if (printed++ < kMostWrongPagesPrinted)
    fmt::print(stderr, "{}\n", DescribeWrongBytes(page, got, want));
  return false;
}

}  // namespace peercache
