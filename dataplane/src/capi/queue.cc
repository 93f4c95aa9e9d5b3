#include "capi/queue.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <map>
#include <new>
#include <utility>

#include "base/thread.h"
#include "capi/check_op.h"

namespace peercache::capi {
namespace {

constexpr uint32_t kBits = 64;

// The same bytes by the names of either side, so that a call copies them once.
static_assert(sizeof(pc_key) == sizeof(Key) && alignof(pc_key) == alignof(Key));
static_assert(sizeof(pc_iov) == sizeof(Segment) && alignof(pc_iov) == alignof(Segment));
static_assert(offsetof(pc_iov, length) == offsetof(Segment, length));

std::span<const Key> KeysOf(const pc_op& op) {
  return {reinterpret_cast<const Key*>(op.keys), op.pages};
}
const Segment* SegmentsOf(const pc_op& op) { return reinterpret_cast<const Segment*>(op.iovs); }

int32_t ResultOf(AsyncCall::Outcome outcome) {
  switch (outcome) {
    case AsyncCall::Outcome::kUnknown: return PC_EOLD;
    case AsyncCall::Outcome::kCancelled: return PC_ECANCELED;
    case AsyncCall::Outcome::kAnswered: break;
  }
  return PC_OK;
}

}  // namespace

Result<std::unique_ptr<Queue>> Queue::Open(std::shared_ptr<Client> client, QueueOptions options) {
  UniqueFd event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) return FromErrno("making the eventfd of a queue", errno);
  return std::unique_ptr<Queue>(new Queue(std::move(client), options, std::move(event)));
}

Queue::Queue(std::shared_ptr<Client> client, QueueOptions options, UniqueFd event)
    : event_(std::move(event)), ops_(options.depth) {
  for (Op& op : ops_) Free(&op);
  // `depth` bounds what waits.
  async_.emplace(std::move(client),
                 AsyncOptions{.window = options.window, .max_pending = SIZE_MAX});
}

Queue::~Queue() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  deadlines_changed_.notify_all();
  if (timer_.joinable()) timer_.join();
}

// ---- taking ops ---------------------------------------------------------------------------------

Status Queue::Submit(const pc_op& op) {
  std::vector<Group> groups = GroupsOf(op);
  const auto calls = static_cast<uint32_t>(groups.size());
  if (op.deadline_us != 0) {
    if (Status s = StartTimer(); !s.ok()) return s;
  }
  const auto token = Take(op, calls);
  if (!token.ok()) return token.status();
  for (uint32_t begun = 0; begun < calls; ++begun) {
    Status failed;
    try {
      auto call = Start(op, *token, std::move(groups[begun]));
      if (call.ok()) {
        std::lock_guard lock(mutex_);
        // There is room: see Take.
        if (Op* taken = Find(*token)) taken->calls.push_back(std::move(*call));
        continue;
      }
      failed = call.status();
    } catch (const std::bad_alloc&) {
      GiveUp(*token, begun, calls - begun);
      if (begun == 0) throw;
      return {};
    }
    GiveUp(*token, begun, calls - begun);
    return begun == 0 ? failed : Status();
  }
  return {};
}

std::vector<Queue::Group> Queue::GroupsOf(const pc_op& op) {
  if (op.kind == PC_PRESENCE) return {Group{}};
  const uint32_t first = IovsOf(op, 0);
  if (op.iovs_per_page != 0 || std::all_of(op.iov_counts, op.iov_counts + op.pages,
                                           [first](uint32_t count) { return count == first; })) {
    return {Group{first, {}}};
  }
  std::map<uint32_t, std::vector<uint32_t>> by_count;
  for (uint32_t page = 0; page < op.pages; ++page) by_count[op.iov_counts[page]].push_back(page);
  std::vector<Group> groups;
  for (auto& [count, pages] : by_count) groups.push_back({count, std::move(pages)});
  return groups;
}

