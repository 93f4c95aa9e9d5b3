// Which IoEngine a machine allows. RuntimeDefault seccomp of containerd 2 forbids io_uring; Linux
// AIO is allowed there; threads always work, and cost the most CPU.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "disk/io.h"
#include "disk/io_kind.h"

namespace peercache::disk {

struct ChosenIo {
  std::unique_ptr<IoEngine> engine;
  std::string reason;  // "io_uring", or "aio, because io_uring ...": for the log and the status
};

// The first that works of those that `kind` allows. `fd` stays the caller's.
Result<ChosenIo> ChooseIo(IoKind kind, int fd, unsigned depth);

Result<std::unique_ptr<IoEngine>> MakeUring(int fd, unsigned depth);
Result<std::unique_ptr<IoEngine>> MakeAio(int fd, unsigned depth);
Result<std::unique_ptr<IoEngine>> MakeThreads(int fd, unsigned depth);

}  // namespace peercache::disk
