// Starting threads where there may be no room for one more (a limit of processes, or of memory for
// its stack): std::thread throws then, and nobody catches.
#pragma once

#include <fmt/format.h>

#include <system_error>
#include <thread>
#include <utility>

#include "base/status.h"

namespace peercache {

// kResourceExhausted when the system gives no thread.
template <typename Fn>
Result<std::thread> StartThread(Fn&& run) {
  try {
    return std::thread(std::forward<Fn>(run));
  } catch (const std::system_error& error) {
    return ResourceExhausted(fmt::format(
        "no thread could be started ({}): raise the limit of processes (pids.max of the container, "
        "ulimit -u) or its memory",
        error.what()));
  }
}

}  // namespace peercache
