// What a caller that has the cluster's secret can do to a node by every message of the wire: it is
// refused or ignored, and the honest go on. Its answers are in lying_peer_test.cc, strangers and
// those without the secret in proving_test.cc, engines in hostile_engine_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "node/integration/lying_peer_testing.h"
#include "node/integration/node_testing.h"
#include "wire/fabric.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;
using testing::Eventually;
using testing::LyingPeer;
using testing::RawBytes;
using testing::RawFrame;
using testing::Shown;
using testing::ShownBy;
using testing::TempDir;
using testing::TestCluster;
using testing::TestEngine;

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
constexpr size_t kPage = 16 << 10;
constexpr size_t kPages = 64;

enum class Fate : uint8_t { kRefused, kAnswered };

struct Row {
  MessageType type;
  const char* what;
  Fate fate;
  std::function<void(FrameWriter*)> body;
};

OwnerStamp Stamp(uint64_t node = 7) {
  return {.node = node, .incarnation = 1, .epoch = 1, .sequence = 1, .ttl_ms = 1, .lease_ms = 1};
}
PublishItem Item(uint64_t key, uint64_t node = 7) {
  return {testing::KeyOf(key), {.node = node, .incarnation = 1, .generation = 1, .length = kPage}};
}
void PutCount(FrameWriter* w, uint32_t count) { w->Put(count); }

std::function<void(FrameWriter*)> Beat(const std::function<void(Heartbeat*)>& change) {
  return [change](FrameWriter* w) {
    Heartbeat beat;
    beat.member = {.id = "m",
                   .incarnation = 1,
                   .host = "127.0.0.1",
                   .peer_port = 1,
                   .capacity_bytes = 1,
                   .synced = {},
                   .unreachable = {}};
    change(&beat);
    beat.Encode(w);
  };
}
std::function<void(FrameWriter*)> Clearing(ClearsMessage message) {
  return [message](FrameWriter* w) { message.Encode(w); };
}

std::vector<Row> LookupRows() {
  using enum Fate;
  constexpr auto kType = MessageType::kLookup;
  const std::vector<Key> twice(kMaxItems, testing::KeyOf(1));
  const std::vector<uint64_t> many(kMaxMembers + 1);
  return {
      {kType, "nothing", kRefused, [](FrameWriter*) {}},
      {kType, "a key too few", kRefused,
       [](FrameWriter* w) {
         w->Put(uint64_t{1});
         PutCount(w, 0);
         PutCount(w, 1);
       }},
      {kType, "more keys than any message has", kRefused,
       [](FrameWriter* w) {
         w->Put(uint64_t{1});
         PutCount(w, 0);
         PutCount(w, UINT32_MAX);
       }},
      {kType, "a byte too many", kRefused,
       [](FrameWriter* w) {
         EncodeLookup(1, {}, {}, w);
         w->Put(uint8_t{0});
       }},
      {kType, "more to leave out than there are members", kRefused,
       [many](FrameWriter* w) { EncodeLookup(1, many, {}, w); }},
      {kType, "one key as often as fits", kAnswered,
       [twice](FrameWriter* w) { EncodeLookup(kMax, {}, twice, w); }},
      {MessageType::kDirectory, "with a body", kRefused,
       [](FrameWriter* w) { w->Put(uint8_t{1}); }},
      {MessageType::kDirectory, "as it should be", kAnswered, [](FrameWriter*) {}},
  };
}

