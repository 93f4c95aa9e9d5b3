// Load: engines that set, get or look for pages through a node, or the bare limits that bound
// them, for a number of seconds or for one pass over the pages.
//
// Key number n has the same bytes and the same content in every process, so one process can set
// what another gets, and every byte can be checked.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/key.h"
#include "base/memory.h"
#include "base/status.h"
#include "client/client.h"
#include "measure.h"

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
  HugePages huge_pages = HugePages::kOff;  // of the host pool, and of what memcpy copies to
  std::string host_pool;      // the memory of another engine's, which is then that of this one too
  std::vector<pid_t> cpu_of;  // processes whose CPU time counts
};

Key KeyOf(uint64_t number);
void FillPage(uint64_t number, std::span<std::byte> page);

// Memory of at least `bytes`, whole pages of 2 MiB, that has been written: no page fault is
// measured.
Result<MappedRegion> WrittenMemory(const char* name, size_t bytes, HugePages huge_pages);

// The host pool of an engine, which holds the pages of all threads.
class HostPool {
 public:
  static Result<HostPool> Create(const Shape& shape);
  // Segments of the page in place `at` of the window.
  void SegmentsOf(size_t at, std::span<Segment> segments) const;
  void Fill(size_t at, uint64_t number);
  // Whether the page in place `at` is page `number`; says what is wrong.
  bool Check(size_t at, uint64_t number) const;
  const MappedRegion& memory() const { return memory_; }

 private:
  Shape shape_;
  MappedRegion memory_;
};

enum class Op { kSet, kGet, kExists, kPresence };

// Every page that Drive has set has this tag.
inline constexpr uint64_t kTag = 0x70657266;
Result<nlohmann::json> Clear(const std::string& socket);

Result<Measurement> Drive(const std::string& socket, Op op, const Shape& shape);

// Gets in turns with another process, so that a host that slows down slows both: reads a number of
// calls from standard input, makes them, and prints the seconds that they took; until its end.
Status GetInTurns(const std::string& socket, const Shape& shape);

}  // namespace peercache::perf
