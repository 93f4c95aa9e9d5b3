#include "base/prefault.h"

#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/thread.h"

namespace peercache {
namespace {

constexpr size_t kStep = 32 << 20;  // some 10 ms for memory that has to be zeroed first

}  // namespace

Prefault::Prefault(std::span<std::byte> bytes, int file, std::function<void()> then, Status may) {
  const auto run = [this, bytes, file, then = std::move(then)] {
    const bool all = Run(bytes, file);
    finished_.store(true, std::memory_order_release);
    if (all && then) then();
  };
  Result<std::thread> thread = may.ok() ? StartThread(run) : Result<std::thread>(std::move(may));
  if (thread.ok()) {
    thread_ = std::move(*thread);
  } else if (bytes.size() <= kStep) {
    run();
  } else {
    spdlog::warn("{} bytes are not prefaulted: {}", bytes.size(), thread.status().message());
    finished_.store(true, std::memory_order_release);
  }
}

Prefault::~Prefault() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

// Whether every page is there.
bool Prefault::Run(std::span<std::byte> bytes, int file) {
  // madvise wants whole pages; a partial one at the beginning belongs to the mapping as well.
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const size_t lead = reinterpret_cast<uintptr_t>(bytes.data()) % page;
  for (size_t at = 0; at < bytes.size() && !stop_;) {
    size_t step = std::min(kStep, bytes.size() - at);
    if (file != kAll) {
      const off_t data = ::lseek(file, static_cast<off_t>(at), SEEK_DATA);
      if (data < 0 || static_cast<size_t>(data) >= bytes.size()) break;  // holes up to the end
      const off_t hole = ::lseek(file, data, SEEK_HOLE);
      at = static_cast<size_t>(data);
      step = std::min(kStep, bytes.size() - at);
      if (hole > data) step = std::min(step, static_cast<size_t>(hole - data));
    }
    if (::madvise(bytes.data() + at - lead, step + lead, MADV_POPULATE_WRITE) != 0 &&
        errno != EINTR && errno != EAGAIN) {
      spdlog::debug("{} of {} bytes are not prefaulted: {}", bytes.size() - at, bytes.size(),
                    std::strerror(errno));
      return false;
    }
    at += step;
    done_.store(at, std::memory_order_release);
  }
  return !stop_;
}

}  // namespace peercache
