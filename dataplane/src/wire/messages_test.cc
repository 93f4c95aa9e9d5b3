#include "wire/messages.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "wire/heartbeat.h"

namespace peercache {
namespace {

Key SomeKey(uint8_t fill) {
  Key key;
  key.bytes.fill(fill);
  return key;
}

Member SomeMember() {
  Member m;
  m.id = "node7.default";
  m.incarnation = 42;
  m.state = MemberState::kDraining;
  m.host = "10.0.0.7";
  m.peer_port = 31998;
  m.http_port = 31997;
  m.capacity_bytes = 1 << 30;
  m.synced = {1, 2, 3};
  m.unreachable = {4, 5};
  return m;
}

// Every message: how to write a full one, and how to read one.
struct Case {
  const char* name;
  std::function<void(FrameWriter*)> encode;
  std::function<bool(FrameReader*)> decode;
};

template <typename T>
std::function<bool(FrameReader*)> Decoder() {
  return [](FrameReader* r) {
    T message;
    return message.Decode(r);
  };
}

std::vector<Case> AllMessages() {
  const OwnerStamp stamp{1, 2, 3, 4, 5};
  const Record record{1, 2, 3, 4, 5, 6, Tier::kMemory, {}};
  const std::vector<Key> keys = {SomeKey(1), SomeKey(2)};
  return {
      {"Error", [](FrameWriter* w) { ErrorMessage{InvalidArgument("field x")}.Encode(w); },
       Decoder<ErrorMessage>()},
      {"Hello",
       [](FrameWriter* w) {
         Hello{"c", "", 1, 2}.Encode(w);
       },
       Decoder<Hello>()},
      {"Challenge",
       [](FrameWriter* w) {
         Challenge{1, 2, 0, {3}, {4}}.Encode(w);
       },
       Decoder<Challenge>()},
      {"Prove", [](FrameWriter* w) { ProveMessage{{5}}.Encode(w); }, Decoder<ProveMessage>()},
      {"HelloOk",
       [](FrameWriter* w) {
         HelloOk{1, 2}.Encode(w);
       },
       Decoder<HelloOk>()},
      {"ShardAnswer",
       [](FrameWriter* w) {
         ShardAnswer{1, 2, Code::kAborted, {1, 0}}.Encode(w);
       },
       Decoder<ShardAnswer>()},
      {"Offer",
       [=](FrameWriter* w) {
         const OfferItem items[] = {{keys[0], 1, 4096, 3}, {keys[1], 1, 4096, 0}};
         EncodeOffer(9, 1, items, w);
       },
       Decoder<OfferRequest>()},
      {"OfferAnswer",
       [](FrameWriter* w) {
         OfferAnswer{1 << 20, 1, {kNotTaken, kTaken, kNoRoom}}.Encode(w);
       },
       Decoder<OfferAnswer>()},
      {"Lookup",
       [=](FrameWriter* w) {
         const uint64_t exclude[] = {7};
         EncodeLookup(9, exclude, keys, w);
       },
       Decoder<LookupRequest>()},
      {"Records",
       [=](FrameWriter* w) {
         const Record records[] = {record, record};
         EncodeRecords(records, {}, w);
       },
       [](FrameReader* r) {
         std::vector<Record> records;
         std::vector<OtherRecord> others;
         return DecodeRecords(r, &records, &others);
       }},
      {"Contact", [=](FrameWriter* w) { EncodeContact(stamp, w); },
       [](FrameReader* r) {
         OwnerRequest request;
         return request.Decode(MessageType::kContact, r);
       }},
      {"Publish",
       [=](FrameWriter* w) {
         const PublishItem items[] = {{SomeKey(1), record}, {SomeKey(2), record}};
         EncodePublish(stamp, items, w);
       },
       [](FrameReader* r) {
         OwnerRequest request;
         return request.Decode(MessageType::kPublish, r);
       }},
      {"Withdraw",
       [=](FrameWriter* w) {
         const WithdrawItem items[] = {{SomeKey(1), 2}};
         EncodeWithdraw(stamp, items, w);
       },
       [](FrameReader* r) {
         OwnerRequest request;
         return request.Decode(MessageType::kWithdraw, r);
       }},
      {"Read",
       [](FrameWriter* w) {
         const ReadItem items[] = {{1, 2, 3, 0, SomeKey(4)}};
         EncodeRead(11, items, w);
       },
       Decoder<ReadRequest>()},
      {"ReadOk",
       [](FrameWriter* w) {
         const uint32_t lengths[] = {4096, 0};
         EncodeReadOk(lengths, w);
       },
       [](FrameReader* r) {
         std::vector<uint32_t> lengths;
         return DecodeReadOk(r, &lengths);
       }},
      {"MemberList",
       [](FrameWriter* w) {
         MemberListMessage{1, {{SomeMember(), 5}, {SomeMember(), 6}}}.Encode(w);
       },
       Decoder<MemberListMessage>()},
      {"Leave",
       [](FrameWriter* w) {
         LeaveRequest{"id", 3}.Encode(w);
       },
       Decoder<LeaveRequest>()},
      {"Attach",
       [](FrameWriter* w) {
         AttachRequest{1, "rank0", "0.1.0"}.Encode(w);
       },
       Decoder<AttachRequest>()},
      {"AttachOk",
       [](FrameWriter* w) {
         AttachOk{1, "node", "0.1.0"}.Encode(w);
       },
       Decoder<AttachOk>()},
      {"Region",
       [](FrameWriter* w) {
         RegionRequest{1, 2, 3}.Encode(w);
       },
       Decoder<RegionRequest>()},
      {"DmaBufOk",
       [](FrameWriter* w) {
         DmaBufOk{1, 0, "why"}.Encode(w);
       },
       Decoder<DmaBufOk>()},
      {"Pages",
       [=](FrameWriter* w) {
         const WireSegment segments[] = {{0, 1, 2}, {4, 1, 2}, {8, 1, 2}, {12, 1, 2}};
         EncodePages(5, 2, keys, segments, w);
       },
       Decoder<PagesRequest>()},
      {"Keys", [=](FrameWriter* w) { EncodeKeys(keys, w); },
       [](FrameReader* r) {
         std::vector<Key> out;
         return DecodeKeys(r, &out);
       }},
      {"Flags",
       [](FrameWriter* w) {
         const uint8_t flags[] = {1, 0, 1};
         EncodeFlags(flags, w);
       },
       [](FrameReader* r) {
         std::vector<uint8_t> out;
         return DecodeFlags(r, &out);
       }},
  };
}

std::vector<std::byte> BodyOf(const Case& c) {
  FrameWriter w;
  w.Start(MessageType::kError, 1);
  c.encode(&w);
  const auto frame = w.Finish();
  return {frame.begin() + sizeof(FrameHeader), frame.end()};
}

TEST(MessagesTest, WhatIsWrittenIsRead) {
  for (const Case& c : AllMessages()) {
    const auto body = BodyOf(c);
    FrameReader r(body);
    EXPECT_TRUE(c.decode(&r)) << c.name;
  }
}

TEST(MessagesTest, EveryTruncationIsRefused) {
  for (const Case& c : AllMessages()) {
    const auto body = BodyOf(c);
    for (size_t n = 0; n < body.size(); ++n) {
      // A copy of its own, so that a sanitizer sees every byte too far.
      const std::vector<std::byte> cut(body.begin(), body.begin() + n);
      FrameReader r(cut);
      EXPECT_FALSE(c.decode(&r)) << c.name << " cut to " << n << " of " << body.size();
    }
  }
}

TEST(MessagesTest, TrailingBytesAreRefused) {
  for (const Case& c : AllMessages()) {
    auto body = BodyOf(c);
    body.push_back(std::byte{0});
    FrameReader r(body);
    EXPECT_FALSE(c.decode(&r)) << c.name;
  }
}

TEST(MessagesTest, RandomBytesNeverDoHarm) {
  std::mt19937_64 random(20261121);
  const auto messages = AllMessages();
  for (int i = 0; i < 20000; ++i) {
    const Case& c = messages[random() % messages.size()];
    auto body = BodyOf(c);
    for (int flips = 1 + static_cast<int>(random() % 4); flips > 0 && !body.empty(); --flips) {
      body[random() % body.size()] = static_cast<std::byte>(random());
    }
    FrameReader r(body);
    (void)c.decode(&r);  // any answer will do; sanitizers watch
  }
}

TEST(MessagesTest, ValuesSurvive) {
  FrameWriter w;
  w.Start(MessageType::kHeartbeat, 1);
  EncodeMember(SomeMember(), kMostListed, &w);
  const auto frame = w.Finish();
  FrameReader r(frame.subspan(sizeof(FrameHeader)));
  Member m;
  ASSERT_TRUE(DecodeMember(&r, kMostListed, &m));
  EXPECT_TRUE(r.AtEnd());
  EXPECT_EQ(m.id, "node7.default");
  EXPECT_EQ(m.state, MemberState::kDraining);
  EXPECT_EQ(m.synced, (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_EQ(m.unreachable, (std::vector<uint64_t>{4, 5}));
  EXPECT_EQ(m.capacity_bytes, uint64_t{1} << 30);
}

TEST(MessagesTest, OtherRecordsAreOfKeysThatWereAskedFor) {
  const Record records[2] = {{.node = 1}, {.node = 2}};
  for (const uint32_t index : {0u, 1u, 2u}) {
    const OtherRecord other{index, 0, {.node = 3}};
    const auto body = BodyOf({"",
                              [&](FrameWriter* w) {
                                EncodeRecords(records, {&other, 1}, w);
                              },
                              {}});
    FrameReader r(body);
    std::vector<Record> got;
    std::vector<OtherRecord> others{{}, {}};
    EXPECT_EQ(DecodeRecords(&r, &got, &others), index < 2) << index;
    if (index == 2) continue;
    EXPECT_EQ(got[1].node, 2u);
    ASSERT_EQ(others.size(), 1u);
    EXPECT_EQ(others[0].index, index);
    EXPECT_EQ(others[0].record.node, 3u);
  }
}

// Else one meaning would have two forms.
TEST(MessagesTest, AnEmptyListOfOtherRecordsIsLeftOut) {
  const auto body = BodyOf({"",
                            [](FrameWriter* w) {
                              EncodeRecords({}, {}, w);
                              w->Put(uint32_t{0});
                            },
                            {}});
  FrameReader r(body);
  std::vector<Record> records;
  std::vector<OtherRecord> others;
  EXPECT_FALSE(DecodeRecords(&r, &records, &others));
}

// Names of others end up in logs, in JSON and in what other nodes are told.
TEST(MessagesTest, OffersAreBounded) {
  const auto decodes = [](std::vector<OfferItem> items) {
    FrameWriter w;
    w.Start(MessageType::kOffer, 1);
    EncodeOffer(9, 1, items, &w);
    FrameReader r(w.Finish().subspan(sizeof(FrameHeader)));
    OfferRequest offer;
    return offer.Decode(&r);
  };
  OfferItem page, large;
  page.length = 16 << 10;
  large.length = UINT32_MAX;
  EXPECT_TRUE(decodes({}));
  EXPECT_TRUE(decodes({page, large}));
  EXPECT_FALSE(decodes({large, page}));
  EXPECT_TRUE(decodes(std::vector<OfferItem>(kMaxOffered, page)));
  EXPECT_FALSE(decodes(std::vector<OfferItem>(kMaxOffered + 1, page)));
}

TEST(MessagesTest, OutcomesOfOffersAreKnown) {
  const auto decodes = [](const OfferAnswer& answer) {
    FrameWriter w;
    w.Start(MessageType::kOfferOk, 1);
    answer.Encode(&w);
    FrameReader r(w.Finish().subspan(sizeof(FrameHeader)));
    OfferAnswer decoded;
    return decoded.Decode(&r);
  };
  EXPECT_TRUE(decodes({0, 0, {}}));
  EXPECT_FALSE(decodes({0, 2, {}}));
  EXPECT_FALSE(decodes({0, 1, {kNoRoom + 1}}));
}

TEST(MessagesTest, StatesOfFetchedPagesAreKnown) {
  const auto decodes = [](const FetchAnswer& answer) {
    FrameWriter w;
    w.Start(MessageType::kFetchOk, 1);
    answer.Encode(&w);
    FrameReader r(w.Finish().subspan(sizeof(FrameHeader)));
    FetchAnswer decoded;
    return decoded.Decode(&r) && decoded.incarnation == answer.incarnation &&
           decoded.places.size() == answer.places.size();
  };
  EXPECT_TRUE(decodes({5, {}}));
  EXPECT_TRUE(decodes({5, {{64, 7, 1000, kFetchHere}, {0, 0, 0, kFetchComing}}}));
  EXPECT_FALSE(decodes({5, {{64, 7, 1000, kFetchHere + 1}}}));
}

size_t FrameOf(const std::function<void(FrameWriter*)>& encode) {
  FrameWriter w;
  w.Start(MessageType::kError, 1);
  encode(&w);
  return w.Finish().size();
}

// docs/dev/performance.md, "Traffic of the membership", and what python/tests/fleet/test_crowd.py
// counts with.
TEST(MessagesTest, TrafficOfTheMembershipIsAsDocumented) {
  const OwnerStamp stamp;
  const auto answer = [](size_t items) {
    return FrameOf([&](FrameWriter* w) {
      ShardAnswer{1, 2, Code::kOk, std::vector<uint8_t>(items)}.Encode(w);
    });
  };
  const auto publish = [&](size_t items) {
    const std::vector<PublishItem> published(items);
    return FrameOf([&](FrameWriter* w) { EncodePublish(stamp, published, w); });
  };
  EXPECT_EQ(FrameOf([&](FrameWriter* w) { EncodeContact(stamp, w); }), 80u);
  EXPECT_EQ(answer(0), 53u);
  const auto contact = [](FrameWriter* w) {
    ShardAnswer says{1, 2, Code::kOk, {}};
    says.clears.emplace();
    says.Encode(w);
  };
  EXPECT_EQ(FrameOf(contact), 62u);
  EXPECT_EQ(publish(0), 84u);
  EXPECT_EQ(publish(7) - publish(0), 7u * 80);
  EXPECT_EQ(answer(7) - answer(0), 7u);
  const auto withdrawn = [](size_t items) {
    return FrameOf([&](FrameWriter* w) {
      WithdrawAnswer says;
      says.unserved_ms.assign(items, 1);
      says.Encode(w);
    });
  };
  EXPECT_EQ(withdrawn(0), 53u) << "to owners of older releases";
  EXPECT_EQ(withdrawn(7), 57u + 7 * 4);
  Heartbeat beat;
  beat.member.id = "node";       // 4
  beat.member.host = "1.2.3.4";  // 7
  beat.health.group = "default";
  EXPECT_EQ(FrameOf([&](FrameWriter* w) { beat.Encode(w); }), 116u + 4 + 7 + 7);
  EXPECT_EQ(FrameOf([&](FrameWriter* w) { beat.Encode(w, 0); }), 100u + 4 + 7 + 7)
      << "to hosts of older releases";
  const auto list = [&](size_t members) {
    MemberListMessage message;
    message.members.assign(members, {beat.member, 0});
    return FrameOf([&](FrameWriter* w) { message.EncodeOnce(w); });
  };
  EXPECT_EQ(list(0), 41u);
  EXPECT_EQ(list(5) - list(0), 5u * (41 + 4 + 7));
  beat.member.synced = {1, 2};
  EXPECT_EQ(list(5) - list(0), 5u * (41 + 4 + 7) + 4 + 2 * 8);
}

TEST(MessagesTest, NamesAreChecked) {
  const auto decodes = [](auto message) {
    FrameWriter w;
    w.Start(MessageType::kError, 1);
    message.Encode(&w);
    FrameReader r(w.Finish().subspan(sizeof(FrameHeader)));
    return message.Decode(&r);
  };
  const auto heartbeat = [](const Member& member) {
    FrameWriter w;
    w.Start(MessageType::kHeartbeat, 1);
    EncodeMember(member, kMostListed, &w);
    FrameReader r(w.Finish().subspan(sizeof(FrameHeader)));
    Member decoded;
    return DecodeMember(&r, kMostListed, &decoded);
  };
  EXPECT_TRUE(heartbeat(SomeMember()));
  const std::string bad[] = {"a\nb", "a b", "caf\xc3\xa9", "\x7f", std::string(1, '\0'), "\xff"};
  for (const std::string& name : bad) {
    EXPECT_FALSE(decodes(Hello{name, "", 1, 2})) << name;
    EXPECT_FALSE(decodes(LeaveRequest{name, 1})) << name;
    Member member = SomeMember();
    member.id = name;
    EXPECT_FALSE(heartbeat(member)) << name;
    member = SomeMember();
    member.host = name;
    EXPECT_FALSE(heartbeat(member)) << name;
  }
}

// Without a key a Hello is as releases without Challenge know it.
TEST(MessagesTest, AHelloMayNameAKey) {
  const Hello with{"c", "10.0.0.1:31998", 1, 2, 0, 3, {4}};
  Hello without = with;
  without.key = 0;
  FrameWriter w;
  w.Start(MessageType::kHello, 1);
  with.Encode(&w);
  const auto all = w.Finish().subspan(sizeof(FrameHeader));
  Hello decoded;
  FrameReader whole(all);
  ASSERT_TRUE(decoded.Decode(&whole));
  EXPECT_EQ(decoded.to, "10.0.0.1:31998");
  EXPECT_EQ(decoded.key, 3u);
  EXPECT_EQ(decoded.nonce, with.nonce);
  const size_t of_key = sizeof(with.key) + sizeof(with.nonce);
  for (size_t size = all.size() - of_key + 1; size < all.size(); ++size) {
    FrameReader part(all.first(size));
    EXPECT_FALSE(decoded.Decode(&part)) << size;
  }
  w.Start(MessageType::kHello, 1);
  without.Encode(&w);
  FrameReader shorter(w.Finish().subspan(sizeof(FrameHeader)));
  ASSERT_TRUE(decoded.Decode(&shorter));
  EXPECT_EQ(decoded.key, 0u);
}

TEST(MessagesTest, TextsAreMadePrintable) {
  FrameWriter w;
  w.Start(MessageType::kAttach, 1);
  AttachRequest{1, "rank 0\n\x1b[31m caf\xc3\xa9", "0.1"}.Encode(&w);
  FrameReader r(w.Finish().subspan(sizeof(FrameHeader)));
  AttachRequest request;
  ASSERT_TRUE(request.Decode(&r));
  EXPECT_EQ(request.engine, "rank 0??[31m caf??");
  w.Start(MessageType::kError, 1);
  ErrorMessage{Unavailable("no\r\n2026-01-01 all is well")}.Encode(&w);
  FrameReader error(w.Finish().subspan(sizeof(FrameHeader)));
  ErrorMessage message;
  ASSERT_TRUE(message.Decode(&error));
  EXPECT_EQ(message.status.message(), "no??2026-01-01 all is well");
}

TEST(MessagesTest, FlagsAreZeroOrOne) {
  for (const uint8_t flag : std::initializer_list<uint8_t>{2, 128, 255}) {
    FrameWriter w;
    w.Start(MessageType::kGetOk, 1);
    const uint8_t flags[] = {1, flag, 0};
    EncodeFlags(flags, &w);
    FrameReader r(w.Finish().subspan(sizeof(FrameHeader)));
    std::vector<uint8_t> decoded;
    EXPECT_FALSE(DecodeFlags(&r, &decoded)) << static_cast<int>(flag);
  }
}

// A publisher takes whatever is neither refused nor stored for served.
TEST(MessagesTest, OutcomesAreKnown) {
  for (const uint8_t outcome : std::initializer_list<uint8_t>{kStored, kStored + 1, 255}) {
    FrameWriter w;
    w.Start(MessageType::kPublishOk, 1);
    ShardAnswer{1, 2, Code::kOk, {kServed, outcome}}.Encode(&w);
    FrameReader r(w.Finish().subspan(sizeof(FrameHeader)));
    ShardAnswer decoded;
    EXPECT_EQ(decoded.Decode(&r), outcome == kStored) << static_cast<int>(outcome);
  }
}

// What an older shard leaves out, what a refusal leaves out, and what does not fit the question all
// mean that the record may have been served just now.
TEST(MessagesTest, AWithdrawalThatSaysNothingOfItsRecordsLeavesThemServed) {
  const auto decoded = [](const auto& answer) {
    FrameWriter w;
    w.Start(MessageType::kWithdrawOk, 1);
    answer.Encode(&w);
    FrameReader r(w.Finish().subspan(sizeof(FrameHeader)));
    WithdrawAnswer got;
    got.unserved_ms = {1, 2, 3};  // of another answer
    EXPECT_TRUE(got.Decode(&r));
    return got;
  };
  const WithdrawAnswer older = decoded(ShardAnswer{5, 77, Code::kOk, {}, {}});
  EXPECT_EQ(older.stamp, 5);
  EXPECT_EQ(older.UnservedMillis(2, 3), 0u);
  WithdrawAnswer says;
  says.stamp = 6;
  says.unserved_ms = {7, kNeverServed};
  const WithdrawAnswer got = decoded(says);
  EXPECT_EQ(got.stamp, 6);
  EXPECT_EQ(got.UnservedMillis(0, 2), 7u);
  EXPECT_EQ(got.UnservedMillis(1, 2), kNeverServed);
  for (const size_t items : {0u, 1u, 3u}) EXPECT_EQ(got.UnservedMillis(0, items), 0u) << items;

  // Cut anywhere else than behind what an older shard says, or with more behind it, it is
  // malformed.
  FrameWriter w;
  w.Start(MessageType::kWithdrawOk, 1);
  says.Encode(&w);
  w.Put(uint8_t{0});
  const auto body = w.Finish().subspan(sizeof(FrameHeader));
  for (size_t size = 0; size <= body.size(); ++size) {
    FrameReader r(body.first(size));
    WithdrawAnswer cut;
    EXPECT_EQ(cut.Decode(&r), size == 21 || size + 1 == body.size()) << size;
  }
}

TEST(MessagesTest, SegmentCountsThatDoNotFitAreRefused) {
  const std::vector<Key> keys = {SomeKey(1)};
  const WireSegment segments[] = {{0, 1, 2}, {4, 1, 2}};
  for (const uint32_t per_page : {0u, 1u, 3u, kMaxSegmentsPerPage + 1, UINT32_MAX}) {
    FrameWriter w;
    w.Start(MessageType::kSet, 1);
    EncodePages(5, per_page, keys, segments, &w);
    FrameReader r(w.Finish().subspan(sizeof(FrameHeader)));
    PagesRequest request;
    EXPECT_FALSE(request.Decode(&r)) << per_page;
  }
}

TEST(FrameTest, HeadersThatAreNotOursAreExplained) {
  FrameHeader header;
  EXPECT_TRUE(CheckHeader(header).ok());
  header.magic = 0x20544547;  // "GET "
  EXPECT_NE(CheckHeader(header).message().find("does not speak PeerCache"), std::string::npos);
  header = {};
  header.version = 9;
  EXPECT_TRUE(CheckHeader(header).ok()) << "an Error, which says why the two do not get along";
  header.type = MessageType::kHello;
  EXPECT_NE(CheckHeader(header).message().find("version 9"), std::string::npos);
  header = {};
  header.body_length = kMaxBody + 1;
  EXPECT_FALSE(CheckHeader(header).ok());
  header = {};
  header.payload_length = 1;
  EXPECT_FALSE(CheckHeader(header).ok());
}

}  // namespace
}  // namespace peercache
