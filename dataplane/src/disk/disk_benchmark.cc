// The tier by itself, in turns with whatever stands beside it (peercache-bench disk):
//
//   disk_benchmark FOLDER PAGE_BYTES DEPTH PAGES TURNS
//
// The log holds TURNS times PAGES pages: one lap. Says which engine it has, as a line of JSON, and
// then takes a word a line from standard input, and answers each with a line of JSON:
//
//   write      puts the next PAGES pages, and has them written
//   read       reads, at random, the PAGES pages of the next turn of the lap that was written last
//   restart    opens the tier anew, and waits until it has recovered
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <random>
#include <thread>
#include <vector>

#include "base/splitmix.h"
#include "disk/aligned.h"
#include "disk/disk_tier.h"
#include "disk/format.h"

namespace peercache::disk {
namespace {

constexpr Duration kPatience = std::chrono::seconds(60);
// Regions beyond a lap: those that are being written, and that are given up ahead of the writes.
constexpr uint64_t kSpareRegions = 6;

double ProcessorSeconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

struct Shape {
  std::string folder;
  uint32_t page_bytes = 0;
  uint32_t depth = 0;
  uint64_t pages = 0, turns = 0;

  uint64_t regions() const {
    const Geometry geometry;
    const uint64_t in_a_region = std::min<uint64_t>(
        geometry.most_pages(), (kRegionBytes - geometry.contents_bytes()) / AlignUp(page_bytes));
    return std::max<uint64_t>(kMinRegions, pages * turns / in_a_region + 1 + kSpareRegions);
  }
};

class Benchmark {
 public:
  explicit Benchmark(const Shape& shape)
      : shape_(shape),
        // A batch is longer than the depth, which bounds what is under way.
        batch_pages_(std::min<uint64_t>(8 * shape.depth, shape.pages)),
        memory_(batch_pages_ * AlignUp(shape.page_bytes)) {
    for (size_t at = 0; at + 8 <= memory_.bytes().size(); at += 8) {
      const uint64_t word = random_();
      std::memcpy(memory_.data() + at, &word, sizeof(word));
    }
  }

  Status Open() {
    DiskOptions options;
    options.paths = {shape_.folder};
    options.bytes = kFirstRegionAt + kRegionBytes * shape_.regions();
    options.cluster = "benchmark";
    options.mean_page_bytes = std::min<uint64_t>(options.mean_page_bytes, shape_.page_bytes);
    options.log.write_rate = 0;
    options.log.max_page_bytes = std::max<uint32_t>(shape_.page_bytes, 4 << 20);
    options.device.reads = shape_.depth;
    options.device.read_bytes = uint64_t{4} << 30;
    Result<std::unique_ptr<DiskTier>> opened = DiskTier::Open(options, nullptr);
    if (!opened.ok()) return opened.status();
    tier_ = std::move(opened).value();
    while (!tier_->recovered()) std::this_thread::sleep_for(std::chrono::microseconds(100));
    return {};
  }

  // How many pages were moved, or found.
  Result<uint64_t> Do(const std::string& word) {
    if (word == "write") return Write();
    if (word == "read") return Read();
    if (word == "restart") {
      tier_.reset();
      begun_ = Clock::now();
      before_ = ProcessorSeconds();
      if (Status opened = Open(); !opened.ok()) return opened;
      return tier_->stats().pages;
    }
    return InvalidArgument("not write, read or restart: " + word);
  }

  Status Answer(const std::string& word) {
    begun_ = Clock::now();
    before_ = ProcessorSeconds();
    const Result<uint64_t> pages = Do(word);
    if (!pages.ok()) return pages.status();
    fmt::print("{{\"pages\":{},\"bytes\":{},\"seconds\":{:.6f},\"cpu_seconds\":{:.6f}}}\n", *pages,
               *pages * shape_.page_bytes, ToSeconds(Clock::now() - begun_),
               ProcessorSeconds() - before_);
    return {};
  }

  std::string io() const { return tier_->stats().devices.front().io; }

 private:
  Result<uint64_t> Write() {
    for (uint64_t i = 0; i < shape_.pages;) {
      const auto bytes =
          memory_.bytes().subspan(i % batch_pages_ * AlignUp(shape_.page_bytes), shape_.page_bytes);
      const PutResult put = tier_->Put({.key = NumberedKey(written_ + i), .batch = i}, bytes);
      if (put.what == PutResult::What::kTaken)
        ++i;
      else if (put.what == PutResult::What::kLater)
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      else
        return Unavailable("a page was dropped: is the drive off?");
    }
    written_ += shape_.pages;
    turn_ = 0;
    if (Status flushed = tier_->Flush(Clock::now() + kPatience); !flushed.ok()) return flushed;
    return shape_.pages;
  }

  Result<uint64_t> Read() {
    std::vector<uint64_t> keys(shape_.pages);
    const uint64_t lap = std::min(written_, shape_.pages * shape_.turns);
    const uint64_t first = written_ - lap + turn_++ * shape_.pages % lap;
    for (uint64_t i = 0; i < keys.size(); ++i) keys[i] = first + i;
    std::shuffle(keys.begin(), keys.end(), random_);
    std::vector<DiskRead> reads(batch_pages_);
    std::vector<DiskRead*> batch;
    uint64_t hits = 0;
    for (size_t at = 0; at < keys.size(); at += batch_pages_) {
      batch.clear();
      for (size_t i = 0; i < batch_pages_ && at + i < keys.size(); ++i) {
        reads[i].key = NumberedKey(keys[at + i]);
        reads[i].memory =
            memory_.bytes().subspan(i * AlignUp(shape_.page_bytes), AlignUp(shape_.page_bytes));
        batch.push_back(&reads[i]);
      }
      if (tier_->Read(batch, Clock::now() + kPatience) != 0)
        return DeadlineExceeded("a read has not ended for a minute");
      for (const DiskRead* ended : batch) hits += ended->outcome == ReadOutcome::kHit ? 1 : 0;
    }
    return hits;
  }

  const Shape shape_;
  const uint64_t batch_pages_;
  const AlignedBuffer memory_;
  std::mt19937_64 random_{1};
  std::unique_ptr<DiskTier> tier_;
  uint64_t written_ = 0, turn_ = 0;
  TimePoint begun_{};
  double before_ = 0;
};

int Main(const Shape& shape) {
  Benchmark benchmark(shape);
  Status status = benchmark.Open();
  if (status.ok()) fmt::print("{{\"io\":\"{}\"}}\n", benchmark.io());
  std::fflush(stdout);
  for (std::string word; status.ok() && std::getline(std::cin, word);) {
    status = benchmark.Answer(word);
    std::fflush(stdout);
  }
  if (!status.ok()) fmt::print(stderr, "{}\n", status.ToString());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace peercache::disk

int main(int argc, char** argv) {
  if (argc != 6) {
    fmt::print(stderr, "usage: disk_benchmark FOLDER PAGE_BYTES DEPTH PAGES TURNS\n");
    return 2;
  }
  const auto number = [&](int i) { return std::strtoull(argv[i], nullptr, 10); };
  return peercache::disk::Main({argv[1], static_cast<uint32_t>(number(2)),
                                static_cast<uint32_t>(number(3)), number(4), number(5)});
}
