// How many threads this process may start, so that what costs one can be shared out before there
// is none left.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace peercache {

struct ThreadLimit {
  uint64_t free = UINT64_MAX;  // besides those that there are
  std::string source;          // "pids.max of cgroup /kubepods/...", "ulimit -u"; empty: no limit
};

// The least that its cgroups and RLIMIT_NPROC leave, which does not bind root. Of the processes
// that count against RLIMIT_NPROC this one is known alone. The arguments are the roots of the two
// file systems; tests give their own.
ThreadLimit ReadThreadLimit(const std::string& proc = "/proc",
                            const std::string& cgroup = "/sys/fs/cgroup");

// kResourceExhausted, naming the limit and the fix, where fewer than `needed` can be started.
Status CheckThreads(uint64_t needed, const ThreadLimit& limit);

}  // namespace peercache
