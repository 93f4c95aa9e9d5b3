#include "client/async_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "base/thread.h"
#include "wire/messages.h"

namespace peercache {
namespace {

// One request carries at most this much of several calls: more would save little and make the first
// of them wait for the last. About the bytes that a node moves in a millisecond.
constexpr uint64_t kMaxJoinedBytes = 4 << 20;
constexpr size_t kMaxJoinedPages = 1024;
// Half of the connections that a node grants an engine: blocking calls need some too.
constexpr size_t kMaxWindow = 32;

}  // namespace

bool AsyncCall::done() const {
  std::lock_guard lock(mutex_);
  return done_;
}

bool AsyncCall::WaitUntil(TimePoint deadline) const {
  std::unique_lock lock(mutex_);
  return finished_.wait_until(lock, deadline, [this] { return done_; });
}

void AsyncCall::Finish() {
  {
    // Notified under the lock: the waiter may drop its reference as soon as it sees done_. Whoever
    // calls this has one, too.
    std::lock_guard lock(mutex_);
    done_ = true;
    finished_.notify_all();
  }
  if (on_done_) on_done_(*this);
}

AsyncClient::AsyncClient(std::shared_ptr<Client> client, AsyncOptions options)
    : client_(std::move(client)), options_(options) {
  const size_t window = std::clamp<size_t>(options_.window, 1, kMaxWindow);
  std::lock_guard lock(mutex_);
  threads_.reserve(window);  // a thread that is started has its place
  while (threads_.size() < window && StartWorker().ok()) {
  }
}

Status AsyncClient::StartWorker() {
  try {
    auto thread = StartThread([this] { Work(); });
    if (!thread.ok()) return thread.status();
    threads_.push_back(std::move(*thread));
  } catch (const std::bad_alloc&) {  // of the constructor, which has threads already
    return ResourceExhausted("no memory for a thread of the client");
  }
  return {};
}

AsyncClient::~AsyncClient() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  submitted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Result<AsyncClient::Call> AsyncClient::Set(std::span<const Key> keys,
                                           std::span<const Segment> segments,
                                           size_t segments_per_page, uint64_t tag,
                                           AsyncCall::Done on_done) {
  return SubmitMove(AsyncCall::Kind::kSet, keys, segments, segments_per_page, tag, {},
                    std::move(on_done));
}

Result<AsyncClient::Call> AsyncClient::Get(std::span<const Key> keys,
                                           std::span<const Segment> segments,
                                           size_t segments_per_page, Counting counting,
                                           AsyncCall::Done on_done) {
  return SubmitMove(AsyncCall::Kind::kGet, keys, segments, segments_per_page, 0, counting,
                    std::move(on_done));
}

Result<AsyncClient::Call> AsyncClient::Presence(std::span<const Key> keys, Counting counting,
                                                AsyncCall::Done on_done) {
  auto call = std::make_shared<AsyncCall>();
  call->on_done_ = std::move(on_done);
  call->kind_ = AsyncCall::Kind::kPresence;
  call->counting_ = counting;
  call->keys_.assign(keys.begin(), keys.end());
  call->pages_.assign(keys.size(), 0);
  return Submit(std::move(call));
}

Result<AsyncClient::Call> AsyncClient::SubmitMove(AsyncCall::Kind kind, std::span<const Key> keys,
                                                  std::span<const Segment> segments,
                                                  size_t per_page, uint64_t tag, Counting counting,
                                                  AsyncCall::Done on_done) {
  if (per_page == 0 || per_page > kMaxSegmentsPerPage ||
      segments.size() != keys.size() * per_page) {
    return InvalidArgument(
        fmt::format("{} keys with {} segments of {} a page: the counts do not fit (1 to {} a page)",
                    keys.size(), segments.size(), per_page, kMaxSegmentsPerPage));
  }
  auto call = std::make_shared<AsyncCall>();
  call->on_done_ = std::move(on_done);
  call->kind_ = kind;
  call->tag_ = tag;
  call->counting_ = counting;
  call->per_page_ = per_page;
  call->keys_.assign(keys.begin(), keys.end());
  call->segments_.assign(segments.begin(), segments.end());
  call->pages_.assign(keys.size(), 0);
  for (const Segment& s : segments) call->bytes_ += s.length;
  return Submit(std::move(call));
}

Result<AsyncClient::Call> AsyncClient::Submit(std::shared_ptr<AsyncCall> call) {
  {
    std::lock_guard lock(mutex_);
    if (threads_.empty()) {
      if (Status s = StartWorker(); !s.ok()) return s;
    }
    if (pending_.size() >= options_.max_pending) {
      return ResourceExhausted(fmt::format(
          "{} calls are pending: wait for some of them, or raise max_pending", pending_.size()));
    }
    pending_.push_back(call);
  }
  submitted_.notify_one();
  return call;
}

bool AsyncClient::Cancel(const Call& call) {
  {
    std::lock_guard lock(mutex_);
    const auto waiting = std::ranges::find(pending_, call);
    if (waiting == pending_.end()) return false;
    pending_.erase(waiting);
  }
  call->outcome_ = AsyncCall::Outcome::kCancelled;
  call->Finish();
  return true;
}

void AsyncClient::Work() {
  for (;;) {
    Calls calls;
    {
      std::unique_lock lock(mutex_);
      submitted_.wait(lock, [this] { return stopping_ || !pending_.empty(); });
      if (pending_.empty()) return;
      calls = TakeLocked();
    }
    Perform(calls);
    for (const auto& call : calls) call->Finish();
  }
}

// The first call and those right behind it that can share its request.
AsyncClient::Calls AsyncClient::TakeLocked() {
  Calls calls{std::move(pending_.front())};
  pending_.pop_front();
  const AsyncCall& first = *calls.front();
  // Joined, its leading run would not be one prompt's, which the node counts.
  if (first.kind_ == AsyncCall::Kind::kPresence) return calls;
  uint64_t bytes = first.bytes_;
  size_t pages = first.keys_.size();
  while (!pending_.empty()) {
    const AsyncCall& next = *pending_.front();
    bytes += next.bytes_;
    pages += next.keys_.size();
    if (next.kind_ != first.kind_ || next.per_page_ != first.per_page_ || next.tag_ != first.tag_ ||
        next.counting_ != first.counting_ || bytes > kMaxJoinedBytes || pages > kMaxJoinedPages) {
      break;
    }
    calls.push_back(std::move(pending_.front()));
    pending_.pop_front();
  }
  return calls;
}

void AsyncClient::Perform(const Calls& calls) {
  AsyncCall& first = *calls.front();
  if (first.kind_ == AsyncCall::Kind::kPresence) {
    if (!client_->Presence(first.keys_, first.pages_, first.counting_))
      first.outcome_ = AsyncCall::Outcome::kUnknown;
    return;
  }
  auto move = [&](std::span<const Key> keys, std::span<const Segment> segments,
                  std::span<uint8_t> ok) {
    if (first.kind_ == AsyncCall::Kind::kSet) {
      client_->Set(keys, segments, first.per_page_, first.tag_, ok);
    } else {
      client_->Get(keys, segments, first.per_page_, ok, first.counting_);
    }
  };
  if (calls.size() == 1) {
    move(first.keys_, first.segments_, first.pages_);
    return;
  }
  std::vector<Key> keys;
  std::vector<Segment> segments;
  for (const auto& call : calls) {
    keys.insert(keys.end(), call->keys_.begin(), call->keys_.end());
    segments.insert(segments.end(), call->segments_.begin(), call->segments_.end());
  }
  std::vector<uint8_t> ok(keys.size());
  move(keys, segments, ok);
  auto from = ok.begin();
  for (const auto& call : calls) {
    std::copy_n(from, call->pages_.size(), call->pages_.begin());
    from += static_cast<std::ptrdiff_t>(call->pages_.size());
  }
}

}  // namespace peercache
