#include "node/peer_requests.h"

#include <fmt/format.h>

#include "base/give_back.h"

namespace peercache {
namespace {

Status Malformed(MessageType type) {
  return Corrupt(fmt::format("malformed message of type {}", static_cast<int>(type)));
}

// Scratch of one serving thread, kept between requests.
struct Scratch {
  LookupRequest lookup;
  OwnerRequest owner;
  ReadRequest read;
  std::vector<Key> fetch;
  std::vector<PageAt> wanted;
  std::vector<Record> records;
  std::vector<OtherRecord> others;
  std::vector<uint32_t> lengths;
  WithdrawAnswer shard_answer;

  // What a large request has left.
  void Rest() {
    constexpr size_t kKept = 4 * kKeptBytes;  // of a thread, not of a connection
    GiveBack(kKept, &fetch, &lookup.exclude, &lookup.keys, &owner.publish, &owner.withdraw,
             &read.items, &wanted, &records, &others, &lengths, &shard_answer.outcomes,
             &shard_answer.unserved_ms);
  }
};
thread_local Scratch scratch;

}  // namespace

PeerRequests::PeerRequests(Hello self, const Secret* secret, Pool* pool, Shard* shard, Table* table,
                           Counters* counters, Fabric* fabric, Clears* clears,
                           std::function<size_t(uint64_t)> clear, Taker take, DiskPages* disk)
    : self_(std::move(self)),
      secret_(secret),
      pool_(pool),
      shard_(shard),
      table_(table),
      counters_(counters),
      fabric_(fabric),
      clears_(clears),
      clear_(std::move(clear)),
      take_(std::move(take)),
      disk_(disk) {}

Status PeerRequests::OnHello(const Hello& hello, Greeting* answer) {
  if (hello.cluster != self_.cluster) {
    return {Code::kUnauthenticated,
            fmt::format("this node belongs to cluster \"{}\", the caller to \"{}\": give both the "
                        "same --cluster, or correct --discovery-addr",
                        self_.cluster, hello.cluster)};
  }
  answer->node = self_.node;
  answer->incarnation = self_.incarnation;
  answer->machine = self_.machine;
  if (secret_->none()) {
    if (hello.key == 0 && hello.to.empty()) return {};
    return {Code::kUnauthenticated,
            "the caller has a secret, this node has none: give all nodes of a cluster the same "
            "--auth-token-file contents"};
  }
  if (hello.key == 0) {
    return {Code::kUnauthenticated,
            "the caller names no secret: give all nodes of a cluster the same --auth-token-file "
            "contents, and run the same release on them"};
  }
  const auto key = secret_->Find(hello.key, Clock::now());
  if (!key) {
    return {Code::kUnauthenticated,
            "the caller has another secret: all nodes of a cluster need the same "
            "--auth-token-file contents"};
  }
  if (!hello.to.empty() && hello.to != self_.to) {
    return Unavailable(fmt::format(
        "the caller has dialled {}, this is node {:016x} at {}: it learns of that in a moment",
        hello.to, self_.node, self_.to));
  }
  auto asked = Ask(*key, hello, {self_.node, self_.incarnation, self_.machine, {}, {}});
  if (!asked.ok()) return asked.status();
  answer->proving = std::move(*asked);
  return {};
}

bool PeerRequests::Trusts(uint64_t key) const {
  return secret_->none() || secret_->Find(key, Clock::now()).has_value();
}

Status PeerRequests::OnRequest(const FrameHeader& header, FrameReader body, PeerAnswer* answer) {
  answer->Start(AnswerTo(header.type), header.request_id);
  Status s = Answer(header, body, answer);
  scratch.Rest();
  return s;
}

Status PeerRequests::Answer(const FrameHeader& header, FrameReader body, PeerAnswer* answer) {
  switch (header.type) {
    case MessageType::kLookup: return OnLookup(header, &body, &answer->frame);
    case MessageType::kDirectory: return OnDirectory(&body, &answer->frame);
    case MessageType::kPublish:
    case MessageType::kWithdraw:
    case MessageType::kContact: return OnOwner(header, &body, &answer->frame);
    case MessageType::kRead: return OnRead(&body, answer);
    case MessageType::kFetch: return OnFetch(&body, &answer->frame);
    case MessageType::kConnect: return OnConnect(&body, answer);
    case MessageType::kOffer: return OnOffer(&body, &answer->frame);
    case MessageType::kHeartbeat: return OnHeartbeat(header, &body, &answer->frame);
    case MessageType::kLeave: {
      LeaveRequest request;
      if (!request.Decode(&body)) return Malformed(header.type);
      table_->Leave(request.id, request.incarnation);
      return {};
    }
    case MessageType::kClearTag: {
      const auto tag = body.Get<uint64_t>();
      if (!body.AtEnd()) return Malformed(header.type);
      answer->frame.Put(static_cast<uint32_t>(clear_(tag)));
      return {};
    }
    case MessageType::kClears: {
      ClearsMessage message;
      if (!message.Decode(&body)) return Malformed(header.type);
      message.view = header.number;
      const auto clears = clears_->Answer(message);
      if (clears.ok()) clears->Encode(&answer->frame);
      return clears.status();
    }
    default:
      return Corrupt(
          fmt::format("a node cannot be asked for message type {}", static_cast<int>(header.type)));
  }
}

Status PeerRequests::OnLookup(const FrameHeader& header, FrameReader* body, FrameWriter* out) {
  auto& request = scratch.lookup;
  if (!request.Decode(body)) return Malformed(MessageType::kLookup);
  scratch.records.assign(request.keys.size(), Record{});
  scratch.others.clear();
  const bool chooses = (header.can & FrameHeader::kChooses) != 0;
  shard_->Lookup(request.keys, request.reader, request.exclude, scratch.records, Clock::now(),
                 chooses ? &scratch.others : nullptr);
  EncodeRecords(scratch.records, scratch.others, out);
  counters_->lookups.Add(1);
  counters_->lookup_keys.Add(request.keys.size());
  return {};
}

Status PeerRequests::OnDirectory(FrameReader* body, FrameWriter* out) {
  if (!body->AtEnd()) return Malformed(MessageType::kDirectory);
  DirectoryOk ok = shard_->Directory(Clock::now());
  ok.offset = pool_->size();  // what is beside the slots (node.cc)
  ok.Encode(out);
  if (ok.buckets != 0) counters_->grants.Add(1);
  return {};
}

Status PeerRequests::OnOwner(const FrameHeader& header, FrameReader* body, FrameWriter* out) {
  const MessageType type = header.type;
  auto& request = scratch.owner;
  if (!request.Decode(type, body)) return Malformed(type);
  // Its own shard would take this node's own words for those of a former process, for ever.
  if (request.stamp.node == self_.node) {
    return InvalidArgument(
        fmt::format("the caller speaks for node {:016x}, which is this one: give each node an id "
                    "of its own",
                    self_.node));
  }
  const TimePoint now = Clock::now();
  auto& answer = scratch.shard_answer;
  answer.outcomes.assign(request.publish.size(), kRefused);
  const bool hears_served =
      type == MessageType::kWithdraw && (header.can & FrameHeader::kHearsServed) != 0;
  answer.unserved_ms.assign(hears_served ? request.withdraw.size() : 0, 0);
  Status s;
  if (type == MessageType::kPublish) {
    s = shard_->Publish(request.stamp, request.publish, answer.outcomes, now);
  } else if (type == MessageType::kWithdraw) {
    s = shard_->Withdraw(request.stamp, request.withdraw, now, answer.unserved_ms);
    if (!s.ok()) answer.unserved_ms.clear();
  } else {
    s = shard_->Contact(request.stamp, now);
  }
  answer.code = s.code();
  const ShardVoice voice = shard_->Voice(request.stamp.node, now);
  answer.stamp = voice.stamp;
  answer.instance = voice.instance;
  answer.clears.reset();
  if (type == MessageType::kContact && (header.can & FrameHeader::kHearsClears) != 0)
    answer.clears = clears_->Voice(now);
  answer.Encode(out);
  return {};
}

Status PeerRequests::OnRead(FrameReader* body, PeerAnswer* answer) {
  auto& request = scratch.read;
  if (!request.Decode(body)) return Malformed(MessageType::kRead);
  scratch.lengths.assign(request.items.size(), 0);
  const bool same_life = request.incarnation == self_.incarnation;  // model: same_life
  auto& pages = answer->pages;
  if (same_life) {
    scratch.wanted.clear();
    for (const ReadItem& item : request.items)
      scratch.wanted.push_back({item.offset, item.generation, item.key});
    pages.resize(request.items.size());
    pool_->FindManyAt(scratch.wanted, pages, Clock::now());
  }
  uint64_t bytes = 0;
  size_t kept = 0;
  for (size_t i = 0; i < pages.size(); ++i) {
    const uint32_t length = request.items[i].length;
    if (!pages[i] || pages[i].payload().size() != length) continue;
    scratch.lengths[i] = length;
    bytes += length;
    pages[kept++] = std::move(pages[i]);
  }
  pages.resize(kept);
  if (bytes > kMaxPayload) {
    return InvalidArgument(
        fmt::format("Read of {} bytes: at most {} in one answer", bytes, kMaxPayload));
  }
  counters_->served_bytes.Add(bytes);
  counters_->served_pages.Add(answer->pages.size());
  counters_->served_absent.Add(request.items.size() - answer->pages.size());
  EncodeReadOk(scratch.lengths, &answer->frame);
  return {};
}

Status PeerRequests::OnFetch(FrameReader* body, FrameWriter* out) {
  auto& keys = scratch.fetch;
  if (!DecodeKeys(body, &keys)) return Malformed(MessageType::kFetch);
  FetchAnswer answer{self_.incarnation, std::vector<FetchPlace>(keys.size())};
  std::vector<PagePin> pins(keys.size());
  const TimePoint now = Clock::now();
  pool_->FindMany(keys, pins);
  std::vector<Key> absent;
  std::vector<size_t> which;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!pins[i]) {
      absent.push_back(keys[i]);
      which.push_back(i);
      continue;
    }
    const SlotHeader& header = pins[i].header();
    answer.places[i] = {pins[i].offset(), header.generation, header.length, kFetchHere};
    // No shard knows that the reader was told: the slot rests for its lease. model: served_directly
    pool_->Told(pins[i].offset(), header.generation, now);
  }
  if (disk_ != nullptr && !absent.empty()) {
    std::vector<uint8_t> coming(absent.size(), 0);
    disk_->Want(absent, std::nullopt, coming);
    for (size_t i = 0; i < absent.size(); ++i)
      if (coming[i]) answer.places[which[i]].state = kFetchComing;
  }
  answer.Encode(out);
  return {};
}

