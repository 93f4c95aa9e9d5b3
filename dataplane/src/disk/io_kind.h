// IoKind: which engines a node may use for its drives (io_engines.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace peercache::disk {

enum class IoKind : uint8_t { kAuto, kUring, kAio, kThreads };

Result<IoKind> ParseIoKind(std::string_view text);  // auto | io_uring | aio | threads
std::string_view IoKindName(IoKind kind);

}  // namespace peercache::disk
