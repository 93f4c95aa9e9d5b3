#include "rdma.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "base/memory.h"
#include "measure.h"
#include "pool/slot_header.h"
#include "transport/peer_service.h"
#include "transport/rdma/acceptor.h"
#include "transport/rdma/find_rails.h"
#include "transport/rdma/read_channel.h"
#include "transport/rdma/run_reads.h"
#include "transport/tcp/channel.h"
#include "transport/tcp/server.h"
#include "window.h"

namespace peercache::perf {
namespace {

using std::chrono::seconds;

constexpr char kCluster[] = "rdma-read";
constexpr uint64_t kGeneration = 1;

size_t WholePages(size_t bytes, size_t of = 4096) { return (bytes + of - 1) / of * of; }

// Memory of the pages that were asked for.
Result<std::shared_ptr<MappedRegion>> Memory(const char* name, size_t bytes, HugePages huge) {
  // Huge pages are whole.
  auto region = MappedRegion::Create(name, WholePages(bytes, size_t{2} << 20), huge);
  if (!region.ok()) return region.status();
  return std::make_shared<MappedRegion>(std::move(*region));
}

Result<std::unique_ptr<rdma::Rails>> OpenRails(const RdmaShape& shape) {
  const auto rails = rdma::FindRails(shape.devices, shape.gid);
  if (!rails.ok()) return rails.status().Annotate("--devices");
  if (Status s = rdma::AnyUsable(*rails); !s.ok()) return s.Annotate("--devices");
  return rdma::Rails::Open(*rails, shape.link);
}

// Of the pool.
uint64_t Slots(const RdmaShape& shape) {
  return std::max<uint64_t>(shape.pool_bytes / shape.bytes, shape.batch);
}

// A pool of slots that are all of the same size, and who may read it.
class Service : public PeerService {
 public:
  static Result<std::unique_ptr<Service>> Make(const rdma::Rails* rails, const RdmaShape& shape) {
    auto made_memory = Memory("pool", shape.bytes * Slots(shape), shape.huge_pages);
    if (!made_memory.ok()) return made_memory.status();
    const std::shared_ptr<MappedRegion> memory = std::move(*made_memory);
    for (uint64_t i = 0; i < Slots(shape); ++i) {
      SlotHeader header;
      header.length = shape.bytes - static_cast<uint32_t>(sizeof(header));
      header.generation = kGeneration;
      std::memcpy(memory->data() + i * shape.bytes, &header, sizeof(header));
    }
    auto service = std::unique_ptr<Service>(new Service());
    const auto made = service->registered_.Register("pool", memory->bytes(), *rails,
                                                    rdma::Registration::For::kRemoteRead, memory);
    if (!made.ok()) return made.status();
    service->acceptor_ =
        std::make_unique<rdma::Acceptor>(rails, &service->registered_, memory->bytes(), 1024);
    return service;
  }
  Status OnHello(const Hello& hello, Greeting* answer) override {
    if (hello.cluster != kCluster) return {Code::kUnauthenticated, "this serves rdma-read only"};
    *answer = {{1, 1}};
    return {};
  }
  Status OnRequest(const FrameHeader& header, FrameReader body, PeerAnswer* answer) override {
    ConnectRequest request;
    if (header.type != MessageType::kConnect || !request.Decode(&body))
      return Corrupt("only Connect here");
    ConnectOk ok;
    auto queues = acceptor_->Accept(request, &ok);
    if (!queues.ok()) return queues.status();
    answer->Start(MessageType::kConnectOk, header.request_id);
    answer->lent = std::move(*queues);
    ok.Encode(&answer->frame);
    connected = true;
    return {};
  }
  uint32_t queues() const { return acceptor_->stats().queues; }

  std::atomic<bool> connected{false};

 private:
  rdma::RegisteredMemory registered_;
  std::unique_ptr<rdma::Acceptor> acceptor_;
};

Status CheckShape(const RdmaShape& shape) {
  if (shape.bytes > sizeof(SlotHeader) && shape.batch > 0 && shape.batch <= 4096 &&
      shape.threads > 0 && shape.threads <= 256)
    return {};
  return InvalidArgument(
      fmt::format("--bytes {} --batch {} --threads {}: give more than {} bytes, a batch from 1 to "
                  "4096, and 1 to 256 threads",
                  shape.bytes, shape.batch, shape.threads, sizeof(SlotHeader)));
}

}  // namespace

Result<nlohmann::json> RdmaServe(const RdmaShape& shape) {
  if (Status s = CheckShape(shape); !s.ok()) return s;
  auto rails = OpenRails(shape);
  if (!rails.ok()) return rails.status();
  auto service = Service::Make(rails->get(), shape);
  if (!service.ok()) return service.status();
  auto listener = Listen("0.0.0.0", shape.port);
  if (!listener.ok()) return listener.status().Annotate("--port");
  Stopwatch watch({});
  watch.Start();
  {
    TcpServer server(std::move(*listener), service->get(), {.threads = 1});
    while (!(*service)->connected || (*service)->queues() > 0)
      std::this_thread::sleep_for(milliseconds(20));
  }
  watch.Stop();
  return watch.Result({});
}

namespace {

constexpr Duration kStall = seconds(5);
constexpr char kNothingComes[] =
    "no rail brought a READ within 5 s: look at what both ends discard (docs/rdma.md)";

struct Connection {
  std::unique_ptr<Channel> control;
  std::unique_ptr<rdma::ReadChannel> channel;  // or
  std::unique_ptr<Window> window;

