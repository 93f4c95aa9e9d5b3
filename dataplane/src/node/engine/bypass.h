// Bypass: a switch that takes the cache out of the way of the engines of this node, and leaves all
// else as it is. While it is on, each lookup and get of an engine is a miss at once, and each set
// is refused. Pages stay, and other nodes go on reading them.
//
// It is on while the first line of a file is "on". The file is looked at once a second, and counts
// when two looks have found the same; while it is not there, nothing changes.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "base/file_watch.h"

namespace peercache {

class Bypass {
 public:
  static constexpr std::chrono::seconds kLookEvery{1};

  // "": it is never on.
  explicit Bypass(const std::string& path, Duration look_every = kLookEvery);

  // Lock-free.
  bool on() const { return on_.load(std::memory_order_relaxed); }

 private:
  void Set(const std::string& contents);

  std::atomic<bool> on_{false};
  std::optional<FileWatch> watch_;  // last: its thread uses the rest
};

}  // namespace peercache
