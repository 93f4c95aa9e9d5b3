// RunReads: drives the reads from several peers in the calling thread, looking for completions and
// sleeping when none come.
#pragma once

#include <span>

#include "base/clock.h"
#include "transport/rdma/read_channel.h"

namespace peercache::rdma {

struct ReadLimits {
  TimePoint deadline{};
  // How long to look for completions before sleeping until one comes. Zero: sleep at once.
  Duration spin{};
};

// A channel that is at work, and the connection it was set up over: when the peer's process ends,
// that is closed, long before a READ notices.
struct RunningRead {
  ReadChannel* channel = nullptr;
  int control = -1;
};

// Runs all until each is done; what is not done by the deadline fails.
void RunReads(std::span<const RunningRead> reads, const ReadLimits& limits);

}  // namespace peercache::rdma
