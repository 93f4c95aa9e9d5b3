#include "node/report/process_stats.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>

namespace peercache {
namespace {

// Entries of a directory of /proc. One that goes while it is read ends the count early.
uint64_t Entries(const char* directory) {
  std::error_code error;
  uint64_t count = 0;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error))
    ++count;
  return count;
}

double Seconds(const timeval& t) {
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
}

}  // namespace

ProcessStats ReadProcessStats() {
  ProcessStats stats;
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0)
    stats.cpu_seconds = Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
  uint64_t size = 0, resident = 0;  // in pages
  if (std::ifstream("/proc/self/statm") >> size >> resident)
    stats.resident_bytes = resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  // One of them is the directory that is being read.
  const uint64_t fds = Entries("/proc/self/fd");
  stats.open_fds = fds > 0 ? fds - 1 : 0;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) stats.max_fds = limit.rlim_cur;
  stats.threads = Entries("/proc/self/task");
  return stats;
}

}  // namespace peercache
