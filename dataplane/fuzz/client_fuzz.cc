// The client: what a node, or whatever listens at its socket, can answer to an engine.
//
// A script of what the other side sends, connection by connection. Operations:
//   0  raw bytes                                       1  a frame of type `argument`: body
//   2  the right answer of type `argument`: edits      3  the next frame has request id `argument`
//   4  the next connection
// The other side sends all it has when it is connected to, half-closes, and takes whatever comes.
// The client's calls must end, with flags that are flags, counts within bounds, and no byte written
// outside of the pages that were asked for.

#include <stdlib.h>

#include <algorithm>
#include <memory>
#include <string>

#include "base/memory.h"
#include "client/client.h"
#include "fuzz.h"
#include "scripted_server.h"
#include "wire/messages.h"
#include "wire/stream.h"

namespace peercache::fuzz {
namespace {

Reached connected("clients connected"), shared("regions shared"), set("pages set"),
    got("pages got"), found("pages found"), present("pages present"), cleared("tags cleared"),
    faults("faults"), staged("staged pages got");

constexpr size_t kPage = 4096;
constexpr size_t kPages = 4;

std::vector<std::byte> RightAnswer(MessageType type) {
  FrameWriter w;
  w.Start(type, 1);
  const uint8_t flags[kPages] = {1, 0, 1, 1};
  switch (type) {
    case MessageType::kError:
      ErrorMessage{Status(Code::kAborted, "unknown session")}.Encode(&w);
      break;
    case MessageType::kAttachOk: AttachOk{5, "node", "0"}.Encode(&w); break;
    case MessageType::kSetOk:
    case MessageType::kGetOk:
    case MessageType::kPresenceOk: EncodeFlags(flags, &w); break;
    case MessageType::kExistsOk: w.Put(uint32_t{3}); break;
    default: break;
  }
  const auto frame = w.Finish();
  return {frame.begin() + sizeof(FrameHeader), frame.end()};
}

std::vector<Blob> Connections(Input input) {
  std::vector<Blob> all(1);
  uint64_t request_id = 1;
  const auto append = [&all](ConstBytes bytes) {
    const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
    all.back().insert(all.back().end(), data, data + bytes.size());
  };
  const auto frame = [&](uint8_t type, ConstBytes body) {
    FrameHeader header;
    header.type = static_cast<MessageType>(type);
    header.request_id = request_id++;
    header.body_length = static_cast<uint32_t>(body.size());
    if (header.type == MessageType::kAttachOk) header.can = FrameHeader::kCanPresence;
    append(std::as_bytes(std::span(&header, 1)));
    append(body);
  };
  Script script(input);
  Step step;
  for (int steps = 0; steps < 64 && script.Next(&step); ++steps) {
    switch (step.operation % 5) {
      case 0: append(AsBytes(step.bytes)); break;
      case 1: frame(step.argument, AsBytes(step.bytes)); break;
      case 2: {
        auto body = RightAnswer(static_cast<MessageType>(step.argument));
        ApplyEdits(step.bytes, body);
        frame(step.argument, body);
        break;
      }
      case 3: request_id = step.argument; break;
      case 4:
        all.emplace_back();
        request_id = 1;
        break;
    }
  }
  return all;
}

struct HostileNode {
  HostileNode() {
    char name[] = "/tmp/peercache-fuzz-XXXXXX";
    dir = mkdtemp(name);
    path = dir + "/node.sock";
    auto listener = ListenUnix(path, 0600);
    Require(listener.ok(), "the socket is there");
    server = std::make_unique<ScriptedServer>(std::move(*listener));
    std::atexit([] { (void)!system(("rm -rf " + Get().dir).c_str()); });
  }
  static HostileNode& Get() {
    static auto* const node = new HostileNode;
    return *node;
  }
  std::string dir, path;
  std::unique_ptr<ScriptedServer> server;
};

// Memory in the order: page, gap, page, gap, ...
struct HostPool {
  explicit HostPool(std::span<std::byte> memory) : bytes(memory) {
    std::ranges::fill(bytes, std::byte{0xee});
    for (size_t i = 0; i < kPages; ++i) {
      segments.push_back({reinterpret_cast<uint64_t>(bytes.data() + 2 * i * kPage), kPage});
    }
  }
  void CheckGaps() const {
    for (size_t i = 0; i < kPages; ++i) {
      Require(std::ranges::all_of(bytes.subspan((2 * i + 1) * kPage, kPage),
                                  [](std::byte b) { return b == std::byte{0xee}; }),
              "nothing is written between the pages");
    }
  }
  std::span<std::byte> bytes;
  std::vector<Segment> segments;
};

size_t Count(const std::vector<uint8_t>& ok) {
  Require(std::ranges::all_of(ok, [](uint8_t flag) { return flag <= 1; }), "a flag is 0 or 1");
  return static_cast<size_t>(std::ranges::count(ok, uint8_t{1}));
}

void Hit(Reached* reached, size_t times) {
  if (times > 0) reached->Hit();
}

void RunClient() {
  static auto* const memory = [] {
    auto made = MappedRegion::Create("fuzz", 2 * kPages * kPage, HugePages::kOff);
    Require(made.ok(), "memory");
    return new MappedRegion(std::move(*made));
  }();
  ClientOptions options;
  options.socket = HostileNode::Get().path;
  options.engine = "fuzz";
  options.timeout = milliseconds(2000);
  options.staging_bytes = 16 * kPage;
  auto client = Client::Connect(options);
  if (!client.ok()) {
    faults.Hit();
    return;
  }
  if ((*client)->attached()) connected.Hit();
  HostPool pool(memory->bytes());
  if ((*client)->RegisterRegion(memory->fd(), memory->data(), memory->size()).ok()) shared.Hit();
  std::vector<Key> keys(kPages);
  for (size_t i = 0; i < kPages; ++i) keys[i].bytes.fill(static_cast<uint8_t>(i));
  std::vector<uint8_t> ok(kPages);
  (*client)->Set(keys, pool.segments, 1, 1, ok);
  Hit(&set, Count(ok));
  (*client)->Get(keys, pool.segments, 1, ok);
  Hit(&got, Count(ok));
  const size_t hits = (*client)->Exists(keys);
  Require(hits <= kPages, "no more pages exist than were asked for");
  Hit(&found, hits);
  if ((*client)->Clear(1).ok()) cleared.Hit();
  // Memory without a descriptor goes through the staging ring.
  std::vector<std::byte> plain(2 * kPages * kPage);
  HostPool unshared(plain);
  (*client)->Get(keys, unshared.segments, 1, ok);
  Hit(&staged, Count(ok));
  unshared.CheckGaps();
  pool.CheckGaps();
  (void)(*client)->Presence(keys, ok);
  Hit(&present, Count(ok));
  if ((*client)->stats().faults > 0) faults.Hit();
}

}  // namespace
}  // namespace peercache::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace peercache::fuzz;
  SetUp();
  HostileNode::Get().server->Answer(Connections({data, size}));
  RunClient();
  return 0;
}
