// A disk in memory that can do what a test says, and an engine on it.
//
// SimDisk keeps what a read would see, and beside it what was written since the last sync. A crash
// makes of that what a drive may be left with: of the unsynced writes some, in any order, and of
// each some of its sectors.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include "disk/format.h"
#include "disk/io.h"

namespace peercache::disk::testing {

inline constexpr size_t kSector = 512;

class SimDisk {
 public:
  using Image = std::vector<std::byte>;

  explicit SimDisk(Image image) : durable_(image), visible_(std::move(image)) {}
  explicit SimDisk(size_t bytes) : SimDisk(Image(bytes)) {}

  // What becomes of a request: 0, a negative errno, or kTorn: only the first sector is written, and
  // the drive says that all is well. Under a lock.
  static constexpr int kTorn = 1;
  using Fault = std::function<int(const IoRequest& request)>;
  void SetFault(Fault fault) {
    const std::lock_guard lock(mutex_);
    fault_ = std::move(fault);
  }

  int64_t Perform(const IoRequest& request) {
    const std::lock_guard lock(mutex_);
    const int fault = fault_ ? fault_(request) : 0;
    if (fault < 0) return fault;
    if (request.op == IoRequest::Op::kSync) {
      durable_ = visible_;
      unsynced_.clear();
      return 0;
    }
    uint64_t at = request.offset;
    int64_t moved = 0;
    for (int i = 0; i < request.parts; ++i) {
      auto* memory = static_cast<std::byte*>(request.part[i].iov_base);
      const size_t length =
          at >= visible_.size() ? 0 : std::min(request.part[i].iov_len, visible_.size() - at);
      if (request.op == IoRequest::Op::kRead) {
        std::memcpy(memory, visible_.data() + at, length);
      } else {
        std::memcpy(visible_.data() + at, memory, fault == kTorn ? kSector : length);
        unsynced_.push_back({at, {memory, memory + length}});
      }
      at += length;
      moved += static_cast<int64_t>(length);
    }
    return moved;
  }

  // After the process was killed: all that was carried out.
  Image AfterKill() {
    const std::lock_guard lock(mutex_);
    return visible_;
  }
  // After the power failed.
  Image AfterPowerLoss(std::mt19937_64* random) {
    const std::lock_guard lock(mutex_);
    Image image = durable_;
    std::vector<Write> writes = unsynced_;
    std::shuffle(writes.begin(), writes.end(), *random);
    for (const Write& write : writes) {
      const uint64_t fate = (*random)() % 4;
      if (fate == 0) continue;  // lost
      for (size_t at = 0; at < write.bytes.size(); at += kSector) {
        if (fate == 1 && (*random)() % 2 == 0) continue;  // torn
        std::memcpy(image.data() + write.at + at, write.bytes.data() + at,
                    std::min(kSector, write.bytes.size() - at));
      }
    }
    return image;
  }
  void Flip(size_t byte, int bit) {
    const std::lock_guard lock(mutex_);
    visible_[byte] ^= std::byte{1} << bit;
  }
  void Resize(size_t bytes) {
    const std::lock_guard lock(mutex_);
    visible_.resize(bytes);
  }
  size_t size() {
    const std::lock_guard lock(mutex_);
    return visible_.size();
  }

 private:
  struct Write {
    uint64_t at;
    std::vector<std::byte> bytes;
  };
  std::mutex mutex_;
  Image durable_, visible_;
  std::vector<Write> unsynced_;
  Fault fault_;
};

// Ends requests in any order: at once, after a delay, or when it is told to.
class FaultEngine final : public IoEngine {
 public:
  // How long a request takes.
  using Delay = std::function<Duration(const IoRequest& request)>;
  // Whether it may not end yet; asked again and again.
  using Held = std::function<bool(const IoRequest& request)>;

  FaultEngine(std::shared_ptr<SimDisk> disk, uint64_t seed, Delay delay = {}, Held held = {})
      : disk_(std::move(disk)), random_(seed), delay_(std::move(delay)), held_(std::move(held)) {}

  std::string_view name() const override { return "faults"; }

  void Submit(std::span<IoRequest* const> requests) override {
    const TimePoint now = Clock::now();
    {
      const std::lock_guard lock(mutex_);
      for (IoRequest* request : requests)
        waiting_.push_back({request, delay_ ? now + delay_(*request) : now});
    }
    wake_.notify_one();
  }

  size_t Wait(std::span<IoRequest*> ended, Duration timeout) override {
    const TimePoint deadline = Clock::now() + timeout;
    std::unique_lock lock(mutex_);
    while (true) {
      const TimePoint now = Clock::now();
      size_t count = 0;
      std::shuffle(waiting_.begin(), waiting_.end(), random_);
      TimePoint next = deadline;
      for (size_t i = 0; i < waiting_.size() && count < ended.size();) {
        if (waiting_[i].at > now) {
          next = std::min(next, waiting_[i++].at);
          continue;
        }
        if (held_ && held_(*waiting_[i].request)) {
          next = std::min(next, now + milliseconds(1));
          ++i;
          continue;
        }
        IoRequest* request = waiting_[i].request;
        waiting_[i] = waiting_.back();
        waiting_.pop_back();
        request->result = disk_->Perform(*request);
        ended[count++] = request;
      }
      if (count != 0 || now >= deadline) return count;
      wake_.wait_until(lock, next);
    }
  }

 private:
  struct Waiting {
    IoRequest* request;
    TimePoint at;
  };
  const std::shared_ptr<SimDisk> disk_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::mt19937_64 random_;
  const Delay delay_;
  const Held held_;
  std::vector<Waiting> waiting_;
};

}  // namespace peercache::disk::testing
