#include "transport/rdma/run_reads.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <vector>

#include "base/fd.h"

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

// That a READ that stood in line may be posted. Of this thread, made when it first waits for that;
// -1: it cannot be had.
int GrantedEvent() {
  thread_local const UniqueFd event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  return event.get();
}

// Waits for that, too.
template <typename Wait>
int WaitInLine(std::span<const RunningRead> reads, std::vector<pollfd>* fds, const Wait& wait) {
  const int event = GrantedEvent();
  fds->push_back({event, POLLIN, 0});
  bool none = true;
  for (const RunningRead& read : reads) none &= read.channel->WakeBy(event);
  const int ready = none ? wait() : 0;
  for (const RunningRead& read : reads) read.channel->WakeBy(-1);
  eventfd_t times = 0;
  if (event >= 0) (void)eventfd_read(event, &times);
  return ready;
}

// Until a completion comes, a READ that stands in line may be posted, a peer's process ends, or it
// is time to look around.
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
  const auto wait = [&] { return ppoll(fds.data(), fds.size(), &limit, nullptr); };
  const bool in_line = std::any_of(reads.begin(), reads.end(),
                                   [](const RunningRead& read) { return read.channel->in_line(); });
  const int ready = in_line ? WaitInLine(reads, &fds, wait) : wait();
  if (ready <= 0) return;
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
    if (now == moved_at || (limits.meanwhile && limits.meanwhile())) continue;
    if (now - moved_at < limits.spin) continue;
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
