#include "load.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstring>
#include <iostream>
#include <thread>

#include "base/wrong_bytes.h"
#include "measure.h"

namespace peercache::perf {
namespace {

uint64_t Mix(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

Result<MappedRegion> OpenMemory(const std::string& path, size_t bytes) {
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) return FromErrno(fmt::format("opening {} (--host-pool)", path), errno);
  return MappedRegion::Map(std::move(fd), bytes, MapAccess::kReadWrite);
}

// An engine on a node: its connection, and the host pool that the node copies from or to.
struct Engine {
  HostPool pool;
  std::unique_ptr<Client> client;

  static Result<Engine> Connect(const std::string& socket, const Shape& shape) {
    auto pool = HostPool::Create(shape);
    if (!pool.ok()) return pool.status();
    auto client = Client::Connect({.socket = socket, .engine = "perf"});
    if (!client.ok()) return client.status();
    if (Status s = (*client)->state(); !s.ok()) return s;
    const MappedRegion& memory = pool->memory();
    if (Status s = (*client)->RegisterRegion(memory.fd(), memory.data(), memory.size()); !s.ok())
      return s;
    return Engine{std::move(*pool), std::move(*client)};
  }
};

// One engine thread: its part of the keys, and of the host pool of the engine that it belongs to.
class Worker {
 public:
  Worker(const Shape& shape, size_t index, Engine* engine, size_t part)
      : shape_(shape), client_(engine->client.get()), pool_(&engine->pool) {
    keys_ = shape.shared ? shape.pages : shape.pages / shape.threads;
    warm_keys_ = shape.shared ? shape.warm_pages : shape.warm_pages / shape.threads;
    first_ = shape.first_key + (shape.shared ? 0 : index * keys_);
    window_ = std::max(shape.window / shape.threads, shape.batch);
    place_ = part * window_;
  }

  // Set: the pages in the window are content for the first time; they are given the keys of later
  // ones as they come round, so that only an unchecked set may use more keys than the window has.
  void Prepare(Op op) {
    if (op != Op::kSet) return;
    for (size_t i = 0; i < std::min(window_, keys_); ++i) pool_->Fill(place_ + i, first_ + i);
  }

  void Warm(Op op, TimePoint until) {
    Work ignored;
    const size_t all = keys_;
    if (warm_keys_ > 0) keys_ = warm_keys_;
    while (ignored.pages < std::min(window_, keys_) || Clock::now() < until) Step(op, &ignored);
    next_ = 0;
    first_ += warm_keys_;
    keys_ = all - warm_keys_;
  }

  // One call; returns false after the last of a pass.
  bool Step(Op op, Work* work) {
    const size_t count = std::min(shape_.batch, keys_ - next_);
    batch_.resize(count);
    ok_.resize(count);
    segments_.resize(count * shape_.segments);
    if (in_window_ + count > window_) in_window_ = 0;
    for (size_t i = 0; i < count; ++i) {
      batch_[i] = KeyOf(first_ + next_ + i);
      pool_->SegmentsOf(place_ + in_window_ + i,
                        std::span(segments_).subspan(i * shape_.segments, shape_.segments));
    }
    const TimePoint start = Clock::now();
    size_t hits = 0;
    switch (op) {
      case Op::kSet: client_->Set(batch_, segments_, shape_.segments, kTag, ok_); break;
      case Op::kGet: client_->Get(batch_, segments_, shape_.segments, ok_); break;
      case Op::kExists: hits = client_->Exists(batch_); break;
      case Op::kPresence: (void)client_->Presence(batch_, ok_); break;
    }
    work->latencies.push_back(Clock::now() - start);
    if (op != Op::kExists)
      hits = static_cast<size_t>(std::count(ok_.begin(), ok_.end(), uint8_t{1}));
    if (op == Op::kGet && shape_.check) {
      for (size_t i = 0; i < count; ++i)
        work->wrong += ok_[i] && !pool_->Check(place_ + in_window_ + i, first_ + next_ + i);
    }
    ++work->calls;
    work->pages += count;
    work->hits += hits;
    if (op == Op::kSet || op == Op::kGet) work->bytes += hits * shape_.page_bytes;
    in_window_ += count;
    next_ += count;
    if (next_ < keys_) return true;
    next_ = 0;
    return false;
  }

