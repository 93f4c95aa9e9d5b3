// Device: one file with its engine. It sends requests, ends them on a thread of its own, times
// them, and turns itself off when the drive fails (breaker.h). A device that is off takes no more
// requests; those under way end when the kernel ends them, and until then their memory is theirs.
// It is tried again by a thread that nobody waits for. After each time that it was back and failed
// it stays off for longer (backoff.h): that costs readers. It logs when it goes off and is back.
//
// Thread-safe. Costs: a request takes one short lock when it is sent and one when it ends.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/status.h"
#include "disk/aligned.h"
#include "disk/backoff.h"
#include "disk/breaker.h"
#include "disk/device_counts.h"
#include "disk/device_file.h"
#include "disk/io.h"
#include "disk/limits.h"

namespace peercache::disk {

// Beside the reads: what a log and a recovery may have under way.
inline constexpr unsigned kOtherRequests = 64;

class Device {
 public:
  Device(DeviceFile file, std::unique_ptr<IoEngine> engine, const DeviceLimits& limits);
  ~Device() { Stop(); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  Status Start();
  // Once: called after every round of the thread, at most 100 ms apart; it returns when it wants to
  // be called at the latest.
  void SetTick(std::function<Duration()> tick);
  // Waits for all requests under way, and ends the thread.
  void Stop();

  // False: the device is off, and `done` is not called.
  bool Submit(IoRequest* request) { return Submit(std::span(&request, 1)); }
  bool Submit(std::span<IoRequest* const> requests);
  // Claims room for a read of a page; false: too many are under way. ReadEnded gives it back.
  bool AdmitRead(uint64_t bytes);
  void ReadEnded(uint64_t bytes);

  bool on() const { return on_.load(std::memory_order_acquire); }
  // Until it is tried again.
  void Suspend(const std::string& reason);
  // The same, at once: it is used when what it has missed is on it.
  void Delay(const std::string& reason);
  void TurnOff(const std::string& reason);  // for good
  std::string off_reason() const;           // "" while it is on
  // Whether its pages leave: it will not be back, or not soon.
  bool Lost(TimePoint now) const;
  // Whether it is off and to be tried now: all that was under way has ended, too.
  bool Due(TimePoint now) const;
  // Requests are sent meanwhile, though it is off. `try_it` calls TurnOn, or fails. By one thread
  // at a time.
  void Try(const std::function<Status()>& try_it);
  // False: it has failed again meanwhile.
  bool TurnOn();
  const std::string& path() const { return file_.path; }
  const DeviceFile& file() const { return file_; }
  std::string_view engine_name() const { return engine_->name(); }
  DeviceCounts counts() const;

 private:
  void Run();
  // Why the device has to be turned off for requests that are under way; "" if for none. Under the
  // lock.
  std::string Overdue(std::span<IoRequest* const> ended, TimePoint now) const;
  void End(IoRequest* request, TimePoint now);

  const DeviceFile file_;
  const std::unique_ptr<IoEngine> engine_;
  const DeviceLimits limits_;
  std::function<Duration()> tick_;
  std::atomic<bool> ticks_{false};
  std::atomic<bool> on_{true}, trying_{false};
  std::atomic<bool> stop_{false};

  mutable std::mutex mutex_;
  DeviceBreaker breaker_;
  Backoff retry_;
  std::string off_reason_;
  bool lost_ = false;
  bool failed_again_ = false;  // since the last try began
  TimePoint off_since_{};
  IoRequest* oldest_ = nullptr;
  IoRequest* newest_ = nullptr;
  DeviceCounts counts_;
  TimePoint alive_{};     // when the thread last went round
  TimePoint forgiven_{};  // the process was stopped until then: no fault of the drive
  std::thread thread_;
};

// A request with memory of its own that a thread waits for. It lives until it has ended, also when
// nobody waits any longer. Allocates: for what is rare.
class Transfer : public std::enable_shared_from_this<Transfer> {
 public:
  static std::shared_ptr<Transfer> Make(size_t bytes) {
    return std::shared_ptr<Transfer>(new Transfer(bytes));
  }
  std::span<std::byte> bytes() const { return buffer_.bytes(); }
  // The first `size` bytes at `offset`. Await it before the next Start.
  void Start(Device* device, IoRequest::Op op, uint64_t offset, size_t size);
  // ok: all bytes were moved. While it has not ended, it may be awaited again.
  Status Await(TimePoint deadline);
  bool ended() {
    const std::lock_guard lock(mutex_);
    return ended_;
  }

 private:
  explicit Transfer(size_t bytes) : buffer_(bytes) {}

  AlignedBuffer buffer_;
  IoRequest request_;
  std::shared_ptr<Transfer> self_;  // while it is under way
  std::mutex mutex_;
  std::condition_variable ended_cv_;
  bool ended_ = true;
  int64_t result_ = 0;
  size_t wanted_ = 0;
  std::string path_;
};

}  // namespace peercache::disk
