// How many descriptors this process may have (RLIMIT_NOFILE). Container runtimes start programs
// with 1,024, for the sake of those that use select(), and let them raise that.
//
//   const auto before = RaiseDescriptorLimit();       // a program of our own, when it starts
//
// Never in a process that is somebody else's: an engine with an embedded node may use select(), or
// start programs that close every descriptor they may have.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace peercache {

struct DescriptorLimit {
  uint64_t soft = 0;  // what binds
  uint64_t hard = 0;  // what the process may raise it to
};

DescriptorLimit ReadDescriptorLimit();

// The soft limit becomes the hard one. Returns what they were.
Result<DescriptorLimit> RaiseDescriptorLimit();

}  // namespace peercache
