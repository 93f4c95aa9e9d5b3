// IoEngine of a few threads that call preadv, pwritev and fdatasync: works everywhere.

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "base/thread.h"
#include "disk/io_engines.h"
#include "disk/io_queue.h"

namespace peercache::disk {
namespace {

// More requests wait for a thread. One at a time gets a tenth of what a drive can do.
constexpr unsigned kMostThreads = 16;

class Threads final : public IoEngine {
 public:
  explicit Threads(int fd) : fd_(fd) {}
  ~Threads() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    begun_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  Status Start(unsigned depth) {
    for (unsigned i = 0; i < std::min(depth, kMostThreads); ++i) {
      Result<std::thread> thread = StartThread([this] { Run(); });
      // Some are enough.
      if (!thread.ok()) return threads_.empty() ? thread.status() : Status();
      threads_.push_back(std::move(thread).value());
    }
    return {};
  }

  std::string_view name() const override { return IoKindName(IoKind::kThreads); }

  void Submit(std::span<IoRequest* const> requests) override {
    {
      const std::lock_guard lock(mutex_);
      for (IoRequest* request : requests) waiting_.Push(request);
    }
    for (size_t i = 0; i < requests.size(); ++i) begun_.notify_one();
  }

  size_t Wait(std::span<IoRequest*> ended, Duration timeout) override {
    std::unique_lock lock(mutex_);
    ended_cv_.wait_for(lock, timeout, [&] { return !ended_.empty(); });
    size_t count = 0;
    while (count < ended.size() && !ended_.empty()) ended[count++] = ended_.Pop();
    return count;
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    while (true) {
      begun_.wait(lock, [&] { return stop_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      IoRequest* request = waiting_.Pop();
      lock.unlock();
      request->result = Perform(*request);
      lock.lock();
      ended_.Push(request);
      ended_cv_.notify_one();
    }
  }

  int64_t Perform(const IoRequest& request) const {
    const auto offset = static_cast<off_t>(request.offset);
    ssize_t result = -1;
    do {
      switch (request.op) {
        case IoRequest::Op::kRead:
          result = preadv(fd_, request.part.data(), request.parts, offset);
          break;
        case IoRequest::Op::kWrite:
          result = pwritev(fd_, request.part.data(), request.parts, offset);
          break;
        case IoRequest::Op::kSync: result = fdatasync(fd_); break;
      }
    } while (result < 0 && errno == EINTR);
    return result < 0 ? -errno : result;
  }

  const int fd_;
  std::mutex mutex_;
  std::condition_variable begun_, ended_cv_;
  IoQueue waiting_, ended_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

Result<std::unique_ptr<IoEngine>> MakeThreads(int fd, unsigned depth) {
  auto engine = std::make_unique<Threads>(fd);
  if (Status started = engine->Start(depth); !started.ok()) return started;
  return std::unique_ptr<IoEngine>(std::move(engine));
}

}  // namespace peercache::disk
