// ReadChannel, against a holder that lies about its queue pairs and its pool, and over a device
// whose READs fail when the holder likes.
//
// An input is a script. Operations:
//   0  lies of the next ConnectOk (RdmaWorld::Lie)
//   1  the next ConnectOk is these bytes
//   2  bytes of the holder's memory: at `argument` * 512 of its pool
//   3  how READs behave: so many come before one fails (2 bytes), how (1), bytes that are fetched
//      early (2); with `argument` 1 none ends at all
//   4  connects, if there is no connection, and reads a batch: lies about records (RdmaWorld::Read)
//   5  the connection ends
// Batches end, nothing lands outside of their pages or after they have ended, and what counts as
// read is the page that was asked for, as the holder has it.

#include <algorithm>
#include <cstring>

#include "fuzz.h"
#include "rdma_world.h"

namespace peercache::fuzz {
namespace {

Reached refused("answers refused"), unconnected("channels without a queue"),
    dead("probes that brought nothing"), read("pages read"), stale("pages stale"),
    failed("pages failed"), halved("pages read over the other rail"), all_lost("all queues lost");

constexpr size_t kMostBatches = 4;

struct Connection {
  rdma::Acceptor::Queues queues;
  ConnectOk answer;
  std::unique_ptr<rdma::ReadChannel> channel;
};

// Null where the answer is of no use.
std::unique_ptr<Connection> Connect(const Step& how) {
  RdmaWorld& world = RdmaWorld::Get();
  auto made = rdma::ReadChannel::Make(world.rails(), ~0u);
  Require(made.ok(), "the rails are up");
  auto connection = std::make_unique<Connection>();
  connection->channel = std::move(*made);
  ConnectOk& answer = connection->answer;
  answer = world.RightAnswer(connection->channel->request(), &connection->queues);
  bool travels;
  if (how.operation == 1) {
    FrameReader reader(AsBytes(how.bytes));
    travels = answer.Decode(&reader);
  } else {
    RdmaWorld::Lie(how.bytes, &answer);
    travels = RdmaWorld::Travels(&answer);
  }
  if (!travels || answer.later) {
    refused.Hit();
    return nullptr;
  }
  if (!connection->channel->Establish(answer, Clock::now() + std::chrono::seconds(5)).ok()) {
    unconnected.Hit();
    return nullptr;
  }
  if (!connection->channel
           ->Probe(std::as_writable_bytes(world.headers()), *world.registered().ranges(),
                   Clock::now() + milliseconds(200))
           .ok()) {
    dead.Hit();
    return nullptr;
  }
  return connection;
}

void Behave(const Step& step) {
  rdma::FakeVerbs& fake = RdmaWorld::Get().fake();
  fake.brings = step.argument != 1;
  if (step.bytes.size() < 5) return;
  const auto word = [&](size_t at) { return step.bytes[at] | uint64_t{step.bytes[at + 1]} << 8; };
  fake.good_reads = word(0);
  fake.then = static_cast<ibv_wc_status>(IBV_WC_LOC_LEN_ERR + step.bytes[2] % IBV_WC_GENERAL_ERR);
  fake.early_bytes = word(3);
}

void Run(Input input) {
  RdmaWorld& world = RdmaWorld::Get();
  world.Restore();
  std::unique_ptr<Connection> connection;
  Step next_answer, step;
  Script script(input);
  for (size_t batches = 0; batches < kMostBatches && script.Next(&step);) {
    switch (step.operation % 6) {
      case 0:
      case 1:
        next_answer = step;
        next_answer.operation %= 6;
        break;
      case 2: {
        const auto at = world.pool().subspan(
            std::min<size_t>(size_t{step.argument} * 512, world.pool().size()));
        std::memcpy(at.data(), step.bytes.data(), std::min(step.bytes.size(), at.size()));
        break;
      }
      case 3: Behave(step); break;
      case 4: {
        ++batches;
        if (!connection) connection = Connect(next_answer);
        if (!connection) break;
        const auto got = world.Read(connection->channel.get(), connection->answer.pool, step.bytes);
        if (got.read > 0) read.Hit();
        if (got.stale > 0) stale.Hit();
        if (got.failed > 0) failed.Hit();
        if (connection->channel->queues() == 1 && got.read == RdmaWorld::kPages) halved.Hit();
        if (connection->channel->queues() == 0) all_lost.Hit();
        break;
      }
      case 5: connection.reset(); break;
    }
  }
  connection.reset();
  world.rails().Drain();
}

}  // namespace
}  // namespace peercache::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace peercache::fuzz;
  SetUp();
  Run({data, size});
  return 0;
}