Result<Queue::Token> Queue::Take(const pc_op& op, uint32_t calls) {
  std::lock_guard lock(mutex_);
  if (free_ == kNone) {
    return ResourceExhausted(fmt::format(
        "{} ops are taken and not fully reaped: reap their completions, or raise the queue's depth",
        ops_.size()));
  }
  Op& taken = ops_[free_];
  taken.ok.assign((op.pages + kBits - 1) / kBits, 0);
  taken.calls.reserve(calls);
  const Token token{free_, taken.generation};
  free_ = std::exchange(taken.next, kNone);
  taken.state = Op::State::kWorking;
  taken.pages = op.pages;
  taken.reaped = 0;
  taken.unfinished = calls;
  taken.result = PC_ECANCELED;
  taken.user_data = op.user_data;
  taken.deadline = TimePoint::max();
  if (op.deadline_us != 0) {
    taken.deadline = Clock::now() + std::chrono::microseconds(op.deadline_us);
    if (taken.deadline < next_look_) deadlines_changed_.notify_all();
  }
  return token;
}

Result<AsyncClient::Call> Queue::Start(const pc_op& op, Token token, Group group) {
  const Counting counting{op.page_tokens, (op.flags & PC_UNCOUNTED) == 0};
  const size_t per_page = group.per_page;
  if (group.pages.empty()) {
    // Small enough for std::function to keep it without memory of its own.
    const auto done = [this, token](const AsyncCall& call) { Finished(token, call, nullptr); };
    if (op.kind == PC_PRESENCE) return async_->Presence(KeysOf(op), counting, done);
    const std::span<const Segment> segments(SegmentsOf(op), per_page * op.pages);
    if (op.kind == PC_SET) return async_->Set(KeysOf(op), segments, per_page, op.tag, done);
    return async_->Get(KeysOf(op), segments, per_page, counting, done);
  }
  std::vector<Key> keys;
  std::vector<Segment> segments;
  keys.reserve(group.pages.size());
  segments.reserve(group.pages.size() * per_page);
  const Segment* at = SegmentsOf(op);
  auto wanted = group.pages.begin();
  for (uint32_t page = 0; wanted != group.pages.end(); at += op.iov_counts[page++]) {
    if (page != *wanted) continue;
    keys.push_back(KeysOf(op)[page]);
    segments.insert(segments.end(), at, at + per_page);
    ++wanted;
  }
  const auto pages = std::make_shared<const std::vector<uint32_t>>(std::move(group.pages));
  const auto done = [this, token, pages](const AsyncCall& call) {
    Finished(token, call, pages.get());
  };
  if (op.kind == PC_SET) return async_->Set(keys, segments, per_page, op.tag, done);
  return async_->Get(keys, segments, per_page, counting, done);
}

// ---- the end of ops -----------------------------------------------------------------------------

void Queue::Finished(Token token, const AsyncCall& call, const std::vector<uint32_t>* pages) {
  std::lock_guard lock(mutex_);
  Op* op = Find(token);
  if (op == nullptr) return;  // its deadline has passed
  const std::vector<uint8_t>& flags = call.pages();
  for (uint32_t i = 0; i < flags.size(); ++i) {
    const uint32_t page = pages == nullptr ? i : (*pages)[i];
    op->ok[page / kBits] |= uint64_t{flags[i]} << (page % kBits);
  }
  const int32_t result = ResultOf(call.outcome());
  if (op->result != PC_OK) op->result = result;
  if (--op->unfinished == 0) Complete(op);
}

void Queue::GiveUp(Token token, uint32_t begun, uint32_t rest) {
  std::lock_guard lock(mutex_);
  Op* op = Find(token);
  if (op == nullptr) return;
  op->unfinished -= rest;
  if (begun == 0) {
    Free(op);
  } else if (op->unfinished == 0) {
    Complete(op);
  }
}

Queue::Op* Queue::Find(Token token) {
  Op& op = ops_[token.index];
  return op.generation == token.generation && op.state == Op::State::kWorking ? &op : nullptr;
}