  size_t queues() const { return window ? window->queues() : channel->queues(); }
  size_t rails() const {
    return window ? window->rails() : static_cast<size_t>(std::popcount(channel->working_rails()));
  }
};

// What the peer answers to that.
Result<ConnectOk> Ask(Channel* control, const ConnectRequest& request) {
  FrameWriter frame;
  frame.Start(MessageType::kConnect, 1);
  request.Encode(&frame);
  frame.Finish();
  ConnectOk answer;
  do {
    std::this_thread::sleep_for(milliseconds(1));
    control->Begin(frame.bytes(), nullptr, Clock::now());
    RunAll({&control, 1}, {seconds(5), Clock::now() + seconds(5)});
    if (!control->status().ok()) return control->status();
    FrameReader body = control->body();
    if (!answer.Decode(&body)) return Corrupt("malformed ConnectOk");
  } while (answer.later);
  return answer;
}

Result<Connection> Connect(const rdma::Rails& rails, const RdmaShape& shape) {
  Connection made;
  made.control =
      std::make_unique<Channel>(PeerAddress{shape.host, shape.port}, Hello{kCluster, "", 2, 1});
  if (shape.window) {
    auto window = Window::Make(rails);
    if (!window.ok()) return window.status();
    made.window = std::move(*window);
    const auto answer = Ask(made.control.get(), made.window->request());
    if (!answer.ok()) return answer.status();
    if (Status s = made.window->Connect(*answer); !s.ok()) return s;
    return made;
  }
  auto channel = rdma::ReadChannel::Make(rails, ~0u);
  if (!channel.ok()) return channel.status();
  made.channel = std::move(*channel);
  const auto answer = Ask(made.control.get(), made.channel->request());
  if (!answer.ok()) return answer.status();
  if (Status s = made.channel->Establish(*answer, Clock::now() + seconds(5)); !s.ok()) return s;
  return made;
}

// A rail whose peer's address is not resolved yet is passed over: nodes connect anew beside their
// calls, this does so before it measures. The one before lives until then, or the other end would
// go.
Result<Connection> ConnectAll(const rdma::Rails& rails, const RdmaShape& shape) {
  constexpr int kTries = 10;
  auto connection = Connect(rails, shape);
  for (int i = 1; i < kTries && connection.ok() && connection->queues() < rails.queues(); ++i) {
    std::this_thread::sleep_for(milliseconds(100));
    auto next = Connect(rails, shape);
    connection = std::move(next);
  }
  return connection;
}

// One thread's link, and where its pages land.
class Reader {
 public:
  static Result<std::unique_ptr<Reader>> Make(const rdma::Rails& rails, const RdmaShape& shape,
                                              uint32_t seed) {
    auto reader = std::unique_ptr<Reader>(new Reader(shape, seed));
    const size_t count = reader->pages_.size();
    const size_t headers_bytes = WholePages(2 * count * sizeof(SlotHeader));
    auto memory = Memory("pages", headers_bytes + size_t{shape.bytes} * count, shape.huge_pages);
    if (!memory.ok()) return memory.status();
    auto registered = rdma::Registration::Make("pages", (*memory)->bytes(), rails,
                                               rdma::Registration::For::kLocalWrite, *memory, {});
    if (!registered.ok()) return registered.status();
    reader->ranges_ = {*registered};
    reader->headers_ = {reinterpret_cast<SlotHeader*>((*memory)->data()), 2 * count};
    const auto length = static_cast<uint32_t>(shape.bytes - sizeof(SlotHeader));
    for (size_t i = 0; i < count; ++i) {
      reader->to_[i] = (*memory)->bytes().subspan(headers_bytes + i * shape.bytes, length);
      reader->pages_[i] = {.key = {},
                           .offset = 0,
                           .generation = kGeneration,
                           .length = length,
                           .to = std::span(&reader->to_[i], 1)};
    }
    auto connection = ConnectAll(rails, shape);
    if (!connection.ok()) return connection.status();
    reader->connection_ = std::move(*connection);
    if (reader->connection_.window) {
      reader->connection_.window->Use(reader->pages_, &reader->ranges_, reader->headers_,
                                      [r = reader.get()](rdma::PageRead* page) { r->Renew(page); });
    }
    if (Status s = reader->Read(1); !s.ok()) return s;  // touches everything
    reader->work = {};
    return reader;
  }

