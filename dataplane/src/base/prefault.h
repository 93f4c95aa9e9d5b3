// Prefault: brings a mapping's pages into the page table in the background, so that no copy into or
// out of it pays for page faults (a fault of a small page costs more than copying it).
//
//   Prefault warm(pool.bytes(), Prefault::kAll);     // returns at once
//   warm.done();                                     // bytes ready so far
//
// Memory of another process is mapped with its descriptor instead of kAll: then only what its file
// holds already is brought in. Whoever touches a page first is charged for it, and the memory of
// engines must not be charged to the node's memory cgroup.
//
// Memory that another process truncates meanwhile ends the work early, nothing worse. Where no
// thread can be had, the caller brings in what is small at once, and the rest stays as it is:
// whoever copies then pays. The mapping must outlive this object; the destructor waits for at most
// one step, or for what is done then.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <span>
#include <thread>

#include "base/status.h"

namespace peercache {

class Prefault {
 public:
  static constexpr int kAll = -1;

  // `file`: kAll, or what `bytes` is the beginning of; it must stay open.
  // `then` is called, by the thread that did it, when every page has been brought in, and destroyed
  // when that thread ends. `may`: not ok, why no thread may be started.
  Prefault(std::span<std::byte> bytes, int file, std::function<void()> then = {}, Status may = {});
  ~Prefault();
  Prefault(const Prefault&) = delete;
  Prefault& operator=(const Prefault&) = delete;

  size_t done() const { return done_.load(std::memory_order_acquire); }
  // Every page has been brought in, or the rest cannot be.
  bool finished() const { return finished_.load(std::memory_order_acquire); }

 private:
  bool Run(std::span<std::byte> bytes, int file);

  std::atomic<bool> stop_{false}, finished_{false};
  std::atomic<size_t> done_{0};
  std::thread thread_;
};

}  // namespace peercache