void Queue::Complete(Op* op) {
  const auto index = static_cast<uint32_t>(op - ops_.data());
  op->state = Op::State::kDone;
  op->calls.clear();
  if (done_first_ != kNone) {
    ops_[done_last_].next = index;
    done_last_ = index;
    return;
  }
  done_first_ = done_last_ = index;
  const uint64_t one = 1;
  (void)!write(event_.get(), &one, sizeof(one));  // fails only where it is readable already
  completed_.notify_all();
}

void Queue::Free(Op* op) {
  op->state = Op::State::kFree;
  ++op->generation;
  op->next = std::exchange(free_, static_cast<uint32_t>(op - ops_.data()));
}

size_t Queue::Reap(std::span<pc_completion> completions) {
  std::lock_guard lock(mutex_);
  size_t written = 0;
  while (done_first_ != kNone && written < completions.size()) {
    Op& op = ops_[done_first_];
    const uint32_t count = std::min(kBits, op.pages - op.reaped);
    const bool more = op.reaped + count < op.pages;
    completions[written++] = {.user_data = op.user_data,
                              .ok = op.ok[op.reaped / kBits],
                              .first = op.reaped,
                              .count = static_cast<uint16_t>(count),
                              .flags = more ? uint16_t{PC_MORE} : uint16_t{0},
                              .result = op.result,
                              .reserved = 0};
    op.reaped += count;
    if (more) continue;
    done_first_ = std::exchange(op.next, kNone);
    Free(&op);
  }
  if (written > 0 && done_first_ == kNone) {
    uint64_t count = 0;
    (void)!read(event_.get(), &count, sizeof(count));  // fails only where it is not readable
  }
  return written;
}

bool Queue::Wait(Duration limit) {
  std::unique_lock lock(mutex_);
  return completed_.wait_until(lock, Clock::now() + limit, [this] { return done_first_ != kNone; });
}

size_t Queue::Cancel(uint64_t user_data) {
  std::vector<std::vector<AsyncClient::Call>> ops;
  {
    std::lock_guard lock(mutex_);
    for (const Op& op : ops_) {
      if (op.state == Op::State::kWorking && op.user_data == user_data) ops.push_back(op.calls);
    }
  }
  // Without the mutex, which Finished takes.
  size_t ended = 0;
  for (const auto& calls : ops) {
    const auto cancelled = std::ranges::count_if(
        calls, [this](const AsyncClient::Call& call) { return async_->Cancel(call); });
    ended += cancelled > 0 && static_cast<size_t>(cancelled) == calls.size();
  }
  return ended;
}

// ---- deadlines ----------------------------------------------------------------------------------

Status Queue::StartTimer() {
  std::lock_guard lock(mutex_);
  if (timer_.joinable()) return {};
  auto thread = StartThread([this] { WatchDeadlines(); });
  if (!thread.ok()) return thread.status();
  timer_ = std::move(*thread);
  return {};
}

void Queue::WatchDeadlines() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const TimePoint now = Clock::now();
    next_look_ = TimePoint::max();
    Op* late = nullptr;
    for (Op& op : ops_) {
      if (op.state != Op::State::kWorking) continue;
      if (op.deadline <= now) late = &op;
      next_look_ = std::min(next_look_, op.deadline);
    }
    if (late != nullptr) {
      // A question that has begun goes on, and its answer is dropped: ending it would cost the
      // connection. One that has not is not asked any more.
      const std::vector<AsyncClient::Call> calls = std::move(late->calls);
      late->result = PC_ETIME;
      Complete(late);
      lock.unlock();
      for (const auto& call : calls) async_->Cancel(call);
      lock.lock();
    } else if (next_look_ == TimePoint::max()) {
      deadlines_changed_.wait(lock);
    } else {
      deadlines_changed_.wait_until(lock, next_look_);
    }
  }
}

}  // namespace peercache::capi
