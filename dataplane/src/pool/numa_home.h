// The NUMA node where this node's pool and threads belong: which one, and what came of it.
//
//   NumaHome home(ChooseNumaNode(config.numa_node, rails));
//   const ScopedCpus here(home.plan().cpus);          // while threads are started
//   ... Pool::Create with numa_node = home.plan().memory_node ...
//   home.Touched(pool->memory());                     // once all of it is
//   home.Settled(here.status(), pool->memory());      // logs
//   home.stats();                                     // for /v1/status and /metrics
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/memory.h"
#include "base/numa.h"
#include "base/numa_memory.h"
#include "base/status.h"

namespace peercache {

// The option numa-node: auto (that of the rails), off, or a number.
inline constexpr int kNumaAuto = -2;
inline constexpr int kNumaOff = -1;
Result<int> ParseNumaOption(const std::string& text);

struct NumaRail {
  std::string name;    // "mlx5_0 port 1"
  int numa_node = -1;  // -1: unknown
};

struct NumaWish {
  int node = -1;  // -1: none
  std::string why;
};
// Pure. `auto` is the one node that all rails with a known one share.
NumaWish ChooseNumaNode(int option, std::span<const NumaRail> rails);

struct NumaStats {
  NumaWish wish;
  std::vector<int> cpus;  // that threads are kept on; empty: they are not
  std::string threads_why;
  NumaMemoryChoice memory;
  NumaSample pool;  // where a sample of the pool's pages is
};

class NumaHome {
 public:
  NumaHome() : NumaHome({-1, "not decided yet"}) {}
  explicit NumaHome(NumaWish wish);

  const NumaPlan& plan() const { return plan_; }
  // Once every page of the pool has been touched, and so is where it stays. Where the kernel may
  // not be asked about single pages it sums them up then, once: that takes it a while. From any
  // thread.
  void Touched(const MappedRegion& pool);
  // Once the threads are started and the pool is there; `pool` must outlive this object's use.
  void Settled(const Status& pinned, const MappedRegion& pool);
  NumaStats stats() const;

 private:
  NumaWish wish_;
  NumaPlan plan_;
  NumaMemoryChoice memory_;
  const MappedRegion* pool_ = nullptr;

  struct Touch {
    std::mutex mutex;
    NumaSample sample;
  };
  std::unique_ptr<Touch> touch_ = std::make_unique<Touch>();
};

}  // namespace peercache
