#include "base/process.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace peercache {

Result<UniqueFd> OpenThisProcess() {
  // Close-on-exec by itself.
  UniqueFd fd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  if (!fd) return FromErrno("pidfd_open", errno);
  return fd;
}

}  // namespace peercache
