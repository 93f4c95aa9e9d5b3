// The engine socket: what a process that can open it can send to a node, with all kinds of
// descriptors, over several connections at once.
//
// A script; the low two bits of `argument` choose the connection. Operations:
//   0  raw bytes
//   1  a frame: type, body
//   2  a frame that the node accepts: type, edits
//   3  Region, or DmaBuf when kind > 127, with a descriptor: kind, edits
//   4  the connection is closed and made again
//   5  the file of the last Region is cut: size / 256
//   6  waits for all answers
// Answers must be well-formed, in order and of the type that is due. Afterwards status is still
// JSON, the engine's sessions end with its connections, and another engine is served.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/holes.h"
#include "base/wrong_bytes.h"
#include "client/client.h"
#include "exchange.h"
#include "fuzz.h"
#include "node/node.h"
#include "wire/messages.h"
#include "wire/stream.h"

namespace peercache::fuzz {
namespace {

Reached attached("engines attached"), joined("sessions joined"), shared("regions shared"),
    set("pages set"), got("pages got"), exists("exists answered"), presence("presence answered"),
    errors("errors sent"), served("the other engine was served");

constexpr std::chrono::seconds kPatience{30};
constexpr size_t kRegion = 64 << 10;
constexpr size_t kPage = 4096;
constexpr size_t kKeys = 4;

Key KeyOf(uint8_t n) {
  Key key;
  key.bytes.fill(n);
  return key;
}

// A node on its own, and an engine that behaves.
class World {
 public:
  World() {
    char name[] = "/tmp/peercache-fuzz-XXXXXX";
    dir_ = mkdtemp(name);
    NodeConfig config;
    config.node_id = "fuzz";
    config.bind_addr = config.advertise_addr = "127.0.0.1";
    config.peer_port = 0;
    config.http = false;
    config.socket = dir_ + "/node.sock";
    config.pool_bytes = size_t{16} << 20;
    config.huge_pages = HugePages::kOff;
    config.lease = config.peer_timeout = milliseconds(50);
    config.max_engine_memory = 8 * kRegion;
    auto node = Node::Start(config);
    Require(node.ok(), "the node starts");
    node_ = std::move(*node);
    auto memory = MappedRegion::Create("good", kRegion, HugePages::kOff);
    Require(memory.ok(), "memory for the other engine");
    memory_ = std::move(*memory);
    auto client = Client::Connect({.socket = config.socket, .engine = "good"});
    Require(client.ok(), "the other engine attaches");
    client_ = std::move(*client);
    Require(client_->RegisterRegion(memory_.fd(), memory_.data(), memory_.size()).ok(), "shares");
    std::atexit([] { (void)!system(("rm -rf " + Get().dir_).c_str()); });
  }
  static World& Get() {
    static auto* const world = new World;  // its threads run until the process ends
    return *world;
  }
  const std::string& socket() const { return node_->socket(); }

  // The node works for others, and has forgotten the hostile engine.
  void CheckHealth() {
    const Key keys[] = {KeyOf(200)};
    const auto at = reinterpret_cast<uint64_t>(memory_.data());
    std::vector<uint8_t> ok(1);
    std::memset(memory_.data(), 0x5a, kPage);
    const Segment from[] = {{at, kPage}}, to[] = {{at + kPage, kPage}};
    client_->Set(keys, from, 1, 1, ok);
    client_->Get(keys, to, 1, ok);
    if (ok[0] != 0) {
      const auto bytes = memory_.bytes();
      Require(HasRightBytes("the page", bytes.subspan(kPage, kPage), bytes.first(kPage)),
              "the right bytes");
      served.Hit();
    }
    const TimePoint deadline = Clock::now() + kPatience;
    for (;;) {
      const auto status = nlohmann::json::parse(node_->StatusJson(), nullptr, false);
      Require(!status.is_discarded(), "status is JSON");
      if (status["engines"].size() == 1) return;
      Require(Clock::now() < deadline, "sessions end with their connections");
      std::this_thread::yield();
    }
  }

 private:
  std::string dir_;
  std::unique_ptr<Node> node_;
  MappedRegion memory_;
  std::unique_ptr<Client> client_;
};

UniqueFd Memfd(size_t size, int seals) {
  UniqueFd fd(memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  Require(fd && ftruncate(fd.get(), static_cast<off_t>(size)) == 0, "memfd");
  if (size <= kRegion) Require(FillHoles(fd.get(), size).ok(), "memory");
  if (seals != 0) Require(fcntl(fd.get(), F_ADD_SEALS, seals) == 0, "seals");
  return fd;
}

UniqueFd Descriptor(uint8_t kind, int own_socket) {
  switch (kind % 9) {
    case 0: return Memfd(kRegion, F_SEAL_SHRINK | F_SEAL_GROW);
    case 1: return Memfd(kRegion, 0);
    case 2: return {};
    case 3: return UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC));
    case 4: return UniqueFd(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    case 5: return UniqueFd(dup(own_socket));
    case 6: return Memfd(size_t{1} << 40, 0);
    case 7: return Memfd(kRegion, F_SEAL_WRITE);
    default: return Memfd(0, 0);
  }
}

UniqueFd Connected() {
  auto fd = ConnectUnix(World::Get().socket());
  Require(fd.ok(), "the node accepts connections");
  return std::move(*fd);
}

class Connection : public Exchange {
 public:
  Connection() : Exchange(Connected()) {}
  uint64_t session() const { return session_; }

