#include "transport/rdma/fake/virtual_clock.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

namespace peercache::testing {
namespace {

std::atomic<int64_t> virtual_now{0};  // nanoseconds; 0: time goes by

}  // namespace

VirtualClock::VirtualClock() { Set(Clock::now()); }
VirtualClock::~VirtualClock() { virtual_now = 0; }
void VirtualClock::Set(TimePoint now) { virtual_now = now.time_since_epoch().count(); }

}  // namespace peercache::testing

extern "C" __attribute__((visibility("default"))) int clock_gettime(clockid_t id,
                                                                    timespec* at) noexcept {
  const int64_t now = peercache::testing::virtual_now;
  if (id != peercache::Clock::kSource || now == 0)
    return static_cast<int>(syscall(SYS_clock_gettime, id, at));
  at->tv_sec = now / 1'000'000'000;
  at->tv_nsec = now % 1'000'000'000;
  return 0;
}
