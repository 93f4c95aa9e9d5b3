#include "peer_world.h"

#include <algorithm>
#include <cstring>

#include "wire/heartbeat.h"

namespace peercache::fuzz {
namespace {

Reached greeted("peers greeted"), found("lookups that found"), owner("owner messages taken"),
    read("pages read"), absent("pages absent"), listed("members listed"), other("other answers"),
    offered("pages offered"), cleared("clears known"), challenged("peers challenged");

constexpr uint64_t kSelf = 99, kOwner = 7, kReader = 8;

ShardOptions SmallShard() {
  ShardOptions options;
  options.self = kSelf;
  options.max_records = 1024;
  options.max_owners = 16;
  options.stamp_base = 1'000'000'000'000;
  return options;
}

TableOptions SmallTable() {
  TableOptions options;
  options.max_members = 16;
  return options;
}

// As one that has been told all: every answer is `settled`.
TimePoint LongAgo() { return Clock::now() - std::chrono::hours(1); }

const Hello kHello{PeerWorld::kCluster, "10.0.0.1:1", kSelf, PeerWorld::kIncarnation};

Result<OfferAnswer> TakeNothing(const OfferRequest& offer) {
  return OfferAnswer{0, 1, std::vector<uint8_t>(offer.items.size(), kNoRoom)};
}

std::unique_ptr<Secret> TheSecret() {
  auto secret = Secret::Of(PeerWorld::kToken, PeerWorld::kCluster, std::chrono::seconds(60));
  Require(secret.ok(), "the token is one");
  return std::move(*secret);
}

}  // namespace

PeerWorld::Stored& PeerWorld::Shared() {
  static Stored stored = [] {
    Stored made;
    PoolOptions options;
    options.bytes = size_t{8} << 20;
    options.huge_pages = HugePages::kOff;
    auto pool = Pool::Create(options);
    Require(pool.ok(), "the pool is there");
    made.pool = std::move(*pool);
    for (size_t i = 0; i < kPages; ++i) {
      Page page;
      page.key.bytes.fill(static_cast<uint8_t>(i + 1));
      page.bytes.assign(1000 + i, std::byte(i + 1));  // one size of slot, told apart by length
      auto reservation = made.pool->Reserve(page.bytes.size());
      Require(reservation.ok(), "the pool has room");
      std::ranges::copy(page.bytes, reservation->payload().begin());
      bool duplicate = false;
      const PagePin pin = made.pool->Commit(std::move(*reservation), page.key, 1, 0, &duplicate);
      page.offset = pin.offset();
      page.generation = pin.header().generation;
      made.pages.push_back(std::move(page));
    }
    return made;
  }();
  return stored;
}

PeerWorld::PeerWorld()
    : stored_(Shared()),
      secret_(TheSecret()),
      shard_(SmallShard()),
      table_(SmallTable(), LongAgo()),
      peers_(kHello, none_.get(), OwnerTimes{}),
      clears_({}, &peers_, &views_, &counters_, [](const ClearOrder&) { return size_t{0}; }),
      open_(
          kHello, none_.get(), stored_.pool.get(), &shard_, &table_, &counters_, nullptr, &clears_,
          [](uint64_t) { return size_t{0}; }, TakeNothing),
      guarded_(
          kHello, secret_.get(), stored_.pool.get(), &shard_, &table_, &counters_, nullptr,
          &clears_, [](uint64_t) { return size_t{0}; }, TakeNothing) {}

Status PeerWorld::Both::OnHello(const Hello& hello, Greeting* answer) {
  PeerRequests& node = hello.key == 0 ? world->open_ : world->guarded_;
  Status s = node.OnHello(hello, answer);
  world->hello_ = hello;
  world->challenge_.reset();
  if (answer->proving) world->challenge_ = answer->proving->challenge;
  return s;
}

Status PeerWorld::Both::OnRequest(const FrameHeader& header, FrameReader body, PeerAnswer* answer) {
  return world->open_.OnRequest(header, body, answer);
}

bool PeerWorld::Both::Trusts(uint64_t key) const {
  return (key == 0 ? world->open_ : world->guarded_).Trusts(key);
}

std::vector<std::byte> PeerWorld::ValidBody(MessageType type) {
  FrameWriter w;
  w.Start(type, 1);
  std::vector<Key> keys;
  for (const Page& page : stored_.pages) keys.push_back(page.key);
  OwnerStamp stamp{.node = kOwner,
                   .incarnation = kIncarnation,
                   .epoch = 1,
                   .echo = shard_.Voice(kOwner, Clock::now()).stamp,
                   .ttl_ms = 3000,
                   .lease_ms = 1000};
  switch (type) {
    case MessageType::kHello: Hello{kCluster, "", kOwner, 1}.Encode(&w); break;
    case MessageType::kProve: {
      const auto key = secret_->ToProve(Clock::now());
      const auto proof = Prove(*key, PeerRole::kCaller, hello_, challenge_.value_or(Challenge{}));
      ProveMessage{*proof}.Encode(&w);
      break;
    }
    case MessageType::kLookup: EncodeLookup(kReader, {}, keys, &w); break;
    case MessageType::kContact:
      stamp.sequence = ++sequence_;
      EncodeContact(stamp, &w);
      break;
    case MessageType::kPublish: {
      stamp.sequence = ++sequence_;
      std::vector<PublishItem> items;
      for (const Key& key : keys) {
        items.push_back({key, {kOwner, kIncarnation, 4096, 1, 0, 4096, Tier::kMemory, 0, 1000}});
      }
      EncodePublish(stamp, items, &w);
      break;
    }
    case MessageType::kWithdraw: {
      stamp.sequence = ++sequence_;
      std::vector<WithdrawItem> items;
      for (const Key& key : keys) items.push_back({key, 1});
      EncodeWithdraw(stamp, items, &w);
      break;
    }
    case MessageType::kRead: {
      std::vector<ReadItem> items;
      for (const Page& page : stored_.pages) {
        items.push_back(
            {page.offset, page.generation, static_cast<uint32_t>(page.bytes.size()), 0, page.key});
      }
      EncodeRead(kIncarnation, items, &w);
      break;
    }
    case MessageType::kHeartbeat: {
      Member member;
      member.id = "member";
      member.incarnation = 1;
      member.host = "10.0.0.1";
      member.peer_port = 1;
      member.capacity_bytes = 1 << 30;
      Heartbeat{member, {}}.Encode(&w);
      break;
    }
    case MessageType::kLeave: LeaveRequest{"member", 1}.Encode(&w); break;
    case MessageType::kOffer: {
      std::vector<OfferItem> items;
      for (const Page& page : stored_.pages)
        items.push_back({page.key, 1, static_cast<uint32_t>(page.bytes.size()), 1});
      EncodeOffer(kOwner, 1, items, &w);
      break;
    }
    case MessageType::kFetch: EncodeKeys(keys, &w); break;
    case MessageType::kClearTag: w.Put(uint64_t{1}); break;
    case MessageType::kClears: ClearsMessage{{{}, {{1, 5}}}, 1, {kReader}}.Encode(&w); break;
    default: break;
  }
  const auto frame = w.Finish();
  return {frame.begin() + sizeof(FrameHeader), frame.end()};
}

void PeerWorld::CheckAnswer(MessageType request, ConstBytes frame, ConstBytes payload) {
  Require(frame.size() >= sizeof(FrameHeader), "an answer is a frame");
  FrameHeader header;
  std::memcpy(&header, frame.data(), sizeof(header));
  Require(CheckHeader(header).ok(), "an answer has a valid header");
  Require(header.body_length == frame.size() - sizeof(header), "and the length it says");
  Require(header.payload_length == payload.size(), "and the payload it says");
  const bool to_key = request == MessageType::kHello && header.type == MessageType::kChallenge;
  Require(to_key || static_cast<int>(header.type) == static_cast<int>(request) + 1,
          "and the type that is due");
  FrameReader body(frame.subspan(sizeof(header)));
  switch (header.type) {
    case MessageType::kHelloOk: {
      HelloOk ok;
      Require(ok.Decode(&body) && ok.node == kSelf, "HelloOk");
      greeted.Hit();
      break;
    }
    case MessageType::kChallenge: {
      Challenge challenge;
      Require(challenge.Decode(&body) && challenge.node == kSelf, "Challenge");
      challenged.Hit();
      break;
    }
    case MessageType::kProveOk: Require(body.AtEnd(), "ProveOk"); break;
    case MessageType::kLookupOk: {
      std::vector<Record> records;
      std::vector<OtherRecord> others;
      Require(DecodeRecords(&body, &records, &others), "LookupOk");
      for (const Record& r : records) {
        if (r.node != 0) found.Hit();
      }
      break;
    }
    case MessageType::kPublishOk:
    case MessageType::kWithdrawOk:
    case MessageType::kContactOk: {
      WithdrawAnswer answer;
      const bool withdrawn = request == MessageType::kWithdraw;
      Require(withdrawn ? answer.Decode(&body) : answer.ShardAnswer::Decode(&body), "ShardAnswer");
      Require(answer.code != Code::kOk || (answer.instance != 0 && answer.stamp > 0),
              "whoever is accepted is told what to echo");
      if (answer.code == Code::kOk) owner.Hit();
      break;
    }
    case MessageType::kReadOk: {
      std::vector<uint32_t> lengths;
      Require(DecodeReadOk(&body, &lengths), "ReadOk");
      for (const uint32_t length : lengths) {
        if (length == 0) {
          absent.Hit();
          continue;
        }
        read.Hit();
        Require(length <= payload.size(), "the payload holds every page");
        const auto page = std::ranges::find_if(
            stored_.pages, [&](const Page& p) { return p.bytes.size() == length; });
        Require(page != stored_.pages.end(), "a page of ours");
        Require(std::ranges::equal(payload.first(length), page->bytes), "and its bytes");
        payload = payload.subspan(length);
      }
      Require(payload.empty(), "nothing but the pages");
      break;
    }
    case MessageType::kHeartbeatOk: {
      MemberListMessage list;
      FrameReader again = body;  // in the form for members of this release
      Require(list.Decode(&body) || list.DecodeOnce(&again), "HeartbeatOk");
      if (!list.members.empty()) listed.Hit();
      break;
    }
    case MessageType::kOfferOk: {
      OfferAnswer answer;
      Require(answer.Decode(&body), "OfferOk");
      if (!answer.outcomes.empty()) offered.Hit();
      break;
    }
    case MessageType::kFetchOk: {
      FetchAnswer answer;
      Require(answer.Decode(&body) && answer.incarnation == kIncarnation, "FetchOk");
      for (const FetchPlace& place : answer.places)
        if (place.state == kFetchHere) found.Hit();
      break;
    }
    case MessageType::kDirectoryOk: {
      DirectoryOk answer;
      Require(answer.Decode(&body), "DirectoryOk");
      other.Hit();
      break;
    }
    case MessageType::kClearsOk: {
      ClearsAnswer answer;
      Require(answer.Decode(&body), "ClearsOk");
      Require(answer.state.entries.size() <= kMostClears, "no more clears than are kept");
      if (!answer.state.entries.empty()) cleared.Hit();
      break;
    }
    case MessageType::kLeaveOk:
    case MessageType::kClearTagOk: other.Hit(); break;
    default: Fail("an answer to something that is no request");
  }
}

}  // namespace peercache::fuzz