std::vector<Row> OwnerRows() {
  using enum Fate;
  constexpr auto kPublish = MessageType::kPublish, kWithdraw = MessageType::kWithdraw,
                 kContact = MessageType::kContact;
  const auto publish = [](OwnerStamp stamp, std::vector<PublishItem> items) {
    return [=](FrameWriter* w) { EncodePublish(stamp, items, w); };
  };
  const auto contact = [](OwnerStamp stamp) {
    return [=](FrameWriter* w) { EncodeContact(stamp, w); };
  };
  const uint64_t node = NodeHash("a");
  OwnerStamp last = Stamp(9), later = Stamp(9), absurd = Stamp(11);
  last.incarnation = last.epoch = later.incarnation = later.epoch = kMax;
  last.sequence = kMax - 1;
  later.sequence = kMax;
  last.echo = std::numeric_limits<int64_t>::max();
  later.echo = std::numeric_limits<int64_t>::min();
  absurd.ttl_ms = UINT32_MAX;
  absurd.lease_ms = UINT16_MAX;
  absurd.reserved = UINT16_MAX;
  PublishItem odd = Item(1, 11);
  odd.record.offset = odd.record.generation = odd.record.checksum = kMax;
  odd.record.length = UINT32_MAX;
  odd.record.tier = static_cast<Tier>(255);
  odd.record.replica = 255;
  odd.record.lease_ms = UINT16_MAX;
  return {
      {kPublish, "nothing", kRefused, [](FrameWriter*) {}},
      {kPublish, "more records than any message has", kRefused,
       [](FrameWriter* w) {
         w->Put(Stamp());
         PutCount(w, kMaxItems + 1);
       }},
      {kPublish, "a record too few", kRefused,
       [](FrameWriter* w) {
         w->Put(Stamp());
         PutCount(w, 1);
       }},
      {kPublish, "in nobody's name", kAnswered, publish(Stamp(0), {Item(1, 0)})},
      {kPublish, "in the node's own name", kRefused, publish(Stamp(node), {Item(1, node)})},
      {kPublish, "records of somebody else", kAnswered, publish(Stamp(), {Item(1, node)})},
      {kPublish, "a key twice", kAnswered, publish(Stamp(), {Item(1), Item(1)})},
      {kPublish, "a record that cannot be", kAnswered, publish(absurd, {odd})},
      {kWithdraw, "nothing", kRefused, [](FrameWriter*) {}},
      {kWithdraw, "more than any message has", kRefused,
       [](FrameWriter* w) {
         w->Put(Stamp());
         PutCount(w, UINT32_MAX);
       }},
      {kWithdraw, "what the node itself holds", kRefused,
       [node](FrameWriter* w) {
         EncodeWithdraw(Stamp(node), std::vector<WithdrawItem>{{testing::KeyOf(0), 1}}, w);
       }},
      {kWithdraw, "what nobody has", kAnswered,
       [](FrameWriter* w) {
         EncodeWithdraw(Stamp(), std::vector<WithdrawItem>(2, {testing::KeyOf(1), kMax}), w);
       }},
      {kWithdraw, "what nobody has, and when it was served", kAnswered,
       [](FrameWriter* w) {
         w->Can(FrameHeader::kHearsServed);
         EncodeWithdraw(Stamp(), std::vector<WithdrawItem>(2, {testing::KeyOf(1), kMax}), w);
       }},
      {kContact, "nothing", kRefused, [](FrameWriter*) {}},
      {kContact, "a byte too many", kRefused,
       [](FrameWriter* w) {
         EncodeContact(Stamp(), w);
         w->Put(uint8_t{0});
       }},
      {kContact, "in the node's own name", kRefused, contact(Stamp(node))},
      {kContact, "with the last sequence number but one", kAnswered, contact(last)},
      {kContact, "and the last", kAnswered, contact(later)},
  };
}

std::vector<Row> ReadRows() {
  using enum Fate;
  constexpr auto kType = MessageType::kRead;
  const std::vector<ReadItem> absurd(3, {kMax, kMax, UINT32_MAX, UINT32_MAX, testing::KeyOf(0)});
  return {
      {kType, "nothing", kRefused, [](FrameWriter*) {}},
      {kType, "more pages than any message has", kRefused,
       [](FrameWriter* w) {
         w->Put(uint64_t{1});
         PutCount(w, UINT32_MAX);
       }},
      {kType, "of another life", kAnswered,
       [absurd](FrameWriter* w) { EncodeRead(kMax, absurd, w); }},
      {MessageType::kConnect, "more rails than there are", kRefused,
       [](FrameWriter* w) { ConnectRequest{std::vector<QueueAddress>(kMaxQueues + 1)}.Encode(w); }},
      {MessageType::kConnect, "queue pairs that cannot be", kRefused,
       [](FrameWriter* w) {
         QueueAddress queue{.queue = UINT32_MAX,
                            .sequence = UINT32_MAX,
                            .lid = 1,
                            .mtu = 255,
                            .reads = 255,
                            .ethernet = 255};
         ConnectRequest{std::vector<QueueAddress>(kMaxQueues, queue)}.Encode(w);
       }},
  };
}

