#include "base/descriptors.h"

#include <sys/resource.h>

#include <cerrno>

namespace peercache {

DescriptorLimit ReadDescriptorLimit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return {limit.rlim_cur, limit.rlim_max};
}

Result<DescriptorLimit> RaiseDescriptorLimit() {
  const DescriptorLimit before = ReadDescriptorLimit();
  if (before.soft >= before.hard) return before;
  const rlimit raised{before.hard, before.hard};
  if (setrlimit(RLIMIT_NOFILE, &raised) != 0)
    return FromErrno("raising the limit of descriptors (RLIMIT_NOFILE)", errno);
  return before;
}

}  // namespace peercache
