#include "async.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "client/async_client.h"
#include "engine_memory.h"
#include "measure.h"

namespace peercache::perf {
namespace {

// A round that is not over by then is stuck: blocking calls are bounded to a second or two each.
constexpr milliseconds kRoundLimit{60'000};

// Rounds of N requests over the keys and places of the memory, in turn.
class Rounds {
 public:
  Rounds(const Shape& shape, Op op, Client* client, AsyncClient* async, bool batch,
         EngineMemory* memory)
      : shape_(shape), op_(op), client_(client), async_(async), batch_(batch), memory_(memory) {
    window_ = std::max(shape.window, shape.batch);
    if (op == Op::kSet) {
      for (size_t i = 0; i < std::min(window_, shape.pages); ++i)
        memory_->Fill(i, shape.first_key + i);
    }
  }

  // One round; false after the last of a pass.
  Result<bool> Step(Work* work) {
    const size_t count = std::min(shape_.batch, shape_.pages - next_);
    if (place_ + count > window_) place_ = 0;
    keys_.resize(count);
    ok_.assign(count, 0);
    segments_.resize(count * shape_.segments);
    for (size_t i = 0; i < count; ++i) {
      keys_[i] = KeyOf(shape_.first_key + next_ + i);
      memory_->SegmentsOf(place_ + i, SegmentsOf(i));
    }
    const TimePoint start = Clock::now();
    if (Status s = async_ ? Submitted() : Blocking(); !s.ok()) return s;
    work->latencies.push_back(Clock::now() - start);
    const auto hits = static_cast<size_t>(std::count(ok_.begin(), ok_.end(), uint8_t{1}));
    if (op_ == Op::kGet && shape_.check) {
      for (size_t i = 0; i < count; ++i)
        work->wrong += ok_[i] && !memory_->Check(place_ + i, shape_.first_key + next_ + i);
    }
    ++work->calls;
    work->pages += count;
    work->hits += hits;
    work->bytes += hits * shape_.page_bytes;
    place_ += count;
    next_ += count;
    if (next_ < shape_.pages) return true;
    next_ = 0;
    return false;
  }

 private:
  std::span<Segment> SegmentsOf(size_t page) {
    return std::span(segments_).subspan(page * shape_.segments, shape_.segments);
  }

  Status Blocking() {
    const size_t step = batch_ ? keys_.size() : 1;
    for (size_t i = 0; i < keys_.size(); i += step) {
      const auto keys = std::span(keys_).subspan(i, step);
      const auto segments =
          std::span(segments_).subspan(i * shape_.segments, step * shape_.segments);
      const auto ok = std::span(ok_).subspan(i, step);
      if (op_ == Op::kSet) {
        client_->Set(keys, segments, shape_.segments, kTag, ok);
      } else {
        client_->Get(keys, segments, shape_.segments, ok);
      }
    }
    return {};
  }

  Status Submitted() {
    calls_.clear();
    for (size_t i = 0; i < keys_.size(); ++i) {
      const auto key = std::span(keys_).subspan(i, 1);
      auto call = op_ == Op::kSet ? async_->Set(key, SegmentsOf(i), shape_.segments, kTag)
                                  : async_->Get(key, SegmentsOf(i), shape_.segments);
      if (!call.ok()) return call.status();
      calls_.push_back(std::move(*call));
    }
    const TimePoint deadline = Clock::now() + kRoundLimit;
    for (size_t i = 0; i < calls_.size(); ++i) {
      if (!calls_[i]->WaitUntil(deadline)) return DeadlineExceeded("a request was never answered");
      ok_[i] = calls_[i]->pages().at(0);
    }
    return {};
  }

  const Shape& shape_;
  const Op op_;
  Client* const client_;
  AsyncClient* const async_;  // null: blocking calls
  const bool batch_;
  EngineMemory* const memory_;
  size_t window_ = 0;
  size_t next_ = 0, place_ = 0;
  std::vector<Key> keys_;
  std::vector<Segment> segments_;
  std::vector<uint8_t> ok_;
  std::vector<AsyncClient::Call> calls_;
};

Status Run(Rounds* rounds, double seconds, Work* work) {
  const TimePoint end = Clock::now() + Duration(static_cast<int64_t>(seconds * 1e9));
  for (;;) {
    auto more = rounds->Step(work);
    if (!more.ok()) return more.status();
    if (seconds > 0 ? Clock::now() >= end : !*more) return {};
  }
}

}  // namespace

Result<AsyncMode> ParseAsyncMode(const std::string& name) {
  if (name == "sync") return AsyncMode::kSync;
  if (name == "async") return AsyncMode::kAsync;
  if (name == "batch") return AsyncMode::kBatch;
  return InvalidArgument(fmt::format("mode \"{}\": choose sync, async or batch", name));
}

Result<nlohmann::json> Async(const std::string& socket, Op op, AsyncMode mode, size_t window,
                             const Shape& shape) {
  if ((op != Op::kSet && op != Op::kGet) || shape.batch == 0 || shape.pages == 0 ||
      shape.threads != 1) {
    return InvalidArgument(
        fmt::format("async: set or get, one thread (not {}), batch {} and pages {} at least 1",
                    shape.threads, shape.batch, shape.pages));
  }
  auto memory = EngineMemory::Create(shape);
  if (!memory.ok()) return memory.status();
  auto connected = Client::Connect({.socket = socket, .engine = "perf"});
  if (!connected.ok()) return connected.status();
  if (Status s = (*connected)->state(); !s.ok()) return s;
  const std::shared_ptr<Client> client = std::move(*connected);
  if (Status s = memory->Share(client.get()); !s.ok()) return s;
  std::optional<AsyncClient> async;
  if (mode == AsyncMode::kAsync)
    async.emplace(client, AsyncOptions{.window = window, .max_pending = shape.batch});

  Rounds rounds(shape, op, client.get(), async ? &*async : nullptr, mode == AsyncMode::kBatch,
                &*memory);
  Work warm, work;
  if (shape.warmup > 0) {
    if (Status s = Run(&rounds, shape.warmup, &warm); !s.ok()) return s;
  }
  Stopwatch watch(shape.cpu_of);
  watch.Start();
  if (Status s = Run(&rounds, shape.seconds, &work); !s.ok()) return s;
  watch.Stop();
  return watch.Result({&work, 1});
}

}  // namespace peercache::perf