 private:
  const Shape& shape_;
  Client* const client_;
  HostPool* const pool_;
  uint64_t first_ = 0;
  size_t keys_ = 0, warm_keys_ = 0, window_ = 0, place_ = 0;
  size_t next_ = 0, in_window_ = 0;
  std::vector<Key> batch_;
  std::vector<Segment> segments_;
  std::vector<uint8_t> ok_;
};

// Each thread of each engine does its part.
nlohmann::json RunEngines(std::span<Engine> engines, size_t threads_each, Op op,
                          const Shape& shape) {
  std::vector<Work> work(shape.threads);
  std::atomic<bool> stop{false};
  Stopwatch watch(shape.cpu_of);
  // Everyone is prepared; warm-up is over; the measurement is over.
  std::barrier phase(static_cast<std::ptrdiff_t>(shape.threads) + 1);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < shape.threads; ++t) {
    threads.emplace_back([&, t] {
      Worker worker(shape, t, &engines[t / threads_each], t % threads_each);
      worker.Prepare(op);
      work[t].latencies.reserve(1 << 20);
      phase.arrive_and_wait();
      const TimePoint warm = Clock::now() + Duration(static_cast<int64_t>(shape.warmup * 1e9));
      // At least once through the window: the node meets every page of it for the first time.
      if (shape.warmup > 0 || shape.warm_pages > 0) worker.Warm(op, warm);
      phase.arrive_and_wait();
      phase.arrive_and_wait();  // the watch runs
      if (shape.seconds > 0) {
        while (!stop.load(std::memory_order_relaxed)) worker.Step(op, &work[t]);
      } else {
        while (worker.Step(op, &work[t])) {
        }
      }
      phase.arrive_and_wait();
    });
  }
  phase.arrive_and_wait();
  phase.arrive_and_wait();
  watch.Start();
  phase.arrive_and_wait();
  if (shape.seconds > 0) {
    std::this_thread::sleep_for(Duration(static_cast<int64_t>(shape.seconds * 1e9)));
    stop = true;
  }
  phase.arrive_and_wait();
  watch.Stop();
  for (std::thread& t : threads) t.join();
  return watch.Result(work);
}

}  // namespace

Key KeyOf(uint64_t number) {
  Key key;
  for (uint64_t i = 0; i < 4; ++i) {
    const uint64_t word = Mix(number * 4 + i);
    std::memcpy(key.bytes.data() + 8 * i, &word, 8);
  }
  return key;
}

void FillPage(uint64_t number, std::span<std::byte> page) {
  const uint64_t base = Mix(number);
  for (size_t i = 0; i + 8 <= page.size(); i += 8) {
    const uint64_t word = base + i;
    std::memcpy(page.data() + i, &word, 8);
  }
}

Result<MappedRegion> WrittenMemory(const char* name, size_t bytes, HugePages huge_pages) {
  const size_t whole = (bytes + (size_t{2} << 20) - 1) >> 21 << 21;
  auto memory = MappedRegion::Create(name, whole, huge_pages);
  if (memory.ok()) std::memset(memory->data(), 1, memory->size());
  return memory;
}

Result<HostPool> HostPool::Create(const Shape& shape) {
  if (shape.segments == 0 || shape.page_bytes % (8 * shape.segments) != 0) {
    return InvalidArgument(
        fmt::format("a page of {} bytes cannot be cut into {} segments of "
                    "8-byte words; choose a multiple",
                    shape.page_bytes, shape.segments));
  }
  const size_t window = std::max(shape.window / shape.threads, shape.batch) * shape.threads;
  const size_t bytes = window * shape.page_bytes;
  auto memory = shape.host_pool.empty() ? WrittenMemory("host-pool", bytes, shape.huge_pages)
                                        : OpenMemory(shape.host_pool, bytes);
  if (!memory.ok()) return memory.status();
  HostPool pool;
  pool.shape_ = shape;
  pool.shape_.window = window;
  pool.memory_ = std::move(*memory);
  return pool;
}

