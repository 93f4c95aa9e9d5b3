// Warmer: has other nodes bring pages from their disks that an engine of this node has asked about,
// because a get follows an exists. It sends the holders the Fetch that the get would begin with,
// and does nothing with their answers.
//
// Costs: an exists takes a lock, if it has found pages on disks elsewhere. A message for each
// holder follows from a thread of its own, so nobody waits for it. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/key.h"
#include "node/peer/peers.h"

namespace peercache {

// A page that another node has on disk.
struct OnDisk {
  uint64_t node = 0;
  Key key;
};

class Warmer {
 public:
  // `stall`: longest to wait for an answer. Where the system gives no thread, Want does nothing.
  Warmer(const Peers* peers, Duration stall);
  ~Warmer();

  // Pages beyond those that may wait are left to the get.
  void Want(std::span<const OnDisk> pages);

 private:
  // A batch; also the most keys of one message.
  static constexpr size_t kMostWaiting = 16384;

  void Run();
  void Ask(std::span<const OnDisk> pages) const;

  const Peers* const peers_;
  const Duration stall_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<OnDisk> waiting_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace peercache
