// Crew: a few threads that help callers through loops over large pieces of work, such as copying
// pages.
//
//   Crew crew(3);
//   crew.For(pages.size(), [&](size_t i) { copy(i); });     // returns when all are done
//
// The caller works too, and the crew helps one caller at a time: while it is busy, another caller
// does its loop alone, which is as good when there are as many callers as cores. `work` is called
// once for each index, in any thread and order, and must not throw.
//
// Thread-safe. Allocates nothing after construction.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace peercache {

class Crew {
 public:
  explicit Crew(unsigned helpers);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // How many threads, the caller included, a loop that began now would have; for cutting the work.
  size_t Hands();

  template <typename Work>
  void For(size_t count, const Work& work) {
    Run({[](const void* context, size_t i) { (*static_cast<const Work*>(context))(i); }, &work,
         count});
  }
  // The same for work that copies so many bytes in all; the caller alone where that is not worth
  // help.
  template <typename Work>
  void ForBytes(size_t count, uint64_t bytes, const Work& work) {
    if (bytes >= kWorthHelp) return For(count, work);
    for (size_t i = 0; i < count; ++i) work(i);
  }

 private:
  // Below this, waking a helper takes longer than the copy.
  static constexpr uint64_t kWorthHelp = 1 << 20;

  struct Job {
    void (*call)(const void* context, size_t index) = nullptr;
    const void* context = nullptr;
    size_t count = 0;
  };
  void Run(const Job& job);
  void Help();
  void Work(const Job& job);

  std::mutex busy_;  // held by the caller that the crew helps
  std::mutex mutex_;
  std::condition_variable called_, left_;
  Job job_;                // guarded by mutex_; count = 0: none
  size_t generation_ = 0;  // of job_
  unsigned joined_ = 0;    // helpers at work on job_
  bool stop_ = false;
  std::atomic<size_t> next_{0};
  std::vector<std::thread> helpers_;
};

}  // namespace peercache