std::vector<Row> MemberRows() {
  using enum Fate;
  constexpr auto kType = MessageType::kHeartbeat;
  std::vector<uint64_t> many(kMostListed);
  for (size_t i = 0; i < many.size(); ++i) many[i] = NodeHash("a") - i;
  const auto tail = [](size_t at, uint8_t value) {  // a byte from the end
    return [=](FrameWriter* w) {
      FrameWriter whole;
      whole.Start(kType, 1);
      Beat([](Heartbeat*) {})(&whole);
      const auto bytes = whole.bytes().subspan(sizeof(FrameHeader));
      RawBytes body(bytes.begin(), bytes.end());
      body[body.size() - at] = std::byte{value};
      w->PutSpan(std::span<const std::byte>(body));
    };
  };
  return {
      {kType, "nothing", kRefused, [](FrameWriter*) {}},
      {kType, "nobody", kRefused, Beat([](Heartbeat* b) { b->member.id.clear(); })},
      {kType, "a name for terminals", kRefused, Beat([](Heartbeat* b) { b->member.id = "\x1b["; })},
      {kType, "at no port", kRefused, Beat([](Heartbeat* b) { b->member.peer_port = 0; })},
      {kType, "in no state", kRefused,
       Beat([](Heartbeat* b) { b->member.state = static_cast<MemberState>(9); })},
      {kType, "more rails up than there are", kRefused,
       Beat([](Heartbeat* b) { b->health.rails_up = 1; })},
      {kType, "more delivered than asked for", kRefused,
       Beat([](Heartbeat* b) { b->health.recent_delivered = kMax; })},
      {kType, "aligned in a way that is none", kRefused, tail(45, 99)},
      {kType, "whom it does not reach, and all for itself", kAnswered, Beat([many](Heartbeat* b) {
         b->member.unreachable = many;
         b->member.synced = many;
         b->member.capacity_bytes = kMax;
       })},
      {kType, "as the node itself, born later", kAnswered, Beat([](Heartbeat* b) {
         b->member.id = "a";
         b->member.incarnation = kMax;
       })},
      {MessageType::kLeave, "nothing", kRefused, [](FrameWriter*) {}},
      {MessageType::kLeave, "who was never there", kAnswered,
       [](FrameWriter* w) {
         LeaveRequest{"nobody", kMax}.Encode(w);
       }},
  };
}

std::vector<Row> ClearRows() {
  using enum Fate;
  constexpr auto kType = MessageType::kClears;
  ClearsMessage full;
  for (uint64_t i = 0; i <= kMostClears; ++i) full.state.entries.push_back({100 + i, 1});
  return {
      {MessageType::kClearTag, "nothing", kRefused, [](FrameWriter*) {}},
      {MessageType::kClearTag, "a byte too many", kRefused,
       [](FrameWriter* w) {
         w->Put(kMax);
         w->Put(uint8_t{0});
       }},
      {MessageType::kClearTag, "what nobody has set", kAnswered,
       [](FrameWriter* w) { w->Put(kMax); }},
      {kType, "nothing", kRefused, [](FrameWriter*) {}},
      {kType, "more than anybody remembers", kRefused, Clearing(full)},
      {kType, "in epoch 2^64-1", kRefused, Clearing({{{}, {{1, kMax}}}, 0, {}})},
      {kType, "with a floor of 2^64-1", kRefused, Clearing({{{{0, kMax, 1}}, {}}, 0, {}})},
      {kType, "in the last epoch", kRefused, Clearing({{{}, {{1, kMaxClearEpoch}}}, 0, {}})},
      {kType, "with the highest floor", kRefused,
       Clearing({{{{0, kMaxClearEpoch, 1}}, {}}, 1, {}})},
      {kType, "of which some are forgotten, below no floor", kRefused,
       Clearing({{{{0, 0, kMax}}, {}}, 0, {}})},
      {kType, "of a group that is none", kRefused, Clearing({{{{kTagGroups, 1, 1}}, {}}, 0, {}})},
      {kType, "of one group twice", kRefused, Clearing({{{{1, 1, 1}, {1, 2, 2}}, {}}, 0, {}})},
      {kType, "for a purpose that is none", kRefused, Clearing({{}, 9, {}})},
      {kType, "unheard by more than there are members", kRefused,
       Clearing({{}, 2, std::vector<uint64_t>(kMaxMembers + 1)})},
      {kType, "that nobody has made, and that all know", kAnswered,
       Clearing({{}, ClearsMessage::kHeard, {kMax, kMax}})},
  };
}

