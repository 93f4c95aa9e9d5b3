// The end of a process, as others can wait for it.
#pragma once

#include "base/fd.h"
#include "base/status.h"

namespace peercache {

// A descriptor of this process (pidfd_open, Linux 5.3). It is readable once the process has ended
// and the kernel has released all its files, those of RDMA devices among them. Whoever receives it
// over a socket can wait for that, in any pid namespace.
Result<UniqueFd> OpenThisProcess();

}  // namespace peercache
