// IoEngine: reads, writes and syncs of one file that end later. Three implementations stand behind
// it: io_uring, Linux AIO, and threads with preadv (io_engines.h); a fourth one injects faults in
// tests (fault_engine_testing.h).
//
// Contract: every request that was submitted ends exactly once, by Wait, with `result` set. Submit
// is thread-safe and does not wait for the device; Wait is called by one thread at a time. A
// request and its memory belong to the engine from Submit until Wait has returned it. At most the
// depth that the engine was made with may be under way.
//
// Costs: no allocation per request. Submit takes a lock and one system call per batch.
#pragma once

#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/clock.h"

namespace peercache::disk {

struct IoRequest {
  enum class Op : uint8_t { kRead, kWrite, kSync };  // kSync: fdatasync

  Op op = Op::kRead;
  uint8_t parts = 0;
  uint64_t offset = 0;
  std::array<iovec, 2> part{};
  // Bytes, or a negative errno. Fewer bytes than asked for is for the caller to judge.
  int64_t result = 0;
  // What Device (device.h) calls when it has ended.
  void (*done)(IoRequest* request) = nullptr;
  void* context = nullptr;  // for `done`

  // ---- of the device and the engine
  TimePoint submitted{};
  IoRequest* older = nullptr;
  IoRequest* newer = nullptr;
  IoRequest* next_in_engine = nullptr;
  // Orders what the submitter wrote before what the waiter reads: the kernel does so too, but no
  // tool sees it.
  std::atomic<bool> handed_over{false};

  size_t bytes() const {
    size_t sum = 0;
    for (int i = 0; i < parts; ++i) sum += part[i].iov_len;
    return sum;
  }
  // errno of what has ended; 0: all its bytes were moved.
  int error() const {
    if (result < 0) return static_cast<int>(-result);
    return result == static_cast<int64_t>(bytes()) ? 0 : EIO;
  }
  void Set(Op what, void* memory, size_t size, uint64_t at) {
    op = what;
    parts = what == Op::kSync ? 0 : 1;
    part[0] = {memory, size};
    offset = at;
  }
};

class IoEngine {
 public:
  virtual ~IoEngine() = default;
  virtual std::string_view name() const = 0;
  // Waits for no drive: callers hold locks, and the one that ends reads may be among them.
  virtual void Submit(std::span<IoRequest* const> requests) = 0;
  // Fills `ended` from its beginning; waits at most `timeout` for the first one. Returns how many.
  virtual size_t Wait(std::span<IoRequest*> ended, Duration timeout) = 0;
};

}  // namespace peercache::disk