 private:
  void OnAnswer(const FrameHeader*, ConstBytes frame, ConstBytes) override {
    FrameHeader header;
    std::memcpy(&header, frame.data(), sizeof(header));
    FrameReader body(frame.subspan(sizeof(header)));
    std::vector<uint8_t> flags;
    switch (header.type) {
      case MessageType::kError: {
        ErrorMessage error;
        Require(error.Decode(&body), "an Error says why");
        errors.Hit();
        break;
      }
      case MessageType::kAttachOk: {
        AttachOk ok;
        Require(ok.Decode(&body) && ok.session != 0, "AttachOk");
        session_ = ok.session;
        attached.Hit();
        break;
      }
      case MessageType::kRegionOk: shared.Hit(); break;
      case MessageType::kSetOk:
      case MessageType::kGetOk: {
        Require(DecodeFlags(&body, &flags), "flags");
        for (const uint8_t flag : flags) {
          Require(flag <= 1, "a flag is 0 or 1");
          if (flag != 0) (header.type == MessageType::kSetOk ? set : got).Hit();
        }
        break;
      }
      case MessageType::kExistsOk: {
        (void)body.Get<uint32_t>();
        Require(body.AtEnd(), "ExistsOk");
        exists.Hit();
        break;
      }
      case MessageType::kPresenceOk:
        Require(DecodeFlags(&body, &flags), "a flag for each key");
        presence.Hit();
        break;
      case MessageType::kClearOk:
      case MessageType::kPrefillOk: Require(body.AtEnd(), "no body"); break;
      case MessageType::kDmaBufOk: Fail("there is no dma-buf among the descriptors");
      default: Fail("an answer to something that is no request");
    }
  }

  uint64_t session_ = 0;
};

class Engine {
 public:
  void Run(const Step& step) {
    auto& connection = connections_[(step.argument & 3) % std::size(connections_)];
    Connection& c = *connection;
    const uint8_t first = step.bytes.empty() ? 0 : step.bytes[0];
    const Input rest = step.bytes.empty() ? step.bytes : step.bytes.subspan(1);
    switch (step.operation % 7) {
      case 0: c.Raw(AsBytes(step.bytes)); break;
      case 1: c.Ask(static_cast<MessageType>(first), AsBytes(rest)); break;
      case 2: {
        auto body = ValidBody(static_cast<MessageType>(first), c);
        ApplyEdits(rest, body);
        c.Ask(static_cast<MessageType>(first), body);
        break;
      }
      case 3: {
        file_ = Descriptor(first & 0x7f, c.fd());
        const auto type = first > 0x7f ? MessageType::kDmaBuf : MessageType::kRegion;
        auto body = ValidBody(type, c);
        ApplyEdits(rest, body);
        c.Ask(type, body, file_.get());
        break;
      }
      case 4: connection = std::make_unique<Connection>(); break;
      case 5:
        if (file_) (void)!ftruncate(file_.get(), off_t{first} * 256);
        break;
      case 6: c.Await(); break;
    }
  }
  void Finish() {
    for (auto& connection : connections_) connection->Finish();
  }

 private:
  // Attach makes a session on the first connection, and joins it from the others.
  std::vector<std::byte> ValidBody(MessageType type, const Connection& c) {
    FrameWriter w;
    w.Start(type, 1);
    std::vector<Key> keys;
    std::vector<WireSegment> segments;
    for (uint8_t i = 0; i < kKeys; ++i) {
      keys.push_back(KeyOf(i));
      segments.push_back({2 * i * kPage, 0, kPage});
      segments.push_back({2 * i * kPage + kPage, 0, kPage / 2});
    }
    switch (type) {
      case MessageType::kAttach: {
        uint64_t session = 0;
        if (&c != connections_[0].get()) {
          connections_[0]->Await();
          session = connections_[0]->session();
          if (session != 0) joined.Hit();
        }
        AttachRequest{session, "hostile", "0"}.Encode(&w);
        break;
      }
      case MessageType::kRegion:
      case MessageType::kDmaBuf:
      case MessageType::kDevicePointer: RegionRequest{0, 0, kRegion}.Encode(&w); break;
      case MessageType::kSet: EncodePages(1, 2, keys, segments, &w); break;
      case MessageType::kGet: EncodePages(0, 2, keys, segments, &w); break;
      case MessageType::kExists:
      case MessageType::kPresence: EncodeKeys(keys, &w); break;
      case MessageType::kPrefill: w.Put(uint32_t{1000}); break;
      case MessageType::kClear: w.Put(uint64_t{1}); break;
      default: break;
    }
    const auto frame = w.Finish();
    return {frame.begin() + sizeof(FrameHeader), frame.end()};
  }

  std::unique_ptr<Connection> connections_[3] = {std::make_unique<Connection>(),
                                                 std::make_unique<Connection>(),
                                                 std::make_unique<Connection>()};
  UniqueFd file_;
};

}  // namespace
}  // namespace peercache::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace peercache::fuzz;
  SetUp();
  World::Get();
  {
    Engine engine;
    Script script({data, size});
    Step step;
    for (int steps = 0; steps < 32 && script.Next(&step); ++steps) engine.Run(step);
    engine.Finish();
  }
  World::Get().CheckHealth();
  return 0;
}
