// Links, against a peer that answers Connect as it likes, over TCP, and READs over what it offered.
//
// An input is a script of what the peer says on one connection after another, and what becomes of
// the links. Operations:
//   0  raw bytes
//   1  the right HelloOk: edits to header and body
//   2  the right ConnectOk: lies (RdmaWorld::Lie); with `argument` 1 as they are, without a look
//      whether they decode
//   3  a frame of type `argument`: body
//   4  the next connection
//   5  how READs behave: so many come before one fails (1 byte)
// A link is given only with a queue that works, batches over it end, and all that was made for
// links is gone with them.

#include <algorithm>
#include <memory>
#include <thread>

#include "fuzz.h"
#include "node/rails/links.h"
#include "rdma_world.h"
#include "scripted_server.h"
#include "transport/tcp/socket.h"

namespace peercache::fuzz {
namespace {

Reached made("links made"), none("links that could not be made"), read("pages read"),
    failed("pages failed"), kept("links used again");

constexpr uint64_t kIncarnation = 7;
// The peer ends a connection that it has nothing more for long before.
constexpr Duration kConnect = std::chrono::seconds(5);

struct Server {
  static Server& Get() {
    static auto* const server = new Server;  // its thread runs until the process ends
    return *server;
  }
  Server() {
    auto listener = Listen("127.0.0.1", 0);
    Require(listener.ok(), "the peer listens");
    peer.id = "peer";
    peer.incarnation = kIncarnation;
    peer.host = "127.0.0.1";
    peer.peer_port = listener->port;
    scripted = std::make_unique<ScriptedServer>(std::move(listener->fd),
                                                ScriptedServer::Afterwards::kStay);
  }
  Member peer;
  std::unique_ptr<ScriptedServer> scripted;
};

// What the peer says. Its queue pairs are those of a channel that nobody READs over, as it does not
// listen; the fake device looks at keys and addresses alone.
struct Said {
  std::vector<Blob> connections = std::vector<Blob>(1);
  uint64_t good_reads = rdma::FakeVerbs::kAll;

  void Append(ConstBytes bytes) {
    const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
    connections.back().insert(connections.back().end(), data, data + bytes.size());
  }
  template <typename Message>
  void AppendFrame(MessageType type, uint64_t id, const Message& message, Input edits) {
    FrameWriter writer;
    writer.Start(type, id);
    message.Encode(&writer);
    const auto frame = writer.Finish(0);
    std::vector<std::byte> bytes(frame.begin(), frame.end());
    ApplyEdits(edits, bytes);
    Append(bytes);
  }
};

Said Read(Input input) {
  RdmaWorld& world = RdmaWorld::Get();
  rdma::Acceptor::Queues queues;
  auto channel = rdma::ReadChannel::Make(world.rails(), ~0u);
  Require(channel.ok(), "the rails are up");
  const ConnectOk right = world.RightAnswer((*channel)->request(), &queues);
  Said said;
  Script script(input);
  Step step;
  for (int steps = 0; steps < 32 && script.Next(&step); ++steps) {
    switch (step.operation % 6) {
      case 0: said.Append(AsBytes(step.bytes)); break;
      case 1:
        said.AppendFrame(MessageType::kHelloOk, 0,
                         HelloOk{NodeHash(Server::Get().peer.id), kIncarnation}, step.bytes);
        break;
      case 2: {
        ConnectOk answer = right;
        RdmaWorld::Lie(step.bytes, &answer);
        if (step.argument != 1) (void)RdmaWorld::Travels(&answer);
        said.AppendFrame(MessageType::kConnectOk, 1, answer, {});
        break;
      }
      case 3: {
        FrameHeader header;
        header.type = static_cast<MessageType>(step.argument);
        header.request_id = 1;
        header.body_length = static_cast<uint32_t>(step.bytes.size());
        said.Append(std::as_bytes(std::span(&header, 1)));
        said.Append(AsBytes(step.bytes));
        break;
      }
      case 4: said.connections.emplace_back(); break;
      case 5:
        if (!step.bytes.empty()) said.good_reads = step.bytes[0];
        break;
    }
  }
  return said;
}

void Run(Input input) {
  RdmaWorld& world = RdmaWorld::Get();
  world.Restore();
  const Said said = Read(input);
  Server& server = Server::Get();
  server.scripted->Answer(said.connections);
  world.fake().good_reads = said.good_reads;

  const auto secret = Secret::None();
  Peers peers(Hello{"fuzz", "", NodeHash("self"), 1}, secret.get(), OwnerTimes{});
  View view;
  view.members = {server.peer};
  view.by_node = {{NodeHash(server.peer.id), 0}};
  peers.Update(view);
  const PeerRef peer = peers.Find(NodeHash(server.peer.id));
  {
    LinkOptions options;
    options.connect = kConnect;
    Links links(options, &world.rails(), &peers, world.header_memory(), &world.registered());
    bool before = false;
    for (int call = 0; call < 3; ++call) {
      auto link = links.Take(peer, Clock::now());
      // It waits for a moment only, where the link is made or has failed at some time.
      while (!link && links.stats().failed == 0) {
        std::this_thread::sleep_for(milliseconds(1));
        link = links.Take(peer, Clock::now());
      }
      if (!link) {
        none.Hit();
        break;
      }
      made.Hit();
      if (before) kept.Hit();
      before = true;
      Require(link->channel->queues() > 0, "a link has a queue that works");
      const auto got = world.Read(link->channel.get(), 0, {});
      if (got.read > 0) read.Hit();
      if (got.failed > 0) failed.Hit();
      links.Return(std::move(link));
    }
    Require(links.stats().links <= 4, "links are counted");
  }
  world.rails().Drain();
  Require(world.fake().under_way() == 0, "nothing is under way without links");
}

}  // namespace
}  // namespace peercache::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace peercache::fuzz;
  SetUp();
  Run({data, size});
  return 0;
}