  // So many at least, in whole batches.
  Status Read(uint64_t reads) {
    const uint64_t batches = (reads + shape_.batch - 1) / shape_.batch;
    if (connection_.window) return ThroughWindow(batches * shape_.batch);
    for (uint64_t i = 0; i < batches; ++i)
      if (Status s = Batch(); !s.ok()) return s;
    return {};
  }
  const Connection& connection() const { return connection_; }

  Work work;
  Status status;

 private:
  void Renew(rdma::PageRead* page) {
    const uint64_t slots = Slots(shape_);
    const auto number = static_cast<uint64_t>(page - pages_.data());
    page->offset = (slots == shape_.batch ? number : random_()) % slots * shape_.bytes;
  }

  Status ThroughWindow(uint64_t reads) {
    Window* const window = connection_.window.get();
    TimePoint moved = Clock::now();
    for (window->Begin(reads); !window->done();) {
      const TimePoint now = Clock::now();
      if (window->Advance()) {
        moved = now;
      } else if (now - moved > kStall) {
        return Unavailable(kNothingComes);
      } else if (now - moved > std::chrono::microseconds(shape_.spin_us)) {
        window->Sleep();
      }
    }
    if (!window->status().ok()) return window->status();
    std::swap(work.latencies, window->took());
    Count(reads);
    return {};
  }

  Status Batch() {
    for (rdma::PageRead& page : pages_) Renew(&page);
    const TimePoint start = Clock::now();
    rdma::ReadChannel* const channel = connection_.channel.get();
    channel->Begin(pages_, ranges_, headers_, states_, kStall, start);
    const rdma::RunningRead running{channel, connection_.control->fd()};
    rdma::RunReads({&running, 1}, {start + seconds(30), std::chrono::microseconds(shape_.spin_us)});
    for (const rdma::PageState state : states_) {
      if (state == rdma::PageState::kRead) continue;
      return Unavailable(
          state == rdma::PageState::kStale
              ? "a READ found another page than it asked for: give both sides the same flags"
              : kNothingComes);
    }
    work.latencies.push_back(Clock::now() - start);
    Count(shape_.batch);
    return {};
  }
  void Count(uint64_t reads) {
    work.calls += reads / shape_.batch;
    work.pages += reads;
    work.hits += reads;
    work.bytes += reads * shape_.bytes;
  }

  Reader(const RdmaShape& shape, uint32_t seed)
      : shape_(shape),
        random_(seed),
        to_(shape.window ? 2 * shape.batch : shape.batch),
        pages_(to_.size()),
        states_(to_.size()) {}
  const RdmaShape shape_;
  std::minstd_rand random_;
  rdma::RegisteredMemory::Ranges ranges_;
  std::span<SlotHeader> headers_;
  std::vector<Bytes> to_;
  std::vector<rdma::PageRead> pages_;
  std::vector<rdma::PageState> states_;
  Connection connection_;
};

}  // namespace

Result<nlohmann::json> RdmaRead(const RdmaShape& shape) {
  if (Status s = CheckShape(shape); !s.ok()) return s;
  auto rails = OpenRails(shape);
  if (!rails.ok()) return rails.status();
  std::vector<std::unique_ptr<Reader>> readers;
  for (uint32_t t = 0; t < shape.threads; ++t) {
    auto reader = Reader::Make(**rails, shape, t + 1);
    if (!reader.ok()) return reader.status();
    readers.push_back(std::move(*reader));
  }
  const uint64_t each = (shape.reads + shape.threads - 1) / shape.threads;
  Stopwatch watch({});
  watch.Start();
  {
    std::vector<std::jthread> threads;
    for (const auto& reader : readers) {
      threads.emplace_back([r = reader.get(), each] { r->status = r->Read(each); });
    }
  }
  watch.Stop();
  std::vector<Work> works;
  for (const auto& reader : readers) {
    if (!reader->status.ok()) return reader->status;
    works.push_back(std::move(reader->work));
  }
  auto result = watch.Result(works);
  result["rails"] = readers.front()->connection().rails();
  result["queues"] = readers.front()->connection().queues();
  return result;
}

}  // namespace peercache::perf
