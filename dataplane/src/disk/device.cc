// How a drive that fails is distinguished from a process that was stopped, without a timer for each
// request.
//
// All requests under way are in one list, in the order of their submission. One thread waits for
// the engine, 100 ms at most, and then checks the head of the list: of reads and writes no other
// has been under way for longer. A sync may take longer than what was sent after it, so the check
// goes past syncs. It judges only when the engine has reported all that has ended (fewer results
// than there was room for). Otherwise a thread that was late would blame the drive.
// A round that took over 400 ms longer than its wait means that the process was stopped. Then
// requests count from that moment on (forgiven_).
//
// Off: Submit refuses from then on. Requests that are under way stay in the list until the kernel
// ends them, for the device may still write into their memory. A Transfer keeps itself alive for
// that reason, also when its caller has left.
// Back: when the list is empty and the pause is over (Due), the keeper's thread tries the device.
// It is on again only if no request has failed during the try.
//
// Benefits: no caller waits for a drive beyond its deadline; one atomic load shows that a drive is
// off.
// Costs: a lock when a request begins and one when it ends; the memory of requests that a drive
// never ends is lost.
//
// Rejected: cancelling requests, for a drive that hangs ends cancelled ones no sooner; a time-out
// for each request, for the oldest one shows as much.
#include "disk/device.h"

#include <errno.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <system_error>

#include "base/thread.h"

namespace peercache::disk {
namespace {

constexpr Duration kDeviceTick = milliseconds(100);
// A round that took so much longer than it waited for was not the drive's doing.
constexpr Duration kStopped = milliseconds(400);

}  // namespace

Device::Device(DeviceFile file, std::unique_ptr<IoEngine> engine, const DeviceLimits& limits)
    : file_(std::move(file)),
      engine_(std::move(engine)),
      limits_(limits),
      breaker_(limits.breaker),
      retry_(limits.breaker.retry) {}

void Device::Stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

void Device::SetTick(std::function<Duration()> tick) {
  tick_ = std::move(tick);
  ticks_.store(true, std::memory_order_release);
}

Status Device::Start() {
  alive_ = Clock::now();
  Result<std::thread> thread = StartThread([this] { Run(); });
  if (!thread.ok()) return thread.status();
  thread_ = std::move(thread).value();
  return {};
}

bool Device::Submit(std::span<IoRequest* const> requests) {
  {
    const std::lock_guard lock(mutex_);
    if (!on() && !trying_.load(std::memory_order_relaxed)) return false;
    const TimePoint now = Clock::now();
    for (IoRequest* request : requests) {
      request->submitted = now;
      request->newer = nullptr;
      request->older = newest_;
      (newest_ != nullptr ? newest_->newer : oldest_) = request;
      newest_ = request;
      ++counts_.in_flight;
    }
  }
  engine_->Submit(requests);
  return true;
}

bool Device::AdmitRead(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  // One read is always admitted, however long it is.
  if (counts_.page_reads_in_flight != 0 &&
      (counts_.page_bytes_in_flight + bytes > limits_.read_bytes ||
       counts_.page_reads_in_flight >= limits_.reads))
    return false;
  ++counts_.page_reads_in_flight;
  counts_.page_bytes_in_flight += bytes;
  return true;
}

void Device::ReadEnded(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  --counts_.page_reads_in_flight;
  counts_.page_bytes_in_flight -= bytes;
}

void Device::Delay(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  off_reason_ = reason;
  off_since_ = Clock::now();
  on_.store(false, std::memory_order_release);
}

void Device::TurnOff(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (lost_) return;
    lost_ = true;
    off_reason_ = reason;
    on_.store(false, std::memory_order_release);
  }
  spdlog::error("disk {}: off until this process starts again: {}", path(), reason);
}

void Device::Suspend(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    failed_again_ = true;
    if (!on()) return;
    off_reason_ = reason;
    off_since_ = Clock::now();
    retry_.Failed(off_since_);
    on_.store(false, std::memory_order_release);
  }
  spdlog::error("disk {}: off, until it works again: {}", path(), reason);
}

bool Device::Lost(TimePoint now) const {
  const std::lock_guard lock(mutex_);
  return lost_ || (!on() && now - off_since_ > limits_.breaker.keep_pages);
}

bool Device::Due(TimePoint now) const {
  const std::lock_guard lock(mutex_);
  return !on() && !lost_ && oldest_ == nullptr && !retry_.Waits(now);
}

void Device::Try(const std::function<Status()>& try_it) {
  {
    const std::lock_guard lock(mutex_);
    failed_again_ = false;
  }
  trying_.store(true, std::memory_order_relaxed);
  const Status tried = try_it();
  trying_.store(false, std::memory_order_relaxed);
  if (tried.ok()) return;
  const std::lock_guard lock(mutex_);
  retry_.Tried(Clock::now());
}

