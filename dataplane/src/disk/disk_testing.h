// What tests of the disk tier share: pages whose bytes follow from key and version, a small tier on
// a SimDisk or on a real folder, and reads of one page.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/patience_testing.h"
#include "base/splitmix.h"
#include "base/temp_dir_testing.h"
#include "base/wrong_bytes.h"
#include "disk/aligned.h"
#include "disk/disk_tier.h"
#include "disk/fault_engine_testing.h"
#include "disk/format.h"

namespace peercache::disk::testing {

using peercache::testing::Eventually;
using peercache::testing::kEndsAHang;

inline constexpr uint64_t kSmallRegion = 1 << 20;
inline constexpr uint32_t kSmallRegions = 12;
inline constexpr uint64_t kSmallDisk = kFirstRegionAt + kSmallRegions * kSmallRegion;

// On a disk.
class DiskFolder : public peercache::testing::TempDir {
 public:
  DiskFolder() : TempDir("/var/tmp") {}
};

inline Key KeyOf(uint64_t number) { return NumberedKey(number); }

// Every eight bytes are others, also between versions.
inline std::vector<std::byte> BytesOf(uint64_t number, uint64_t version, size_t length) {
  std::vector<std::byte> bytes(length);
  uint64_t word = SplitMix64(number ^ SplitMix64(version));
  for (size_t at = 0; at < length; at += 8) {
    word = word * 6364136223846793005 + 1442695040888963407;
    std::memcpy(bytes.data() + at, &word, std::min<size_t>(8, length - at));
  }
  return bytes;
}

inline void ForEachPage(const DiskTier& tier, const std::function<void(const DiskPage&)>& fn) {
  std::vector<DiskPage> pages;
  for (uint64_t at = 0; tier.Next(&at, &pages);)
    for (const DiskPage& page : pages) fn(page);
}

inline DiskOptions SmallOptions(std::vector<std::string> paths) {
  DiskOptions options;
  options.paths = std::move(paths);
  options.bytes = kSmallDisk;
  options.cluster = "test";
  options.io = IoKind::kThreads;
  options.mean_page_bytes = 4096;
  options.region_bytes = kSmallRegion;
  options.log.max_page_bytes = 256 << 10;
  options.log.write_rate = 0;
  options.log.flush_after = milliseconds(5);
  options.device.breaker.slow = kEndsAHang;  // of whatever drive the tests are on
  return options;
}

struct ReadBack {
  ReadOutcome outcome = ReadOutcome::kAbsent;
  std::vector<std::byte> bytes;
};

inline ReadBack ReadPage(DiskTier& tier, const Key& key, Duration patience = kEndsAHang) {
  AlignedBuffer memory(256 << 10);
  DiskRead read;
  read.key = key;
  read.memory = memory.bytes();
  DiskRead* const batch[] = {&read};
  EXPECT_EQ(tier.Read(batch, Clock::now() + patience), 0u);
  ReadBack back{read.outcome, {}};
  if (read.outcome == ReadOutcome::kHit)
    back.bytes.assign(memory.data(), memory.data() + read.page.length);
  return back;
}

// The outcome; a hit with other bytes than those of this version fails the test.
inline ReadOutcome ReadAndCheck(DiskTier& tier, uint64_t number, uint64_t version, size_t length) {
  const ReadBack back = ReadPage(tier, KeyOf(number));
  if (back.outcome == ReadOutcome::kHit) {
    EXPECT_TRUE(HasRightBytes("page " + std::to_string(number), back.bytes,
                              BytesOf(number, version, length)));
  }
  return back.outcome;
}

inline PutResult PutPage(DiskTier& tier, uint64_t number, uint64_t version, size_t length,
                         uint64_t tag = 1) {
  return tier.Put({.key = KeyOf(number), .tag = tag, .batch = number},
                  BytesOf(number, version, length));
}

// Tries again while the disk does not keep up.
inline bool PutInTime(DiskTier& tier, uint64_t number, uint64_t version, size_t length,
                      uint64_t tag = 1) {
  const TimePoint deadline = Clock::now() + kEndsAHang;
  while (Clock::now() < deadline) {
    const PutResult put = PutPage(tier, number, version, length, tag);
    if (put.what == PutResult::What::kTaken) return true;
    if (put.what != PutResult::What::kLater) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return false;
}

// False: some device has not recorded it.
inline bool ClearForGood(DiskTier& tier, TagRange tags, uint64_t epoch) {
  tier.Clear(tags, epoch);
  return tier.RecordClears();
}

// Keeps what it hears: the pages that it takes for being there, and whether it heard nonsense.
class Witness final : public PageObserver {
 public:
  void Stored(std::span<const DiskPage> pages) override {
    const std::lock_guard lock(mutex_);
    for (const DiskPage& page : pages) ++stored_[page.sequence];
  }
  void Dropped(std::span<const DiskPage> pages) override {
    const std::lock_guard lock(mutex_);
    for (const DiskPage& page : pages) ++dropped_[page.sequence];
  }
  void AwaitTold() override {}
  void Back() override {}
  bool Heard(uint64_t sequence, int stored, int dropped) {
    const std::lock_guard lock(mutex_);
    return stored_[sequence] == stored && dropped_[sequence] == dropped;
  }

 private:
  std::mutex mutex_;
  std::map<uint64_t, int> stored_, dropped_;
};

// A tier on disks in memory, which can be restarted, killed and broken.
class SimTier {
 public:
  explicit SimTier(uint32_t devices = 1, uint64_t seed = 1) : seed_(seed) {
    for (uint32_t i = 0; i < devices; ++i) {
      folders_.push_back(std::make_unique<DiskFolder>());
      disks_.push_back(std::make_shared<SimDisk>(kSmallDisk));
      paths_.push_back(folders_.back()->path());
    }
    options = SmallOptions(paths_);
    options.device.breaker = {};  // it is as slow as a test says
  }

  Status Open(PageObserver* observer = nullptr) {
    options.wrap = [this](const std::string& path, std::unique_ptr<IoEngine>) {
      size_t i = 0;
      while (paths_[i] != path) ++i;
      return std::make_unique<FaultEngine>(disks_[i], ++seed_, delay, held);
    };
    Result<std::unique_ptr<DiskTier>> opened = DiskTier::Open(options, observer);
    if (!opened.ok()) return opened.status();
    tier = std::move(opened).value();
    return {};
  }
  bool Recovered() {
    return Eventually([&] { return tier->recovered(); });
  }
  // As if the process, or the machine, had ended now.
  void Crash(bool power_loss, std::mt19937_64* random) {
    std::vector<SimDisk::Image> images;
    for (const auto& disk : disks_)
      images.push_back(power_loss ? disk->AfterPowerLoss(random) : disk->AfterKill());
    tier.reset();
    for (size_t i = 0; i < disks_.size(); ++i)
      disks_[i] = std::make_shared<SimDisk>(std::move(images[i]));
  }
  SimDisk& disk(size_t i = 0) { return *disks_[i]; }
  const std::string& path(size_t i = 0) const { return paths_[i]; }

  DiskOptions options;
  FaultEngine::Delay delay;
  FaultEngine::Held held;
  std::unique_ptr<DiskTier> tier;

 private:
  uint64_t seed_;
  std::vector<std::unique_ptr<DiskFolder>> folders_;
  std::vector<std::string> paths_;
  std::vector<std::shared_ptr<SimDisk>> disks_;
};

}  // namespace peercache::disk::testing