std::vector<Row> OfferRows() {
  using enum Fate;
  constexpr auto kType = MessageType::kOffer;
  const auto offer = [](size_t count, uint32_t length) {
    return [=](FrameWriter* w) {
      const std::vector<OfferItem> items(count, {testing::KeyOf(9'000), 1, length, UINT32_MAX});
      EncodeOffer(NodeHash("a"), kMax, items, w);
    };
  };
  return {
      {kType, "nothing", kRefused, [](FrameWriter*) {}},
      {kType, "more pages than an offer has", kRefused, offer(kMaxOffered + 1, 1)},
      {kType, "more bytes than an offer has", kRefused, offer(2, UINT32_MAX)},
      {kType, "a page of 4 GiB", kAnswered, offer(1, UINT32_MAX)},
      {kType, "pages of no bytes", kAnswered, offer(kMaxOffered, 0)},
      {kType, "one page again and again", kAnswered, offer(kMaxOffered, 16)},
  };
}

std::vector<Row> FetchRows() {
  using enum Fate;
  constexpr auto kType = MessageType::kFetch;
  const auto keys = [](size_t count) {
    return [=](FrameWriter* w) { EncodeKeys(std::vector<Key>(count, testing::KeyOf(9'000)), w); };
  };
  return {
      {kType, "nothing", kRefused, [](FrameWriter*) {}},
      {kType, "no page", kAnswered, keys(0)},
      {kType, "more pages than there may be", kRefused, keys(kMaxItems + 1)},
      {kType, "one page that is nowhere, again and again", kAnswered, keys(kMaxItems)},
  };
}

std::vector<Row> Rows() {
  std::vector<Row> rows;
  for (auto part :
       {LookupRows(), OwnerRows(), ReadRows(), MemberRows(), ClearRows(), OfferRows(), FetchRows()})
    rows.insert(rows.end(), part.begin(), part.end());
  return rows;
}

// Two honest nodes with an engine each, and somebody with their secret.
class HostilePeerTest : public ::testing::Test {
 protected:
  HostilePeerTest() {
    EXPECT_TRUE(Eventually([&] { return writer_.Set(0, kPages) == kPages; }));
  }

  // The honest read what was set, and set more.
  void ExpectServes(const char* after) {
    const bool served = Eventually([&] {
      next_ += 8;
      return reader_.Get(0, kPages).hits == kPages && writer_.Set(next_, 8) == 8;
    });
    EXPECT_TRUE(served) << "after " << after;
  }

  TempDir files_;
  std::string token_ = files_.Write("token", testing::kLyingToken);
  TestCluster cluster_{[this](NodeConfig* c) {
    c->auth_token_file = token_;
    c->promotion_percent = 0;  // pages are read where they were set, each time
    c->peer_timeout = 500ms;
  }};
  std::unique_ptr<Node> node_ = cluster_.Start("a"), other_ = cluster_.Start("b");
  TestEngine writer_{node_->socket(), kPages, kPage}, reader_{other_->socket(), kPages, kPage};
  LyingPeer liar_{node_->peer_port()};
  uint64_t next_ = kPages;
};

TEST_F(HostilePeerTest, EveryRequestThatLiesIsRefusedOrIgnored) {
  for (const Row& row : Rows()) {
    const std::string name = fmt::format("{} {}", static_cast<int>(row.type), row.what);
    const auto answered = liar_.Ask(RawFrame(row.type, 1, row.body));
    if (row.fate == Fate::kAnswered) {
      EXPECT_TRUE(answered.status.ok()) << name << ": " << answered.status.ToString();
      EXPECT_EQ(answered.type, AnswerTo(row.type)) << name;
    } else {
      EXPECT_FALSE(answered.status.ok()) << name;
      EXPECT_NE(answered.status.code(), Code::kDeadlineExceeded) << name;
    }
    ExpectServes(name.c_str());
  }
}

TEST_F(HostilePeerTest, WhatIsNoRequestOfAPeerIsRefused) {
  std::vector<MessageType> shown;
  for (const Row& row : Rows()) shown.push_back(row.type);
  for (int value = 0; value < 256; ++value) {
    const auto type = static_cast<MessageType>(value);
    if (ShownBy(type) == Shown::kByRows) {
      EXPECT_TRUE(std::ranges::count(shown, type) > 0) << value << " has no row";
      continue;
    }
    const auto answered = liar_.Ask(RawFrame(type, 1, [](FrameWriter* w) { w->Put(uint64_t{0}); }));
    EXPECT_FALSE(answered.status.ok()) << value;
  }
  ExpectServes("all of them");
}

// A page of the node, asked for so often that no frame could carry the answer.
TEST_F(HostilePeerTest, MorePagesThanAnAnswerCarriesAreNotSent) {
  constexpr size_t kLarge = 256 << 10, kSome = 16, kFirst = 5'000;
  TestEngine engine(node_->socket(), kSome, kLarge);
  ASSERT_TRUE(Eventually([&] { return engine.Set(kFirst, kSome) == kSome; }));
  const std::vector<Key> keys = TestEngine::Keys(kFirst, kSome);
  const auto found = liar_.Ask(RawFrame(
      MessageType::kLookup, 1, [&](FrameWriter* w) { EncodeLookup(liar_.hash(), {}, keys, w); }));
  std::vector<Record> records;
  std::vector<OtherRecord> others;
  FrameReader body(found.body);
  ASSERT_TRUE(found.status.ok() && DecodeRecords(&body, &records, &others));
  const auto held = std::ranges::find(records, NodeHash("a"), &Record::node);
  ASSERT_NE(held, records.end()) << "the node's shard has some of its own pages";
  const Key& key = keys[static_cast<size_t>(held - records.begin())];
  const std::vector<ReadItem> items(kMaxItems,
                                    {held->offset, held->generation, held->length, 0, key});
  const auto read = liar_.Ask(RawFrame(
      MessageType::kRead, 1, [&](FrameWriter* w) { EncodeRead(held->incarnation, items, w); }));
  EXPECT_EQ(read.status.code(), Code::kInvalidArgument) << read.status.ToString();
  ExpectServes("a read of 16 GiB");
}

}  // namespace
}  // namespace peercache