void HostPool::SegmentsOf(size_t at, std::span<Segment> segments) const {
  const size_t each = shape_.page_bytes / shape_.segments;
  for (size_t s = 0; s < segments.size(); ++s) {
    segments[s] = {reinterpret_cast<uint64_t>(memory_.data()) + (s * shape_.window + at) * each,
                   each};
  }
}

void HostPool::Fill(size_t at, uint64_t number) {
  std::vector<std::byte> page(shape_.page_bytes);
  FillPage(number, page);
  const size_t each = shape_.page_bytes / shape_.segments;
  for (size_t s = 0; s < shape_.segments; ++s)
    std::memcpy(memory_.data() + (s * shape_.window + at) * each, page.data() + s * each, each);
}

bool HostPool::Check(size_t at, uint64_t number) const {
  std::vector<std::byte> page(shape_.page_bytes), want(shape_.page_bytes);
  const size_t each = shape_.page_bytes / shape_.segments;
  for (size_t s = 0; s < shape_.segments; ++s)
    std::memcpy(page.data() + s * each, memory_.data() + (s * shape_.window + at) * each, each);
  FillPage(number, want);
  return HasRightBytes(fmt::format("page {}", number), page, want);
}

Result<nlohmann::json> Clear(const std::string& socket) {
  auto client = Client::Connect({.socket = socket, .engine = "perf"});
  if (!client.ok()) return client.status();
  // A node takes one clear a second from who has made many; measurements make many.
  const TimePoint deadline = Clock::now() + std::chrono::seconds(10);
  for (;;) {
    const Status s = (*client)->Clear(kTag);
    if (s.ok()) return nlohmann::json::object();
    if (s.code() != Code::kResourceExhausted || Clock::now() > deadline) return s;
    std::this_thread::sleep_for(milliseconds(200));
  }
}

Result<Measurement> Drive(const std::string& socket, Op op, const Shape& shape) {
  if (shape.threads == 0 || shape.batch == 0 || shape.pages < shape.threads) {
    return InvalidArgument(fmt::format("threads {}, batch {}, pages {}: each must be at least 1",
                                       shape.threads, shape.batch, shape.pages));
  }
  if (shape.warm_pages % shape.threads != 0 || shape.warm_pages + shape.threads > shape.pages) {
    return InvalidArgument(
        fmt::format("warm-pages {} of {} pages on {} threads: give each thread as many, and leave "
                    "each a page to measure",
                    shape.warm_pages, shape.pages, shape.threads));
  }
  if (op == Op::kSet && shape.check && shape.pages > shape.window) {
    return InvalidArgument("set with --check needs a --window of all --pages");
  }
  // Threads that share pages are engines of their own, as the ranks of a model are.
  Shape each = shape;
  if (shape.shared) {
    each.threads = 1;
    each.window = shape.window / shape.threads;
  }
  auto engines = std::make_shared<std::vector<Engine>>();
  for (size_t t = 0; t < shape.threads / each.threads; ++t) {
    auto engine = Engine::Connect(socket, each);
    if (!engine.ok()) return engine.status();
    engines->push_back(std::move(*engine));
  }
  return Measurement(
      [=, threads = each.threads] { return RunEngines(*engines, threads, op, shape); });
}

Status GetInTurns(const std::string& socket, const Shape& shape) {
  auto engine = Engine::Connect(socket, shape);
  if (!engine.ok()) return engine.status();
  Worker worker(shape, 0, &*engine, 0);
  size_t calls = 0;
  while (std::cin >> calls) {
    Work work;
    const TimePoint start = Clock::now();
    for (size_t i = 0; i < calls; ++i) worker.Step(Op::kGet, &work);
    const std::chrono::duration<double> took = Clock::now() - start;
    if (work.hits != work.pages)
      return Unavailable(
          fmt::format("{} of {} pages are missing", work.pages - work.hits, work.pages));
    fmt::print("{}\n", took.count());
    std::fflush(stdout);
  }
  return {};
}

}  // namespace peercache::perf
