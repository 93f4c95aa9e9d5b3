// IoEngine over Linux AIO, by its system calls. Needs O_DIRECT: other files make io_submit wait.
//
// With it, writes may wait there too: for the file system, or for room in the drive's queue. So a
// thread hands over all that is no read.

#include <errno.h>
#include <linux/aio_abi.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/thread.h"
#include "disk/io_engines.h"
#include "disk/io_queue.h"

namespace peercache::disk {
namespace {

constexpr size_t kBatch = 32;  // of one system call

class Aio final : public IoEngine {
 public:
  explicit Aio(int fd) : fd_(fd) {}
  ~Aio() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    begun_.notify_one();
    if (writer_.joinable()) writer_.join();
    if (context_ != 0) syscall(SYS_io_destroy, context_);
  }

  Status Make(unsigned depth) {
    if (syscall(SYS_io_setup, depth, &context_) != 0) {
      if (errno != EAGAIN) return FromErrno("aio is not allowed here", errno);
      return Unavailable("aio has no room left: raise the sysctl fs.aio-max-nr");
    }
    Result<std::thread> thread = StartThread([this] { Write(); });
    if (!thread.ok()) return thread.status();
    writer_ = std::move(thread).value();
    return {};
  }

  std::string_view name() const override { return IoKindName(IoKind::kAio); }

  void Submit(std::span<IoRequest* const> requests) override {
    if (requests.front()->op == IoRequest::Op::kRead) return HandOver(requests);
    {
      const std::lock_guard lock(mutex_);
      for (IoRequest* request : requests) writes_.Push(request);
    }
    begun_.notify_one();
  }

  size_t Wait(std::span<IoRequest*> ended, Duration timeout) override {
    if (const size_t failed = TakeFailed(ended); failed != 0) return failed;
    timespec limit{};
    limit.tv_sec = timeout.count() / 1'000'000'000;
    limit.tv_nsec = timeout.count() % 1'000'000'000;
    io_event events[64];
    const long count = syscall(SYS_io_getevents, context_, 1,
                               std::min<size_t>(ended.size(), std::size(events)), events, &limit);
    if (count <= 0) return 0;
    for (long i = 0; i < count; ++i) {
      ended[i] = reinterpret_cast<IoRequest*>(events[i].data);
      ended[i]->handed_over.load(std::memory_order_acquire);
      ended[i]->result = events[i].res;
    }
    return static_cast<size_t>(count);
  }

 private:
  void Write() {
    std::unique_lock lock(mutex_);
    while (true) {
      begun_.wait(lock, [&] { return stop_ || !writes_.empty(); });
      if (writes_.empty()) return;
      IoRequest* const request = writes_.Pop();
      lock.unlock();
      HandOver({&request, 1});
      lock.lock();
    }
  }
  void HandOver(std::span<IoRequest* const> requests) {
    while (!requests.empty()) {
      const auto batch = requests.first(std::min(requests.size(), kBatch));
      iocb blocks[kBatch];
      iocb* list[kBatch];
      for (size_t i = 0; i < batch.size(); ++i) {
        IoRequest* request = batch[i];
        iocb& block = blocks[i] = {};
        list[i] = &block;
        block.aio_data = reinterpret_cast<uintptr_t>(request);
        block.aio_fildes = static_cast<uint32_t>(fd_);
        if (request->op == IoRequest::Op::kSync) {
          block.aio_lio_opcode = IOCB_CMD_FDSYNC;
        } else {
          block.aio_lio_opcode =
              request->op == IoRequest::Op::kRead ? IOCB_CMD_PREADV : IOCB_CMD_PWRITEV;
          block.aio_buf = reinterpret_cast<uintptr_t>(request->part.data());
          block.aio_nbytes = request->parts;
          block.aio_offset = static_cast<int64_t>(request->offset);
        }
        request->handed_over.store(true, std::memory_order_release);
      }
      for (size_t begun = 0; begun < batch.size();) {
        const long taken = syscall(SYS_io_submit, context_, batch.size() - begun, list + begun);
        if (taken > 0) {
          begun += static_cast<size_t>(taken);
        } else if (taken == 0 || errno != EINTR) {
          // The kernel refuses the first one; those behind it may be fine.
          Fail(batch[begun], taken == 0 ? EAGAIN : errno);
          ++begun;
        }
      }
      requests = requests.subspan(batch.size());
    }
  }
  void Fail(IoRequest* request, int error) {
    const std::lock_guard lock(mutex_);
    request->result = -error;
    failed_.Push(request);
  }
  size_t TakeFailed(std::span<IoRequest*> ended) {
    const std::lock_guard lock(mutex_);
    size_t count = 0;
    while (!failed_.empty() && count < ended.size()) ended[count++] = failed_.Pop();
    return count;
  }

  const int fd_;
  aio_context_t context_ = 0;
  std::mutex mutex_;
  std::condition_variable begun_;
  IoQueue writes_;  // and syncs
  IoQueue failed_;  // refused by io_submit; Wait says so
  bool stop_ = false;
  std::thread writer_;
};

}  // namespace

Result<std::unique_ptr<IoEngine>> MakeAio(int fd, unsigned depth) {
  auto engine = std::make_unique<Aio>(fd);
  if (Status made = engine->Make(depth); !made.ok()) return made;
  return std::unique_ptr<IoEngine>(std::move(engine));
}

}  // namespace peercache::disk
