#include "rdma.h"

#include <fmt/format.h>

#include <atomic>
#include <cstring>
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

namespace peercache::perf {
namespace {

using std::chrono::seconds;

constexpr char kCluster[] = "rdma-read";
constexpr uint64_t kGeneration = 1;

size_t WholePages(size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

Result<std::unique_ptr<rdma::Rails>> OpenRails(const std::string& names) {
  const auto rails = rdma::FindRails(names, "auto");
  if (!rails.ok()) return rails.status().Annotate("--devices");
  if (Status s = rdma::AnyUsable(*rails); !s.ok()) return s.Annotate("--devices");
  return rdma::Rails::Open(*rails, {});
}

// A pool of `batch` slots, all of the same size, and who may read it.
class Service : public PeerService {
 public:
  static Result<std::unique_ptr<Service>> Make(const rdma::Rails* rails, const RdmaShape& shape) {
    auto region = MappedRegion::Create("pool", WholePages(size_t{shape.bytes} * shape.batch),
                                       HugePages::kOff);
    if (!region.ok()) return region.status();
    auto memory = std::make_shared<MappedRegion>(std::move(*region));
    for (uint32_t i = 0; i < shape.batch; ++i) {
      SlotHeader header;
      header.length = shape.bytes - static_cast<uint32_t>(sizeof(header));
      header.generation = kGeneration;
      std::memcpy(memory->data() + size_t{i} * shape.bytes, &header, sizeof(header));
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
  if (shape.bytes > sizeof(SlotHeader) && shape.batch > 0 && shape.batch <= 4096) return {};
  return InvalidArgument(
      fmt::format("--bytes {} --batch {}: give more than {} bytes, and a batch "
                  "from 1 to 4096",
                  shape.bytes, shape.batch, sizeof(SlotHeader)));
}

}  // namespace

Result<nlohmann::json> RdmaServe(const RdmaShape& shape) {
  if (Status s = CheckShape(shape); !s.ok()) return s;
  auto rails = OpenRails(shape.devices);
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

struct Connection {
  std::unique_ptr<Channel> control;
  std::unique_ptr<rdma::ReadChannel> channel;
};

Result<Connection> Connect(const rdma::Rails& rails, const RdmaShape& shape) {
  auto channel = rdma::ReadChannel::Make(rails, ~0u);
  if (!channel.ok()) return channel.status();
  auto control =
      std::make_unique<Channel>(PeerAddress{shape.host, shape.port}, Hello{kCluster, "", 2, 1});
  FrameWriter frame;
  frame.Start(MessageType::kConnect, 1);
  (*channel)->request().Encode(&frame);
  frame.Finish();
  Channel* const one = control.get();
  ConnectOk answer;
  do {
    std::this_thread::sleep_for(milliseconds(1));
    control->Begin(frame.bytes(), nullptr, Clock::now());
    RunAll({&one, 1}, {seconds(5), Clock::now() + seconds(5)});
    if (!control->status().ok()) return control->status();
    FrameReader body = control->body();
    if (!answer.Decode(&body)) return Corrupt("malformed ConnectOk");
  } while (answer.later);
  if (Status s = (*channel)->Establish(answer, Clock::now() + seconds(5)); !s.ok()) return s;
  return Connection{std::move(control), std::move(*channel)};
}

// A rail whose peer's address is not resolved yet is passed over: nodes connect anew beside their
// calls, this does so before it measures. The one before lives until then, or the other end would
// go.
Result<Connection> ConnectAll(const rdma::Rails& rails, const RdmaShape& shape) {
  constexpr int kTries = 10;
  auto connection = Connect(rails, shape);
  for (int i = 1; i < kTries && connection.ok() && connection->channel->queues() < rails.size();
       ++i) {
    std::this_thread::sleep_for(milliseconds(100));
    auto next = Connect(rails, shape);
    connection = std::move(next);
  }
  return connection;
}

}  // namespace

Result<nlohmann::json> RdmaRead(const RdmaShape& shape) {
  if (Status s = CheckShape(shape); !s.ok()) return s;
  auto rails = OpenRails(shape.devices);
  if (!rails.ok()) return rails.status();
  const size_t headers_bytes = WholePages(2 * shape.batch * sizeof(SlotHeader));
  auto region = MappedRegion::Create(
      "pages", headers_bytes + WholePages(size_t{shape.bytes} * shape.batch), HugePages::kOff);
  if (!region.ok()) return region.status();
  auto memory = std::make_shared<MappedRegion>(std::move(*region));
  auto registered = rdma::Registration::Make("pages", memory->bytes(), **rails,
                                             rdma::Registration::For::kLocalWrite, memory, {});
  if (!registered.ok()) return registered.status();
  const rdma::RegisteredMemory::Ranges ranges{*registered};
  const std::span headers(reinterpret_cast<SlotHeader*>(memory->data()), 2 * shape.batch);

  auto connection = ConnectAll(**rails, shape);
  if (!connection.ok()) return connection.status();
  rdma::ReadChannel* const channel = connection->channel.get();

  const auto length = static_cast<uint32_t>(shape.bytes - sizeof(SlotHeader));
  std::vector<Bytes> to(shape.batch);
  std::vector<rdma::PageRead> pages(shape.batch);
  for (uint32_t i = 0; i < shape.batch; ++i) {
    to[i] = memory->bytes().subspan(headers_bytes + size_t{i} * shape.bytes, length);
    pages[i] = {Key(), uint64_t{i} * shape.bytes, kGeneration, length, std::span(&to[i], 1)};
  }
  std::vector<rdma::PageState> states(shape.batch);
  Work work;
  const auto once = [&]() -> Status {
    const TimePoint start = Clock::now();
    channel->Begin(pages, ranges, headers, states, seconds(5), start);
    const rdma::RunningRead running{channel, connection->control->fd()};
    rdma::RunReads({&running, 1}, {start + seconds(30), std::chrono::microseconds(shape.spin_us)});
    for (const rdma::PageState state : states) {
      if (state == rdma::PageState::kRead) continue;
      return Unavailable(
          fmt::format("a READ ended in state {}: do both sides have the same "
                      "--bytes and --batch?",
                      static_cast<int>(state)));
    }
    work.latencies.push_back(Clock::now() - start);
    ++work.calls;
    work.pages += shape.batch;
    work.hits += shape.batch;
    work.bytes += uint64_t{shape.bytes} * shape.batch;
    return {};
  };
  if (Status s = once(); !s.ok()) return s;  // the first touches everything
  work = {};
  Stopwatch watch({});
  watch.Start();
  while (work.pages < shape.reads)
    if (Status s = once(); !s.ok()) return s;
  watch.Stop();
  auto result = watch.Result({&work, 1});
  result["rails"] = channel->queues();
  return result;
}

}  // namespace peercache::perf