Status PeerRequests::OnConnect(FrameReader* body, PeerAnswer* answer) {
  ConnectRequest request;
  if (!request.Decode(body)) return Malformed(MessageType::kConnect);
  if (fabric_ == nullptr) return Unavailable("this node has no rails");
  ConnectOk ok;
  auto queues = fabric_->Accept(request, &ok);
  if (!queues.ok()) return queues.status();
  answer->lent = std::move(*queues);
  ok.Encode(&answer->frame);
  return {};
}

Status PeerRequests::OnOffer(FrameReader* body, FrameWriter* out) {
  OfferRequest offer;
  if (!offer.Decode(body)) return Malformed(MessageType::kOffer);
  const auto answer = take_(offer);
  if (!answer.ok()) return answer.status();
  answer->Encode(out);
  return {};
}

Status PeerRequests::OnHeartbeat(const FrameHeader& header, FrameReader* body, FrameWriter* out) {
  Heartbeat beat;
  if (!beat.Decode(body)) return Malformed(MessageType::kHeartbeat);
  const TimePoint now = Clock::now();
  if (Status s = table_->Heartbeat(beat.member, now, beat.health); !s.ok()) return s;
  counters_->heartbeats_answered.Add(1);
  out->Can(Heartbeat::kHearsAll);
  const MemberListMessage list = ToWire(table_->List(now));
  if ((header.can & FrameHeader::kHearsCrowds) != 0) {
    list.EncodeOnce(out);
  } else {
    list.Encode(out);
  }
  return {};
}

}  // namespace peercache
