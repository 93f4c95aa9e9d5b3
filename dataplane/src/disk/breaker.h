// DeviceBreaker: when a device is too broken to be used. Pure.
//
// Off after `errors` errors of reads within `window`, or when a read or a write takes longer than
// `slow`, or a sync longer than `slow_sync`: it waits for all that the drive has in its cache, also
// of others. Writes that fail take nothing from who reads: the log waits (log.h).
#pragma once

#include <fmt/format.h>

#include <string>

#include "base/clock.h"
#include "disk/io.h"
#include "disk/limits.h"

namespace peercache::disk {

class DeviceBreaker {
 public:
  explicit DeviceBreaker(const BreakerLimits& limits) : limits_(limits) {}

  // "" or why the device has to be turned off now.
  std::string Failed(std::string_view what, TimePoint now) {
    if (now - since_ > limits_.window) {
      since_ = now;
      errors_ = 0;
    }
    if (++errors_ < limits_.errors) return "";
    return fmt::format("{} errors within {} s, the last one: {}", errors_,
                       ToMillis(limits_.window) / 1000, what);
  }
  // What has failed says nothing any more.
  void Forget() { errors_ = 0; }
  std::string Took(IoRequest::Op op, Duration time) const {
    const bool sync = op == IoRequest::Op::kSync;
    const Duration limit = sync ? limits_.slow_sync : limits_.slow;
    if (time <= limit) return "";
    return fmt::format("{} took longer than {} ms", sync ? "a sync" : "an I/O", ToMillis(limit));
  }

 private:
  const BreakerLimits limits_;
  TimePoint since_{};
  uint32_t errors_ = 0;
};

}  // namespace peercache::disk
