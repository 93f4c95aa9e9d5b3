// The peer port: what a stranger can send to TcpServer over a real connection.
//
// A script; each step sends something on one connection: 0 its raw bytes; else a frame of type
// `argument`: 1 with the bytes as body, 2 with a body that the node accepts and the bytes as edits
// to it. 3: waits for all answers, so that the next bytes arrive later.
// Answers must be well-formed, in order, and of the type that belongs to the request, up to an
// Error that ends the connection.

#include <poll.h>

#include <cstring>
#include <mutex>
#include <thread>

#include "exchange.h"
#include "fuzz.h"
#include "peer_world.h"
#include "transport/tcp/server.h"
#include "transport/tcp/socket.h"
#include "wire/stream.h"

namespace peercache::fuzz {
namespace {

Reached errors("errors sent"), answers("answers sent"), proven("peers proven");

// Answers of the present world; the server and its thread outlive the worlds of single inputs.
class CurrentWorld : public PeerService {
 public:
  void Set(PeerWorld* world) {
    std::lock_guard lock(mutex_);
    world_ = world;
  }
  Status OnHello(const Hello& hello, Greeting* answer) override {
    std::lock_guard lock(mutex_);
    return world_->service()->OnHello(hello, answer);
  }
  Status OnRequest(const FrameHeader& header, FrameReader body, PeerAnswer* answer) override {
    std::lock_guard lock(mutex_);
    return world_->service()->OnRequest(header, body, answer);
  }
  bool Trusts(uint64_t key) const override {
    std::lock_guard lock(mutex_);
    return world_ == nullptr || world_->service()->Trusts(key);
  }

 private:
  mutable std::mutex mutex_;
  PeerWorld* world_ = nullptr;
};

struct Server {
  Server() {
    auto listener = Listen("127.0.0.1", 0);
    Require(listener.ok(), "the server listens");
    TcpServerOptions options;
    options.threads = 1;
    options.gate.failures = {Duration(1), UINT32_MAX};  // every input comes from one address
    server = std::make_unique<TcpServer>(std::move(*listener), &service, options);
  }
  CurrentWorld service;
  std::unique_ptr<TcpServer> server;
};

UniqueFd Connected(uint16_t port) {
  auto fd = StartConnect("127.0.0.1", port);
  Require(fd.ok(), "the server can be reached");
  Require(*WaitFor(fd->get(), POLLOUT, Clock::now() + std::chrono::seconds(50)), "and accepts");
  return std::move(*fd);
}

class Peer : public Exchange {
 public:
  Peer(PeerWorld* world, uint16_t port) : Exchange(Connected(port)), world_(world) {}

  void Run(const Step& step) {
    const auto type = static_cast<MessageType>(step.argument);
    switch (step.operation % 4) {
      case 0: Raw(AsBytes(step.bytes)); break;
      case 1: Ask(type, AsBytes(step.bytes)); break;
      case 2: {
        auto body = world_->ValidBody(type);
        ApplyEdits(step.bytes, body);
        Ask(type, body);
        break;
      }
      case 3: Await(); break;
    }
  }

 private:
  void OnAnswer(const FrameHeader* request, ConstBytes frame, ConstBytes payload) override {
    FrameHeader header;
    std::memcpy(&header, frame.data(), sizeof(header));
    Require(!failed_, "an Error is the last thing");
    if (header.type == MessageType::kError) {
      ErrorMessage error;
      FrameReader body(frame.subspan(sizeof(header)));
      Require(error.Decode(&body), "an Error says why");
      failed_ = true;
      errors.Hit();
      return;
    }
    answers.Hit();
    if (header.type == MessageType::kProveOk) proven.Hit();
    if (request != nullptr) world_->CheckAnswer(request->type, frame, payload);
  }

  PeerWorld* const world_;
  bool failed_ = false;
};

}  // namespace
}  // namespace peercache::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace peercache::fuzz;
  SetUp();
  static auto* const server = new Server;  // its thread runs until the process ends
  PeerWorld world;
  server->service.Set(&world);
  Peer peer(&world, server->server->port());
  Script script({data, size});
  Step step;
  for (int steps = 0; steps < 32 && script.Next(&step); ++steps) peer.Run(step);
  peer.Finish();
  while (server->server->stats().connections != 0) std::this_thread::yield();
  server->service.Set(nullptr);
  return 0;
}
