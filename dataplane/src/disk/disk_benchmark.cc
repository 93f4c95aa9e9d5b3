// What the tier costs beside bare I/O of the same engine, on the same file, in turns:
//
//   disk_benchmark FOLDER [PAGE_BYTES [DEPTH [PAIRS]]]       128 KiB, 16, 5
//
// Prints MB/s and processor seconds per GB of reads and writes, tier and bare, and the median of
// their ratios. Pages are read at random, so a drive's own cache serves both alike.

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "disk/disk_tier.h"

namespace peercache::disk {
namespace {

constexpr uint64_t kBytesOfARound = uint64_t{1} << 30;

Key KeyOf(uint64_t number) {
  Key key;
  std::mt19937_64 random(number);
  for (int i = 0; i < 4; ++i) {
    const uint64_t word = random();
    std::memcpy(key.bytes.data() + 8 * i, &word, sizeof(word));
  }
  return key;
}

struct Speed {
  double megabytes_a_second = 0, processor_seconds_a_gigabyte = 0;
};

double ProcessorSeconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

template <typename Work>
Speed Measure(uint64_t bytes, Work work) {
  const TimePoint begun = Clock::now();
  const double before = ProcessorSeconds();
  work();
  return {static_cast<double>(bytes) / 1e6 / ToSeconds(Clock::now() - begun),
          (ProcessorSeconds() - before) / (static_cast<double>(bytes) / 1e9)};
}

// Keeps `depth` requests under way until `count` have ended.
void RunBare(IoEngine* engine, IoRequest::Op op, const std::vector<uint64_t>& offsets, size_t size,
             std::span<std::byte> memory, unsigned depth) {
  std::vector<IoRequest> requests(depth);
  size_t begun = 0, ended = 0;
  const auto begin = [&](IoRequest* request) {
    request->Set(op, memory.data() + (request - requests.data()) * size, size, offsets[begun++]);
    engine->Submit(std::span(&request, 1));
  };
  for (IoRequest& request : requests)
    if (begun < offsets.size()) begin(&request);
  std::array<IoRequest*, 64> done;
  while (ended < offsets.size()) {
    const size_t count = engine->Wait(done, std::chrono::seconds(1));
    for (size_t i = 0; i < count; ++i) {
      if (done[i]->result != static_cast<int64_t>(size)) std::abort();
      if (begun < offsets.size()) begin(done[i]);
    }
    ended += count;
  }
}

int Main(const std::string& folder, uint32_t page_bytes, unsigned depth, int pairs) {
  DiskOptions options;
  options.paths = {folder};
  // Nothing is given up, or pages that were read would be written again beside what is measured.
  options.bytes = kFirstRegionAt + 20 * kRegionBytes * (static_cast<uint64_t>(pairs) + 1);
  options.cluster = "benchmark";
  options.log.write_rate = 0;
  options.log.max_page_bytes = std::max<uint32_t>(page_bytes, 4 << 20);
  options.device.reads = depth;
  options.device.read_bytes = uint64_t{4} << 30;
  Result<std::unique_ptr<DiskTier>> opened = DiskTier::Open(options, nullptr);
  if (!opened.ok()) {
    fmt::print(stderr, "{}\n", opened.status().ToString());
    return 1;
  }
  DiskTier& tier = **opened;
  while (!tier.recovered()) std::this_thread::sleep_for(milliseconds(1));
  // The same engine on a second file, so that neither sees what the other one writes.
  const std::string beside = folder + "/bare";
  if (std::system(("mkdir -p " + beside).c_str()) != 0) return 1;
  Result<DeviceFile> file = OpenDeviceFile(beside);
  if (!file.ok() || !ReserveSpace(*file, kBytesOfARound).ok()) return 1;
  Result<ChosenIo> io = ChooseIo(IoKind::kAuto, file->fd.get(), depth);
  if (!io.ok()) return 1;
  fmt::print("{}: pages of {} bytes, depth {}\n", io->reason, page_bytes, depth);

  const size_t pages = kBytesOfARound / page_bytes;
  // A batch is longer than the depth, which bounds what is under way.
  const size_t batch_pages = 8 * depth;
  AlignedBuffer memory(batch_pages * AlignUp(page_bytes));
  std::mt19937_64 random(1);
  for (std::byte& byte : memory.bytes()) byte = static_cast<std::byte>(random());
  std::vector<double> ratios[2];
  uint64_t first_key = 0;
  for (int pair = 0; pair < pairs; ++pair) {
    std::vector<uint64_t> in_order, at_random;
    for (size_t i = 0; i < pages; ++i) in_order.push_back(i * page_bytes);
    at_random = in_order;
    std::shuffle(at_random.begin(), at_random.end(), random);
    const auto report = [&](int which, const char* what, Speed ours, Speed bare) {
      ratios[which].push_back(ours.megabytes_a_second / bare.megabytes_a_second);
      fmt::print("{:6} tier {:6.0f} MB/s {:.3f} CPU-s/GB   bare {:6.0f} MB/s {:.3f} CPU-s/GB\n",
                 what, ours.megabytes_a_second, ours.processor_seconds_a_gigabyte,
                 bare.megabytes_a_second, bare.processor_seconds_a_gigabyte);
    };
    const Speed bare_write = Measure(kBytesOfARound, [&] {
      RunBare(io->engine.get(), IoRequest::Op::kWrite, in_order, page_bytes, memory.bytes(), depth);
    });
    // Checksums are the pool's; here they cost what they cost.
    const Speed write = Measure(kBytesOfARound, [&] {
      for (size_t i = 0; i < pages;) {
        const auto bytes = memory.bytes().subspan(i % depth * page_bytes, page_bytes);
        const PutResult put = tier.Put({.key = KeyOf(first_key + i), .batch = i}, bytes);
        if (put.what == PutResult::What::kTaken)
          ++i;
        else
          std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
      if (!tier.Flush(Clock::now() + std::chrono::seconds(60)).ok()) std::abort();
    });
    report(0, "write", write, bare_write);
    const Speed bare_read = Measure(kBytesOfARound, [&] {
      RunBare(io->engine.get(), IoRequest::Op::kRead, at_random, page_bytes, memory.bytes(), depth);
    });
    std::vector<DiskRead> reads(batch_pages);
    std::vector<DiskRead*> batch;
    uint64_t hits = 0;
    const Speed read = Measure(kBytesOfARound, [&] {
      for (size_t i = 0; i < pages; i += batch_pages) {
        batch.clear();
        for (size_t j = 0; j < batch_pages && i + j < pages; ++j) {
          reads[j].key = KeyOf(first_key + at_random[i + j] / page_bytes);
          reads[j].memory = memory.bytes().subspan(j * AlignUp(page_bytes), page_bytes);
          batch.push_back(&reads[j]);
        }
        if (tier.Read(batch, Clock::now() + std::chrono::seconds(60)) != 0) std::abort();
        for (const DiskRead* ended : batch) hits += ended->outcome == ReadOutcome::kHit ? 1 : 0;
      }
    });
    report(1, "read", read, bare_read);
    if (hits != pages) fmt::print("only {} of {} pages were hits\n", hits, pages);
    first_key += pages;
  }
  for (const int which : {0, 1}) {
    std::sort(ratios[which].begin(), ratios[which].end());
    fmt::print("{} tier / bare, median of {}: {:.2f}\n", which == 0 ? "write" : "read ", pairs,
               ratios[which][ratios[which].size() / 2]);
  }
  return 0;
}

}  // namespace
}  // namespace peercache::disk

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: disk_benchmark FOLDER [PAGE_BYTES [DEPTH [PAIRS]]]\n");
    return 2;
  }
  const auto number = [&](int i, long otherwise) {
    return argc > i ? std::atol(argv[i]) : otherwise;
  };
  return peercache::disk::Main(argv[1], static_cast<uint32_t>(number(2, 128 << 10)),
                               static_cast<unsigned>(number(3, 16)),
                               static_cast<int>(number(4, 5)));
}
