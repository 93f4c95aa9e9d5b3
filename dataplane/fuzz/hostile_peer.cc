#include "hostile_peer.h"

#include "transport/tcp/socket.h"

namespace peercache::fuzz {
namespace {

Member Self() {
  Member m;
  m.id = "self";
  m.incarnation = 1;
  m.host = "127.0.0.1";
  m.peer_port = 1;
  m.state = MemberState::kJoining;  // so that the peer owns every key
  return m;
}

ShardOptions SmallShard() {
  ShardOptions options;
  options.self = NodeHash(Self().id);
  options.max_records = 1024;
  return options;
}

}  // namespace

HostilePeer& HostilePeer::Get() {
  static auto* const peer = new HostilePeer;  // its thread runs until the process ends
  return *peer;
}

HostilePeer::HostilePeer() {
  auto listener = Listen("127.0.0.1", 0);
  Require(listener.ok(), "the peer listens");
  member_.id = "peer";
  member_.incarnation = 7;
  member_.host = "127.0.0.1";
  member_.peer_port = listener->port;
  member_.state = MemberState::kActive;
  server_ = std::make_unique<ScriptedServer>(std::move(listener->fd));
}

void HostilePeer::Answer(Input input) { server_->Answer(Connections(input)); }

std::vector<std::byte> HostilePeer::RightAnswer(MessageType type) const {
  FrameWriter w;
  w.Start(type, type == MessageType::kHelloOk ? 0 : 1);
  const uint64_t node = NodeHash(member_.id), incarnation = member_.incarnation;
  uint64_t payload = 0;
  switch (type) {
    case MessageType::kHelloOk: HelloOk{node, incarnation}.Encode(&w); break;
    case MessageType::kLookupOk: {
      std::vector<Record> records;
      for (size_t i = 0; i < kPages; ++i) {
        records.push_back({node, incarnation, 4096 * i, 1, i % 2, kPage, Tier::kMemory, 0, 60'000});
      }
      EncodeRecords(records, {}, &w);
      break;
    }
    case MessageType::kReadOk: {
      const uint32_t lengths[] = {kPage, 0, kPage, kPage};
      EncodeReadOk(lengths, &w);
      payload = 3 * kPage;
      break;
    }
    case MessageType::kPublishOk:
      ShardAnswer{1'000'000, incarnation, Code::kOk, {kServed, kStored, kRefused, kServed}}.Encode(
          &w);
      break;
    case MessageType::kWithdrawOk: {
      WithdrawAnswer answer;
      answer.stamp = 2'000'000;
      answer.instance = incarnation;
      answer.unserved_ms = {kNeverServed, 0, 60'000, 1};
      answer.Encode(&w);
      break;
    }
    case MessageType::kContactOk:
      ShardAnswer{2'000'000, incarnation, Code::kOk, {}}.Encode(&w);
      break;
    case MessageType::kError: ErrorMessage{Unavailable("busy")}.Encode(&w); break;
    default: break;
  }
  const auto frame = w.Finish(payload);
  std::vector<std::byte> all(frame.begin(), frame.end());
  all.resize(all.size() + payload, std::byte{0x5a});
  return all;
}

std::vector<Blob> HostilePeer::Connections(Input input) const {
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

NodeOfHostilePeer::NodeOfHostilePeer()
    : peers(Hello{"fuzz", "", NodeHash(Self().id), Self().incarnation}, secret.get(), OwnerTimes{}),
      shard(SmallShard()) {
  const TimePoint now = Clock::now();
  const Member& peer = HostilePeer::Get().member();
  const KnownMembers known = {{Self().id, {Self(), now}}, {peer.id, {peer, now}}};
  ViewOptions options;
  options.vnodes = 4;
  view = BuildView(nullptr, known, options, now);
  peers.Update(*view);
}

Key NodeOfHostilePeer::KeyOf(size_t n) {
  Key key;
  key.bytes.fill(static_cast<uint8_t>(n * 50 + 1));
  return key;
}

}  // namespace peercache::fuzz
