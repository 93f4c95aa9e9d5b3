// Lookups and reads of a node, against a peer that answers what it likes.
//
// A script of what the peer sends, connection by connection. Operations:
//   0  raw bytes
//   1  a frame of type `argument`: body
//   2  the right answer of type `argument`, with its pages: edits to header, body and pages
//   3  the next connection
// The node looks keys up, reads the pages of the records that it got, and reads again. Its calls
// must end, and no byte may be written outside of the pages.

#include <algorithm>
#include <memory>

#include "fuzz.h"
#include "node/locator.h"
#include "node/remote_reader.h"
#include "node/secret.h"
#include "scripted_server.h"
#include "transport/tcp/socket.h"

namespace peercache::fuzz {
namespace {

Reached found("records found"), usable("records of the peer"), read("pages read"),
    stale("pages stale"), corrupt("pages corrupt"), unreachable("pages unreachable");

constexpr size_t kPages = 4;
constexpr size_t kPage = 512, kGap = 64;
constexpr milliseconds kStall{1000};
const Member kSelf = [] {
  Member m;
  m.id = "self";
  m.incarnation = 1;
  m.host = "127.0.0.1";
  m.peer_port = 1;
  m.state = MemberState::kJoining;  // so that the peer owns every key
  return m;
}();

Key KeyOf(size_t n) {
  Key key;
  key.bytes.fill(static_cast<uint8_t>(n * 50 + 1));
  return key;
}

struct HostilePeer {
  HostilePeer() {
    auto listener = Listen("127.0.0.1", 0);
    Require(listener.ok(), "the peer listens");
    member.id = "peer";
    member.incarnation = 7;
    member.host = "127.0.0.1";
    member.peer_port = listener->port;
    member.state = MemberState::kActive;
    server = std::make_unique<ScriptedServer>(std::move(listener->fd));
  }
  static HostilePeer& Get() {
    static auto* const peer = new HostilePeer;
    return *peer;
  }
  Member member;
  std::unique_ptr<ScriptedServer> server;
};

std::vector<std::byte> RightAnswer(MessageType type) {
  FrameWriter w;
  w.Start(type, type == MessageType::kHelloOk ? 0 : 1);
  uint64_t payload = 0;
  const Member& peer = HostilePeer::Get().member;
  if (type == MessageType::kHelloOk) HelloOk{NodeHash(peer.id), peer.incarnation}.Encode(&w);
  if (type == MessageType::kLookupOk) {
    std::vector<Record> records;
    for (size_t i = 0; i < kPages; ++i) {
      records.push_back({NodeHash(peer.id), peer.incarnation, 4096 * i, 1, i % 2, kPage,
                         Tier::kMemory, 0, 60'000});
    }
    EncodeRecords(records, &w);
  }
  if (type == MessageType::kReadOk) {
    const uint32_t lengths[] = {kPage, 0, kPage, kPage};
    EncodeReadOk(lengths, &w);
    payload = 3 * kPage;
  }
  if (type == MessageType::kError) ErrorMessage{Unavailable("busy")}.Encode(&w);
  const auto frame = w.Finish(payload);
  std::vector<std::byte> all(frame.begin(), frame.end());
  all.resize(all.size() + payload, std::byte{0x5a});
  return all;
}

std::vector<Blob> Connections(Input input) {
  std::vector<Blob> all(1);
  const auto append = [&all](ConstBytes bytes) {
    const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
    all.back().insert(all.back().end(), data, data + bytes.size());
  };
  Script script(input);
  Step step;
  for (int steps = 0; steps < 64 && script.Next(&step); ++steps) {
    const auto type = static_cast<MessageType>(step.argument);
    switch (step.operation % 4) {
      case 0: append(AsBytes(step.bytes)); break;
      case 1: {
        FrameHeader header;
        header.type = type;
        header.request_id = 1;
        header.body_length = static_cast<uint32_t>(step.bytes.size());
        append(std::as_bytes(std::span(&header, 1)));
        append(AsBytes(step.bytes));
        break;
      }
      case 2: {
        auto answer = RightAnswer(type);
        ApplyEdits(step.bytes, answer);
        append(answer);
        break;
      }
      case 3: all.emplace_back(); break;
    }
  }
  return all;
}

// Pages of two segments, with gaps around all of them.
struct HostPool {
  HostPool() : bytes(kPages * (kPage + 2 * kGap) + kGap, std::byte{0xee}) {
    for (size_t at = kGap; at + kPage + kGap < bytes.size() + 1; at += kPage + 2 * kGap) {
      const auto page = std::span(bytes).subspan(at, kPage + kGap);
      segments.push_back(page.first(kPage / 4));
      segments.push_back(page.subspan(kPage / 4 + kGap, kPage - kPage / 4));
    }
  }
  void CheckGaps() const {
    const std::byte* at = bytes.data();
    const auto untouched = [&at](const std::byte* to) {
      return std::all_of(at, to, [](std::byte b) { return b == std::byte{0xee}; });
    };
    for (const Bytes& segment : segments) {
      Require(untouched(segment.data()), "nothing is written between the pages");
      at = segment.data() + segment.size();
    }
    Require(untouched(bytes.data() + bytes.size()), "or behind them");
  }
  std::vector<std::byte> bytes;
  std::vector<Bytes> segments;
};

void Run() {
  const auto secret = Secret::None();
  const Hello hello{"fuzz", "", NodeHash(kSelf.id), kSelf.incarnation};
  Peers peers(hello, secret.get(), OwnerTimes{});
  ShardOptions shard_options;
  shard_options.self = hello.node;
  shard_options.max_records = 1024;
  Shard shard(shard_options);
  Counters counters;
  const TimePoint now = Clock::now();
  KnownMembers known = {{kSelf.id, {kSelf, now}}, {"peer", {HostilePeer::Get().member, now}}};
  ViewOptions view_options;
  view_options.vnodes = 4;
  const auto view = BuildView(nullptr, known, view_options, now);
  peers.Update(*view);

  LocatorOptions locator_options;
  locator_options.stall = kStall;
  locator_options.cache_ttl = kStall;
  locator_options.cache_entries = 64;
  Locator locator(locator_options, &shard, &peers, &counters);
  std::vector<Key> keys;
  for (size_t i = 0; i < kPages; ++i) keys.push_back(KeyOf(i));
  std::vector<Record> records(kPages);
  locator.Lookup(*view, keys, records, now + kStall);

  HostPool pool;
  const Destinations to{pool.segments, 2};
  std::vector<RemotePage> pages;
  for (size_t i = 0; i < kPages; ++i) {
    if (records[i].node != 0) found.Hit();
    // What node/pages.cc passes on.
    if (records[i].node == 0 || records[i].length != to.SizeOf(i)) continue;
    if (peers.Find(records[i].node) != nullptr) usable.Hit();
    pages.push_back({keys[i], records[i], i});
  }
  RemoteReader reader({std::chrono::seconds(60), kStall, ChecksumPolicy::kAll}, &peers, &counters);
  for (int round = 0; round < 2; ++round) {
    std::vector<ReadOutcome> outcomes(pages.size());
    reader.Read(pages, to, outcomes, Clock::now() + kStall);
    for (const ReadOutcome outcome : outcomes) {
      if (outcome == ReadOutcome::kRead) read.Hit();
      if (outcome == ReadOutcome::kStale) stale.Hit();
      if (outcome == ReadOutcome::kCorrupt) corrupt.Hit();
      if (outcome == ReadOutcome::kUnreachable) unreachable.Hit();
    }
  }
  pool.CheckGaps();
}

}  // namespace
}  // namespace peercache::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace peercache::fuzz;
  SetUp();
  HostilePeer::Get().server->Answer(Connections({data, size}));
  Run();
  return 0;
}
