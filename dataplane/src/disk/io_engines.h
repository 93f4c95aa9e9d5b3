// Which IoEngine a machine allows. RuntimeDefault seccomp of containerd 2 forbids io_uring; Linux
// AIO is allowed there; threads always work, and cost the most CPU.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "disk/io.h"

namespace peercache::disk {

enum class IoKind : uint8_t { kAuto, kUring, kAio, kThreads };

Result<IoKind> ParseIoKind(std::string_view text);  // auto | io_uring | aio | threads
std::string_view IoKindName(IoKind kind);

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
