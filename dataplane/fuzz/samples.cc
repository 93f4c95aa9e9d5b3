#include "samples.h"

#include "fuzz.h"
#include "peer_world.h"
#include "transport/peer_key.h"
#include "wire/fabric.h"
#include "wire/heartbeat.h"

namespace peercache::fuzz {
namespace {

Key SomeKey(uint8_t n) {
  Key key;
  key.bytes.fill(n);
  return key;
}

Member SomeMember() {
  Member m;
  m.id = "node7.default";
  m.incarnation = 3;
  m.state = MemberState::kDraining;
  m.host = "10.0.0.7";
  m.peer_port = 31998;
  m.http_port = 31997;
  m.capacity_bytes = uint64_t{1} << 30;
  m.synced = {1, 2, 3};
  m.unreachable = {4, 5};
  return m;
}

QueueAddress SomeQueue(uint32_t number) {
  QueueAddress queue;
  queue.gid.fill(0xfe);
  queue.network = queue.gid;
  queue.queue = number;
  queue.sequence = 0xabcdef;
  queue.mtu = 5;
  queue.reads = 16;
  queue.ethernet = 1;
  return queue;
}

// Of the secret that a fuzzed node has (peer_world.h).
uint64_t TheKey() {
  const auto key = DeriveKey(PeerWorld::kCluster, PeerWorld::kToken);
  return key.ok() ? key->id : 1;
}

const Sample kSamples[] = {
    {"error", MessageType::kError,
     [](FrameWriter* w) { ErrorMessage{Status(Code::kAborted, "why not")}.Encode(w); }},
    {"hello", MessageType::kHello,
     [](FrameWriter* w) {
       Hello{"fuzz", "", 1, 2}.Encode(w);
     }},
    {"hello-ok", MessageType::kHelloOk,
     [](FrameWriter* w) {
       HelloOk{1, 2}.Encode(w);
     }},
    {"shard-answer", MessageType::kPublishOk,
     [](FrameWriter* w) {
       ShardAnswer{1, 2, Code::kOk, {0, 1, 2}}.Encode(w);
     }},
    {"lookup", MessageType::kLookup,
     [](FrameWriter* w) {
       const uint64_t exclude[] = {5};
       const Key keys[] = {SomeKey(1), SomeKey(2)};
       EncodeLookup(9, exclude, keys, w);
     }},
    {"lookup-ok", MessageType::kLookupOk,
     [](FrameWriter* w) {
       const Record records[] = {{7, 77, 4096, 1, 0, 4096, Tier::kMemory, 0, 1000}, {}};
       EncodeRecords(records, {}, w);
     }},
    {"contact", MessageType::kContact,
     [](FrameWriter* w) {
       EncodeContact({7, 77, 1, 0, 1, 3000, 1000}, w);
     }},
    {"publish", MessageType::kPublish,
     [](FrameWriter* w) {
       const PublishItem items[] = {
           {SomeKey(1), {7, 77, 4096, 1, 0, 4096, Tier::kMemory, 0, 1000}}};
       EncodePublish({7, 77, 1, 0, 1, 3000, 1000}, items, w);
     }},
    {"withdraw", MessageType::kWithdraw,
     [](FrameWriter* w) {
       const WithdrawItem items[] = {{SomeKey(1), 1}};
       EncodeWithdraw({7, 77, 1, 0, 1, 3000, 1000}, items, w);
     }},
    {"read", MessageType::kRead,
     [](FrameWriter* w) {
       const ReadItem items[] = {{4096, 1, 1000, 0, SomeKey(1)}};
       EncodeRead(77, items, w);
     }},
    {"read-ok", MessageType::kReadOk,
     [](FrameWriter* w) {
       const uint32_t lengths[] = {4096, 0};
       EncodeReadOk(lengths, w);
     }},
    {"heartbeat", MessageType::kHeartbeat,
     [](FrameWriter* w) {
       Heartbeat{SomeMember(),
                 {"numa0", 8, 7, "mlx5_3 port 1", NumaHealth::kMemoryElsewhere, 4, 1000, 900, 5000,
                  80, 70}}
           .Encode(w);
     }},
    {"heartbeat-ok", MessageType::kHeartbeatOk,
     [](FrameWriter* w) {
       MemberListMessage{1, {{SomeMember(), 5}, {SomeMember(), 6}}}.Encode(w);
     }},
    {"leave", MessageType::kLeave,
     [](FrameWriter* w) {
       LeaveRequest{"member", 1}.Encode(w);
     }},
    {"attach", MessageType::kAttach,
     [](FrameWriter* w) {
       AttachRequest{0, "rank0", "0.1.0"}.Encode(w);
     }},
    {"attach-ok", MessageType::kAttachOk,
     [](FrameWriter* w) {
       AttachOk{1, "node", "0.1.0"}.Encode(w);
     }},
    {"region", MessageType::kRegion,
     [](FrameWriter* w) {
       RegionRequest{0, 0, 65536}.Encode(w);
     }},
    {"set", MessageType::kSet,
     [](FrameWriter* w) {
       const Key keys[] = {SomeKey(1), SomeKey(2)};
       const WireSegment segments[] = {{0, 0, 512}, {512, 0, 512}, {1024, 0, 1024}, {4096, 0, 0}};
       EncodePages(5, 2, keys, segments, w);
     }},
    {"exists", MessageType::kExists,
     [](FrameWriter* w) {
       const Key keys[] = {SomeKey(0), SomeKey(1)};
       EncodeKeys(keys, w);
     }},
    {"flags", MessageType::kGetOk,
     [](FrameWriter* w) {
       const uint8_t flags[] = {1, 0, 1};
       EncodeFlags(flags, w);
     }},
    {"connect", MessageType::kConnect,
     [](FrameWriter* w) {
       ConnectRequest{{SomeQueue(17), SomeQueue(18)}}.Encode(w);
     }},
    {"connect-ok", MessageType::kConnectOk,
     [](FrameWriter* w) {
       ConnectOk ok;
       ok.pool = 1 << 30;
       ok.pool_bytes = (2 << 20) + 1;
       ok.chunk_bytes = 1 << 20;
       ok.queues = {{SomeQueue(19), {1, 2, 3}}, {QueueAddress(), {}}};
       ok.Encode(w);
     }},
    {"connect-later", MessageType::kConnectOk,
     [](FrameWriter* w) {
       ConnectOk ok;
       ok.later = true;
       ok.Encode(w);
     }},
    {"offer", MessageType::kOffer,
     [](FrameWriter* w) {
       const OfferItem items[] = {{SomeKey(1), 5, 1000, 3}, {SomeKey(2), 5, 1001, 0}};
       EncodeOffer(7, 78, items, w);
     }},
    {"offer-ok", MessageType::kOfferOk,
     [](FrameWriter* w) {
       OfferAnswer{1 << 20, 1, {kTaken, kNoRoom}}.Encode(w);
     }},
    {"dma-buf-ok", MessageType::kDmaBufOk,
     [](FrameWriter* w) {
       DmaBufOk{0, 1, "the device does not register dma-bufs"}.Encode(w);
     }},
    {"directory-ok", MessageType::kDirectoryOk,
     [](FrameWriter* w) {
       DirectoryOk{77, 4096, 64, {{7, 77, 5, 3'000'000, 1, 1000, 0}}}.Encode(w);
     }},
    {"contact-ok", MessageType::kContactOk,
     [](FrameWriter* w) {
       ShardAnswer{5, 77, Code::kOk, {}, ClearsVoice{0x1234567, 1}}.Encode(w);
     }},
    {"clears", MessageType::kClears,
     [](FrameWriter* w) {
       ClearsMessage{{{{0, 3, 0x1234567}, {1, 7, 8}}, {{5, 1000}, {6, 4}}}, 1, {7, 9}}.Encode(w);
     }},
    {"clears-ok", MessageType::kClearsOk,
     [](FrameWriter* w) {
       ClearsAnswer{{{{0, 3, 0x1234567}}, {{5, 1000}}}, 1}.Encode(w);
     }},
    {"hello-key", MessageType::kHello,
     [](FrameWriter* w) { Hello{"fuzz", "10.0.0.1:1", 1, 2, 0, TheKey(), {3}}.Encode(w); }},
    {"hello-members", MessageType::kHello,
     [](FrameWriter* w) { Hello{"fuzz", "", 1, 2, 0, TheKey(), {3}}.Encode(w); }},
    {"challenge", MessageType::kChallenge,
     [](FrameWriter* w) {
       Challenge{1, 2, 0, {4}, {5}}.Encode(w);
     }},
    {"prove", MessageType::kProve, [](FrameWriter* w) { ProveMessage{{6}}.Encode(w); }},
    {"heartbeat-ok-once", MessageType::kHeartbeatOk,
     [](FrameWriter* w) {
       MemberListMessage{1, {{SomeMember(), 5}, {SomeMember(), 6}}}.EncodeOnce(w);
     }},
    {"withdraw-ok", MessageType::kWithdrawOk,
     [](FrameWriter* w) {
       WithdrawAnswer answer;
       answer.stamp = 5;
       answer.instance = 77;
       answer.unserved_ms = {kNeverServed, 0, 1500};
       answer.Encode(w);
     }},
    {"fetch", MessageType::kFetch,
     [](FrameWriter* w) {
       const Key keys[] = {SomeKey(1), SomeKey(2)};
       EncodeKeys(keys, w);
     }},
    {"fetch-ok", MessageType::kFetchOk,
     [](FrameWriter* w) {
       FetchAnswer{3, {{512, 9, 1000, kFetchHere}, {0, 0, 0, kFetchComing}}}.Encode(w);
     }},
};

}  // namespace

std::span<const Sample> Samples() { return kSamples; }

Blob FrameOf(const Sample& sample) {
  FrameWriter w;
  w.Start(sample.type, 1);
  sample.encode(&w);
  const auto frame = w.Finish();
  const auto* data = reinterpret_cast<const uint8_t*>(frame.data());
  return {data, data + frame.size()};
}
Blob BodyOf(const Sample& sample) {
  const Blob frame = FrameOf(sample);
  return {frame.begin() + sizeof(FrameHeader), frame.end()};
}

const Sample& Named(std::string_view name) {
  for (const Sample& s : kSamples) {
    if (s.name == name) return s;
  }
  Fail("there is no such message");
}

}  // namespace peercache::fuzz
