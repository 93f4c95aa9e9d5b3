// How long the next process takes to have the pages of a pool that is a file.
//
//   adoption_benchmark [PAGES] [PAGE_BYTES] [FOLDER]     default: 1000000 4096 /dev/shm
//
// Prints one line of JSON. The headers' cost is that of a page each, so pages of any size say it.
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "pool/pool.h"
#include "pool/pool_file.h"
#include "pool/size_class.h"

namespace {

using namespace peercache;

Key KeyOf(uint64_t n) {
  Key key;
  for (size_t i = 0; i < 4; ++i) {
    n = (n + 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;
    std::memcpy(key.bytes.data() + 8 * i, &n, 8);
  }
  return key;
}

// On a busy machine this says more than the time.
double CpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

int main(int argc, char** argv) {
  spdlog::set_level(spdlog::level::warn);
  const uint64_t pages = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1'000'000;
  const size_t page = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 4096;
  PoolOptions options;
  options.bytes = pages * SlotBytes(SizeClassOf(page)) / 63 * 64 + (size_t{256} << 20);
  options.huge_pages = HugePages::kAuto;  // as the folder has
  options.file = {
      argc > 3 ? argv[3] : "/dev/shm", fmt::format("adoption-{}.pool", getpid()), {}, {}};
  std::string path;
  {
    auto pool = Pool::Create(options);
    if (!pool.ok()) {
      fmt::print(stderr, "{}\n", pool.status().message());
      return 1;
    }
    path = (*pool)->file()->path();
    for (uint64_t n = 0; n < pages; ++n) {
      auto slot = (*pool)->Reserve(page);
      if (!slot.ok()) break;
      std::memset(slot->payload().data(), static_cast<int>(n), page);
      bool duplicate = false;
      (*pool)->Commit(std::move(*slot), KeyOf(n), 0, 0, &duplicate).Release();
    }
  }
  const double cpu_before = CpuSeconds();
  const TimePoint start = Clock::now();
  auto pool = Pool::Create(options);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const double cpu = CpuSeconds() - cpu_before;
  unlink(path.c_str());
  if (!pool.ok()) return 1;
  const Adoption& adoption = (*pool)->adoption();
  fmt::print("{{\"pages\":{},\"page_bytes\":{},\"seconds\":{:.3f},\"cpu_seconds\":{:.3f}}}\n",
             adoption.pages, page, seconds, cpu);
  return adoption.pages == pages ? 0 : 1;
}
