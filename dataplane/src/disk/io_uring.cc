// IoEngine over io_uring: one ring, of which submitters fill the one side under a lock, and the
// waiter empties the other.

#include <liburing.h>

#include <algorithm>
#include <mutex>

#include "disk/io_engines.h"

namespace peercache::disk {
namespace {

class Uring final : public IoEngine {
 public:
  explicit Uring(int fd) : fd_(fd) {}
  ~Uring() override {
    if (made_) io_uring_queue_exit(&ring_);
  }

  Status Make(unsigned depth) {
    io_uring_params params{};
    const int error = io_uring_queue_init_params(depth, &ring_, &params);
    if (error < 0) return FromErrno("io_uring is not allowed here", -error);
    made_ = true;
    // Without these a wait with a timeout would use the submitters' side, and completions could
    // be lost.
    if (!(params.features & IORING_FEAT_EXT_ARG) || !(params.features & IORING_FEAT_NODROP))
      return Unavailable("io_uring of this kernel is older than Linux 5.11");
    return {};
  }

  std::string_view name() const override { return IoKindName(IoKind::kUring); }

  void Submit(std::span<IoRequest* const> requests) override {
    const std::lock_guard lock(submitting_);
    for (IoRequest* request : requests) {
      io_uring_sqe* entry = io_uring_get_sqe(&ring_);
      while (entry == nullptr) {
        io_uring_submit(&ring_);
        entry = io_uring_get_sqe(&ring_);
      }
      switch (request->op) {
        case IoRequest::Op::kRead:
          io_uring_prep_readv(entry, fd_, request->part.data(), request->parts, request->offset);
          break;
        case IoRequest::Op::kWrite:
          io_uring_prep_writev(entry, fd_, request->part.data(), request->parts, request->offset);
          break;
        case IoRequest::Op::kSync: io_uring_prep_fsync(entry, fd_, IORING_FSYNC_DATASYNC); break;
      }
      io_uring_sqe_set_data(entry, request);
      request->handed_over.store(true, std::memory_order_release);
    }
    SubmitAll();
  }

  size_t Wait(std::span<IoRequest*> ended, Duration timeout) override {
    if (again_.load(std::memory_order_relaxed)) {
      const std::lock_guard lock(submitting_);
      SubmitAll();
    }
    __kernel_timespec limit{};
    limit.tv_sec = timeout.count() / 1'000'000'000;
    limit.tv_nsec = timeout.count() % 1'000'000'000;
    io_uring_cqe* first = nullptr;
    if (io_uring_wait_cqes(&ring_, &first, 1, &limit, nullptr) < 0) return 0;
    io_uring_cqe* entries[64];
    const unsigned count = io_uring_peek_batch_cqe(
        &ring_, entries, static_cast<unsigned>(std::min<size_t>(ended.size(), 64)));
    for (unsigned i = 0; i < count; ++i) {
      ended[i] = static_cast<IoRequest*>(io_uring_cqe_get_data(entries[i]));
      ended[i]->handed_over.load(std::memory_order_acquire);
      ended[i]->result = entries[i]->res;
    }
    io_uring_cq_advance(&ring_, count);
    return count;
  }

 private:
  // What the kernel does not take now stays in the ring, and is offered again by Wait.
  void SubmitAll() {
    io_uring_submit(&ring_);
    again_.store(io_uring_sq_ready(&ring_) != 0, std::memory_order_relaxed);
  }

  const int fd_;
  io_uring ring_{};
  bool made_ = false;
  std::mutex submitting_;
  std::atomic<bool> again_{false};
};

}  // namespace

Result<std::unique_ptr<IoEngine>> MakeUring(int fd, unsigned depth) {
  auto engine = std::make_unique<Uring>(fd);
  if (Status made = engine->Make(depth); !made.ok()) return made;
  return std::unique_ptr<IoEngine>(std::move(engine));
}

}  // namespace peercache::disk
