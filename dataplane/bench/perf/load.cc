#include "load.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <fstream>
#include <iostream>
#include <thread>

#include "client/client.h"
#include "engine_memory.h"

namespace peercache::perf {
namespace {

// An engine on a node: its connection, and the memory that the node moves pages from or to.
struct Engine {
  EngineMemory memory;
  std::unique_ptr<Client> client;

  static Result<Engine> Connect(const std::string& socket, const Shape& shape) {
    auto memory = EngineMemory::Create(shape);
    if (!memory.ok()) return memory.status();
    auto client = Client::Connect({.socket = socket, .engine = "perf"});
    if (!client.ok()) return client.status();
    if (Status s = (*client)->state(); !s.ok()) return s;
    if (Status s = memory->Share(client->get()); !s.ok()) return s;
    return Engine{std::move(*memory), std::move(*client)};
  }
};

// One engine thread: its part of the keys, and of the memory of the engine that it belongs to.
class Worker {
 public:
  Worker(const Shape& shape, size_t index, Engine* engine, size_t part)
      : shape_(shape), client_(engine->client.get()), memory_(&engine->memory) {
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
    for (size_t i = 0; i < std::min(window_, keys_); ++i) memory_->Fill(place_ + i, first_ + i);
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
      const size_t number = first_ + next_ + i;
      batch_[i] = shape_.keys.empty() ? KeyOf(number) : shape_.keys[number];
      memory_->SegmentsOf(place_ + in_window_ + i,
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
        work->wrong += ok_[i] && !memory_->Check(place_ + in_window_ + i, first_ + next_ + i);
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
  EngineMemory* const memory_;
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

Status GetInTurns(const std::string& socket, const std::string& keys, Shape shape) {
  auto engine = Engine::Connect(socket, shape);
  if (!engine.ok()) return engine.status();
  if (!keys.empty()) {
    std::ifstream file(keys, std::ios::binary);
    shape.keys.resize(shape.pages);
    if (!file.read(reinterpret_cast<char*>(shape.keys.data()),
                   static_cast<std::streamsize>(shape.pages * sizeof(Key))))
      return InvalidArgument(fmt::format("{} (--keys) does not have {} keys of {} bytes", keys,
                                         shape.pages, sizeof(Key)));
  }
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
