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
    // With no queue left, that it has ended is known.
    if (read.control < 0 || read.channel->queues() == 0) continue;
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
  const auto each_at_work = [&](void (ReadChannel::*act)()) {
    for (const RunningRead& read : reads)
      if (!read.channel->done()) (read.channel->*act)();
  };
  TimePoint moved_at = Clock::now();
  bool posting = true, reading = true;
  for (;;) {
    const TimePoint now = Clock::now();
    if (AdvanceAll(reads, now)) moved_at = now;
    if (posting && now >= limits.last_post) {
      posting = false;
      each_at_work(&ReadChannel::StopPosting);
    }
    if (reading && now >= limits.deadline) {
      reading = false;
      each_at_work(&ReadChannel::Fail);
    }
    if (std::all_of(reads.begin(), reads.end(),
                    [](const RunningRead& read) { return read.channel->done(); }))
      return;
    if (now - moved_at < limits.spin || now == moved_at) continue;
    each_at_work(&ReadChannel::Arm);
    // What completed before they were armed raises no event.
    const TimePoint next = !reading  ? TimePoint::max()
                           : posting ? std::min(limits.last_post, limits.deadline)
                                     : limits.deadline;
    if (!AdvanceAll(reads, now))
      Sleep(reads, next - now < kLongestSleep ? next - now : kLongestSleep);
    for (const RunningRead& read : reads) read.channel->Disarm();
  }
}

}  // namespace peercache::rdma
