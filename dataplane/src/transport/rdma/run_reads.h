// RunReads: drives the reads from several peers in the calling thread, looking for completions and
// sleeping when none come.
#pragma once

#include <functional>
#include <span>

#include "base/clock.h"
#include "transport/rdma/read_channel.h"

namespace peercache::rdma {

struct ReadLimits {
  // What is not done then fails, and its queues are given up.
  TimePoint deadline{};
  // How long to look for completions before sleeping until one comes. Zero: sleep at once.
  Duration spin{};
  // No READs are begun any more: those under way go on, and queues that bring something are kept.
  TimePoint last_post = TimePoint::max();
  // Called when nothing has moved and READs are still under way. True: it has done something, and
  // more may have completed meanwhile. Nobody looks for completions while it runs.
  std::function<bool()> meanwhile = {};
};

// A channel that is at work, and the connection it was set up over: when the peer's process ends,
// that is closed, long before a READ notices.
struct RunningRead {
  ReadChannel* channel = nullptr;
  int control = -1;
};

// Runs all until each is done. That is by the deadline, but for a device that does not give up what
// it has under way, and writes into the destinations until the kernel has taken them from it.
void RunReads(std::span<const RunningRead> reads, const ReadLimits& limits);

}  // namespace peercache::rdma
