// What other nodes ask of a node: PeerRequests with a real pool, shard and table behind it.
//
// A script; each step is one request of type `operation`. Argument 0: the bytes are its body. Else
// the body is one that the node accepts, and the bytes are edits to it; its higher bits are what
// the caller can.

#include <vector>

#include "fuzz.h"
#include "peer_world.h"

namespace peercache::fuzz {
namespace {

Reached refused("requests refused");

Status Ask(PeerWorld* world, MessageType type, uint16_t can, ConstBytes body, PeerAnswer* answer) {
  if (type == MessageType::kHello) {
    FrameReader reader(body);
    Hello hello;
    Greeting greeting;
    if (!hello.Decode(&reader)) return Corrupt("malformed Hello");
    if (Status s = world->service()->OnHello(hello, &greeting); !s.ok()) return s;
    answer->Start(greeting.proving ? MessageType::kChallenge : MessageType::kHelloOk, 1);
    if (greeting.proving) {
      greeting.proving->challenge.Encode(&answer->frame);
    } else {
      greeting.Encode(&answer->frame);
    }
    return {};
  }
  FrameHeader header;
  header.type = type;
  header.can = can;
  header.request_id = 1;
  header.body_length = static_cast<uint32_t>(body.size());
  return world->service()->OnRequest(header, FrameReader(body), answer);
}

void RunStep(PeerWorld* world, const Step& step) {
  const auto type = static_cast<MessageType>(step.operation);
  std::vector<std::byte> body;
  if (step.argument == 0) {
    const auto bytes = AsBytes(step.bytes);
    body.assign(bytes.begin(), bytes.end());
  } else {
    body = world->ValidBody(type);
    ApplyEdits(step.bytes, body);
  }
  PeerAnswer answer;
  // What the argument says beyond its lowest bit.
  if (!Ask(world, type, static_cast<uint16_t>(step.argument & ~1u), body, &answer).ok()) {
    refused.Hit();
    return;
  }
  std::vector<std::byte> payload;
  for (const PagePin& page : answer.pages) {
    payload.insert(payload.end(), page.payload().begin(), page.payload().end());
  }
  world->CheckAnswer(type, answer.frame.Finish(payload.size()), payload);
}

}  // namespace
}  // namespace peercache::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace peercache::fuzz;
  SetUp();
  PeerWorld world;
  Script script({data, size});
  Step step;
  for (int steps = 0; steps < 32 && script.Next(&step); ++steps) RunStep(&world, step);
  return 0;
}
