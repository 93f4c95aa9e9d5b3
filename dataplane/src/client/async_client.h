// AsyncClient: calls that are submitted now and awaited later, beside the blocking Client.
//
//   AsyncClient async(client, {.window = 4});
//   auto call = async.Get(keys, segments, 2);             // returns at once
//   ...
//   if (call.ok() && (*call)->WaitUntil(deadline)) Use((*call)->pages());
//
// Up to `window` requests are at work at once. Calls that wait for their turn and follow each other
// in kind leave as one request: a flood of small calls costs the node what one batch costs, and a
// single call is never delayed to make a batch.
//
// A submitted call may carry a function that is called at its end, for callers that wait for many
// calls at once (capi/queue.h).
//
// Calls may finish in any order. The memory that a call's segments name must stay as it is until
// the call is done, also when a wait for it has timed out: every call does get done, because the
// blocking calls beneath are bounded in time. The destructor finishes what was submitted.
//
// Costs: a thread for each of the `window` requests, or as many as the system gives; without any,
// calls are refused. Submitting copies the call's keys and segments, and allocates; a call that
// joins others adds no message.
//
// Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/key.h"
#include "base/status.h"
#include "client/client.h"

namespace peercache {

class AsyncCall {
 public:
  // kUnknown: a Presence that the node's release does not know. kCancelled: it was never begun.
  enum class Outcome : uint8_t { kAnswered, kUnknown, kCancelled };
  // Called once, when the call is done, by the thread that carried it out or cancelled it. It may
  // use the call, must not throw, and must not end the AsyncClient.
  using Done = std::function<void(const AsyncCall&)>;

  bool done() const;
  // False when it is not done at `deadline`; it stays under way, and can be waited for again.
  bool WaitUntil(TimePoint deadline) const;
  // Once done: 1 for each page that is stored (Set), in place (Get), or can be read (Presence).
  const std::vector<uint8_t>& pages() const { return pages_; }
  // Once done.
  Outcome outcome() const { return outcome_; }

 private:
  friend class AsyncClient;
  enum class Kind : uint8_t { kSet, kGet, kPresence };

  void Finish();

  Done on_done_;
  Kind kind_ = Kind::kGet;
  size_t per_page_ = 0;
  uint64_t tag_ = 0;
  Counting counting_;
  uint64_t bytes_ = 0;
  std::vector<Key> keys_;
  std::vector<Segment> segments_;
  std::vector<uint8_t> pages_;
  mutable std::mutex mutex_;
  mutable std::condition_variable finished_;
  bool done_ = false;
  Outcome outcome_ = Outcome::kAnswered;
};

struct AsyncOptions {
  size_t window = 4;          // requests at work at once, 1 to 32; a thread and a connection each
  size_t max_pending = 4096;  // calls that wait for their turn
};

class AsyncClient {
 public:
  using Call = std::shared_ptr<AsyncCall>;

  AsyncClient(std::shared_ptr<Client> client, AsyncOptions options);
  ~AsyncClient();
  AsyncClient(const AsyncClient&) = delete;
  AsyncClient& operator=(const AsyncClient&) = delete;

  // As the calls of Client; the lists are copied. kInvalidArgument when they do not fit each other,
  // kResourceExhausted when `max_pending` calls wait already, or the system gives no thread.
  Result<Call> Set(std::span<const Key> keys, std::span<const Segment> segments,
                   size_t segments_per_page, uint64_t tag, AsyncCall::Done on_done = {});
  Result<Call> Get(std::span<const Key> keys, std::span<const Segment> segments,
                   size_t segments_per_page, Counting counting = {}, AsyncCall::Done on_done = {});
  Result<Call> Presence(std::span<const Key> keys, Counting counting = {},
                        AsyncCall::Done on_done = {});
  // True when the call was still waiting for its turn: it is done now, without any page.
  bool Cancel(const Call& call);

 private:
  using Calls = std::vector<std::shared_ptr<AsyncCall>>;

  Result<Call> SubmitMove(AsyncCall::Kind kind, std::span<const Key> keys,
                          std::span<const Segment> segments, size_t per_page, uint64_t tag,
                          Counting counting, AsyncCall::Done on_done);
  Result<Call> Submit(std::shared_ptr<AsyncCall> call);
  // One more, under the mutex.
  Status StartWorker();
  void Work();
  Calls TakeLocked();
  void Perform(const Calls& calls);

  const std::shared_ptr<Client> client_;
  const AsyncOptions options_;
  std::mutex mutex_;
  std::condition_variable submitted_;
  std::deque<std::shared_ptr<AsyncCall>> pending_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;  // last: they use all of the above
};

}  // namespace peercache