bool Device::TurnOn() {
  {
    const std::lock_guard lock(mutex_);
    if (lost_ || failed_again_) return false;
    breaker_.Forget();
    off_reason_.clear();
    on_.store(true, std::memory_order_release);
  }
  spdlog::info("disk {}: it works again", path());
  return true;
}

std::string Device::off_reason() const {
  const std::lock_guard lock(mutex_);
  return off_reason_;
}

DeviceCounts Device::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void Device::Run() {
  std::array<IoRequest*, 64> ended;
  Duration timeout = kDeviceTick;
  while (true) {
    const size_t count = engine_->Wait(ended, timeout);
    const TimePoint now = Clock::now();
    std::string broken;
    {
      const std::lock_guard lock(mutex_);
      if (now - alive_ > timeout + kStopped) forgiven_ = now;
      alive_ = now;
      // What has ended meanwhile is not late, so the kernel is asked for all of it first.
      if (count < ended.size()) broken = Overdue(std::span(ended).first(count), now);
    }
    if (!broken.empty()) Suspend(broken);
    for (size_t i = 0; i < count; ++i) End(ended[i], now);
    timeout = kDeviceTick;
    if (ticks_.load(std::memory_order_acquire))
      timeout = std::clamp(tick_(), Duration(milliseconds(1)), kDeviceTick);
    if (stop_) {
      const std::lock_guard lock(mutex_);
      if (oldest_ == nullptr) return;
    }
  }
}

std::string Device::Overdue(std::span<IoRequest* const> ended, TimePoint now) const {
  for (const IoRequest* request = oldest_; request != nullptr; request = request->newer) {
    if (std::ranges::find(ended, request) != ended.end()) return "";
    std::string broken = breaker_.Took(request->op, now - std::max(request->submitted, forgiven_));
    // A sync may take longer than what was sent after it; of the others the oldest tells for all.
    if (!broken.empty() || request->op != IoRequest::Op::kSync) return broken;
  }
  return "";
}

void Device::End(IoRequest* request, TimePoint now) {
  std::string broken;
  {
    const std::lock_guard lock(mutex_);
    (request->older != nullptr ? request->older->newer : oldest_) = request->newer;
    (request->newer != nullptr ? request->newer->older : newest_) = request->older;
    --counts_.in_flight;
    const Duration took = now - request->submitted;
    counts_.longest = std::max(counts_.longest, took);
    counts_.Of(request->op).Observe(took);
    if (request->op == IoRequest::Op::kRead) {
      ++counts_.reads;
      if (request->result > 0) counts_.bytes_read += static_cast<uint64_t>(request->result);
    } else {
      ++counts_.writes;
      if (request->result > 0) counts_.bytes_written += static_cast<uint64_t>(request->result);
    }
    if (request->result < 0) {
      ++counts_.errors;
      if (request->op == IoRequest::Op::kRead)
        broken = breaker_.Failed(
            std::generic_category().message(static_cast<int>(-request->result)), now);
    }
    if (broken.empty())
      broken = breaker_.Took(request->op, now - std::max(request->submitted, forgiven_));
  }
  if (!broken.empty()) Suspend(broken);
  request->done(request);
}

void Transfer::Start(Device* device, IoRequest::Op op, uint64_t offset, size_t size) {
  request_.Set(op, buffer_.data(), size, offset);
  request_.context = this;
  request_.done = [](IoRequest* request) {
    auto* transfer = static_cast<Transfer*>(request->context);
    std::shared_ptr<Transfer> last;
    const std::lock_guard lock(transfer->mutex_);
    transfer->result_ = request->result;
    transfer->ended_ = true;
    transfer->ended_cv_.notify_all();
    last = std::move(transfer->self_);
    transfer->self_ = nullptr;
  };
  wanted_ = op == IoRequest::Op::kSync ? 0 : size;
  path_ = device->path();
  ended_ = false;
  self_ = shared_from_this();
  if (device->Submit(&request_)) return;
  self_ = nullptr;
  ended_ = true;
  result_ = -ENODEV;
}

Status Transfer::Await(TimePoint deadline) {
  std::unique_lock lock(mutex_);
  if (!ended_cv_.wait_until(lock, deadline, [&] { return ended_; }))
    return DeadlineExceeded(fmt::format("{} does not answer", path_));
  if (result_ < 0) return FromErrno(path_, static_cast<int>(-result_));
  if (static_cast<size_t>(result_) != wanted_) return Corrupt(fmt::format("{} ends early", path_));
  return {};
}

}  // namespace peercache::disk
