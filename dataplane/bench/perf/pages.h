// A load has pages, which have numbers, and a shape.
//
// Page number n has the same key and the same bytes in every process, so one process can set what
// another gets, and every byte can be checked.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/key.h"
#include "base/memory.h"

namespace peercache::perf {

struct Shape {
  size_t page_bytes = 128 << 10;
  size_t segments = 1;   // of equal size, per page; more than one: laid out as layer_first does
  size_t batch = 32;     // pages in one call
  size_t pages = 4096;   // distinct keys, over all threads
  size_t window = 1024;  // pages in the engine's host pool, over all threads
  size_t threads = 1;
  uint64_t first_key = 0;
  bool shared = false;    // every thread is an engine, and works on all keys in the same order
  double seconds = 1;     // 0: one pass over the keys
  double warmup = 0;      // seconds before the measurement
  size_t warm_pages = 0;  // the first of `pages`, over all threads, are the warm-up's alone: who
                          // has read a page may have kept it; 0: the warm-up has none of its own
  bool check = false;     // verify every byte that was read, outside of the measured time
  bool gpu = false;       // pages come into memory of a GPU
  HugePages huge_pages = HugePages::kOff;  // of the host pool, and of what memcpy copies to
  std::string host_pool;      // the memory of another engine's, which is then that of this one too
  std::vector<Key> keys;      // of pages by number, where somebody else has set them; else KeyOf()
  std::vector<pid_t> cpu_of;  // processes whose CPU time counts
};

Key KeyOf(uint64_t number);
void FillPage(uint64_t number, std::span<std::byte> page);

}  // namespace peercache::perf
