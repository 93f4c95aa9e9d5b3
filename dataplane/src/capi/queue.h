// Queue: ops of libpeercache.h that are taken, carried out by an AsyncClient and reaped.
//
//   auto queue = Queue::Open(client, {.window = 4, .depth = 1024});
//   queue->Submit(op);                               // CheckOp has passed it
//   poll(queue->fd()); queue->Reap(completions);
//
// An op is one call of the AsyncClient, or one for each count of iovs that its pages have. It is
// done when all its calls are, when its deadline passes, or when it is cancelled before it began.
//
// Costs: an op that is done is one step of a list, so that nothing is allocated for completions; a
// bit for each page. The eventfd costs a system call when the first completion comes and one when
// the last one is reaped. Deadlines cost a thread, from the first one on, which looks at all
// `depth` ops whenever one of them is due: 1 us for 1,000.
//
// Thread-safe, but for the end.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"
#include "client/async_client.h"
#include "peercache/libpeercache.h"

namespace peercache::capi {

struct QueueOptions {
  uint32_t window = 4;
  uint32_t depth = 1024;
};

class Queue {
 public:
  static Result<std::unique_ptr<Queue>> Open(std::shared_ptr<Client> client, QueueOptions options);
  // Finishes what was taken.
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  int fd() const { return event_.get(); }
  // kResourceExhausted: `depth` ops are there, or the system gives no thread. Throws
  // std::bad_alloc; the op was not taken then.
  Status Submit(const pc_op& op);
  // How many were written.
  size_t Reap(std::span<pc_completion> completions);
  // False when no completion has come in time.
  bool Wait(Duration limit);
  // How many ops have ended by it.
  size_t Cancel(uint64_t user_data);

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Op {
    enum class State : uint8_t { kFree, kWorking, kDone };
    State state = State::kFree;
    uint32_t generation = 0;  // counts the ops that were here
    uint32_t next = kNone;    // of the free ones, or of those that are done
    uint32_t pages = 0, reaped = 0;
    uint32_t unfinished = 0;  // calls
    int32_t result = PC_OK;   // once a call was answered: PC_OK
    uint64_t user_data = 0;
    TimePoint deadline = TimePoint::max();
    std::vector<uint64_t> ok;              // a bit for each page, as in pc_completion
    std::vector<AsyncClient::Call> calls;  // while it is kWorking
  };
  // An op, for as long as it is kWorking.
  struct Token {
    uint32_t index = kNone, generation = 0;
  };
  // The pages of an op with the same number of iovs. No list: all of them.
  struct Group {
    size_t per_page = 0;
    std::vector<uint32_t> pages;
  };

  Queue(std::shared_ptr<Client> client, QueueOptions options, UniqueFd event);
  static std::vector<Group> GroupsOf(const pc_op& op);
  Result<Token> Take(const pc_op& op, uint32_t calls);
  Result<AsyncClient::Call> Start(const pc_op& op, Token token, Group group);
  void Finished(Token token, const AsyncCall& call, const std::vector<uint32_t>* pages);
  // After `begun` calls of an op, `rest` could not be started: their pages are misses, and an op of
  // which none began was not taken.
  void GiveUp(Token token, uint32_t begun, uint32_t rest);
  Status StartTimer();
  void WatchDeadlines();

  // Under the mutex.
  Op* Find(Token token);
  void Complete(Op* op);
  void Free(Op* op);

  const UniqueFd event_;  // readable while an op is done
  std::mutex mutex_;
  std::condition_variable completed_, deadlines_changed_;
  std::vector<Op> ops_;
  uint32_t free_ = kNone, done_first_ = kNone, done_last_ = kNone;
  TimePoint next_look_ = TimePoint::max();  // of the timer
  bool stopping_ = false;
  std::thread timer_;                 // none before the first deadline
  std::optional<AsyncClient> async_;  // last: its threads use all of the above
};

}  // namespace peercache::capi
