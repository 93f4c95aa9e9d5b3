#include "transport/rdma/run_reads.h"

#include <poll.h>

#include <algorithm>
#include <vector>

namespace peercache::rdma {
namespace {

// A queue that stalls and a rail that goes down wake nobody; they are noticed this much later.
constexpr Duration kLongestSleep = milliseconds(10);

bool AdvanceAll(std::span<const RunningRead> reads, TimePoint now) {
  bool moved = false;
  for (const RunningRead& read : reads)
    if (!read.channel->done()) moved |= read.channel->Advance(now);
  return moved;
}

// Until a completion comes, a peer's process ends, or it is time to look around.
void Sleep(std::span<const RunningRead> reads, Duration most) {
  std::vector<int> queues;
  std::vector<pollfd> fds;
  std::vector<const RunningRead*> controls;
  for (const RunningRead& read : reads) {
    if (read.channel->done()) continue;
    read.channel->AppendFds(&queues);
    if (read.control < 0) continue;
    fds.push_back({read.control, POLLRDHUP, 0});
    controls.push_back(&read);
  }
  for (const int fd : queues) fds.push_back({fd, POLLIN, 0});
  const timespec limit{0, std::chrono::nanoseconds(std::max(most, Duration::zero())).count()};
  if (ppoll(fds.data(), fds.size(), &limit, nullptr) <= 0) return;
  for (size_t i = 0; i < controls.size(); ++i)
    if (fds[i].revents != 0) controls[i]->channel->Fail();
}

}  // namespace

void RunReads(std::span<const RunningRead> reads, const ReadLimits& limits) {
  TimePoint moved_at = Clock::now();
  for (;;) {
    const TimePoint now = Clock::now();
    if (AdvanceAll(reads, now)) moved_at = now;
    const bool busy = std::any_of(reads.begin(), reads.end(),
                                  [](const RunningRead& read) { return !read.channel->done(); });
    if (!busy) return;
    if (now >= limits.deadline) {
      for (const RunningRead& read : reads)
        if (!read.channel->done()) read.channel->Fail();
      return;
    }
    if (now - moved_at < limits.spin || now == moved_at) continue;
    for (const RunningRead& read : reads)
      if (!read.channel->done()) read.channel->Arm();
    // What completed before they were armed raises no event.
    if (!AdvanceAll(reads, now)) Sleep(reads, std::min(kLongestSleep, limits.deadline - now));
    for (const RunningRead& read : reads) read.channel->Disarm();
  }
}

}  // namespace peercache::rdma
