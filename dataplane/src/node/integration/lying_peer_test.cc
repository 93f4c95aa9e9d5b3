// What a member can do to a node by its answers: to every question that nodes ask each other, what
// is not an answer at all, and what is one and lies. The node's engines lose hits at most, and have
// them again when the member is honest or gone. Requests that lie are in hostile_peer_test.cc.
#include <gtest/gtest.h>

#include <limits>

#include "node/integration/lying_peer_testing.h"
#include "node/integration/node_testing.h"

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
constexpr size_t kPages = 64;
constexpr uint64_t kElsewhere = 100'000;  // pages that nobody has set
constexpr uint64_t kOtherTag = 9;

struct Falsehood {
  const char* name;
  std::map<MessageType, LyingPeer::Lie> lies;
};
void PrintTo(const Falsehood& falsehood, std::ostream* out) { *out << falsehood.name; }

// Questions that a node asks while its engines work. Fetch comes where a record says that a page is
// on disk, Leave and Offer when the node leaves, Connect and Directory where there are rails.
constexpr MessageType kQuestions[] = {
    MessageType::kPublish,  MessageType::kWithdraw, MessageType::kContact, MessageType::kHeartbeat,
    MessageType::kClearTag, MessageType::kClears,   MessageType::kRead};

std::map<MessageType, LyingPeer::Lie> ToAll(const LyingPeer::Lie& lie) {
  std::map<MessageType, LyingPeer::Lie> lies;
  for (const MessageType type : kQuestions) lies.emplace(type, lie);
  return lies;
}

RawBytes Changed(RawBytes frame, const std::function<void(FrameHeader*)>& change) {
  FrameHeader header;
  std::memcpy(&header, frame.data(), sizeof(header));
  change(&header);
  std::memcpy(frame.data(), &header, sizeof(header));
  return frame;
}

// What is no answer to anything: of each question, or of Lookup, without which nothing is read.
std::vector<std::pair<const char*, LyingPeer::Lie>> NoAnswers() {
  return {
      {"Silence", [](const FrameHeader&, RawBytes) { return RawBytes(); }},
      {"Noise", [](const FrameHeader&, RawBytes) { return RawBytes(64, std::byte{0x5a}); }},
      {"Error",
       [](const FrameHeader& request, RawBytes) {
         return RawFrame(MessageType::kError, request.request_id, [](FrameWriter* w) {
           ErrorMessage{{Code::kInternal, "\x1b[2J"}}.Encode(w);
         });
       }},
      {"ErrorOfNoCode",
       [](const FrameHeader& request, RawBytes) {
         return RawFrame(MessageType::kError, request.request_id,
                         [](FrameWriter* w) { w->Put(uint8_t{255}); });
       }},
      {"AnotherType",
       [](const FrameHeader&, RawBytes honest) {
         return Changed(std::move(honest), [](FrameHeader* h) {
           h->type = h->type == MessageType::kPublishOk ? MessageType::kContactOk
                                                        : MessageType::kPublishOk;
         });
       }},
      {"AnotherVersion",
       [](const FrameHeader&, RawBytes honest) {
         return Changed(std::move(honest), [](FrameHeader* h) { h->version = 9; });
       }},
      {"AnotherRequest",
       [](const FrameHeader&, RawBytes honest) {
         return Changed(std::move(honest), [](FrameHeader* h) { h->request_id = kMax; });
       }},
      {"PagesThatNobodyWants",
       [](const FrameHeader&, RawBytes honest) {
         return Changed(std::move(honest), [](FrameHeader* h) {
           h->type = MessageType::kReadOk;
           h->payload_length = kMaxPayload;
         });
       }},
      {"LongerThanAnyFrame",
       [](const FrameHeader&, RawBytes honest) {
         return Changed(std::move(honest), [](FrameHeader* h) { h->body_length = UINT32_MAX; });
       }},
      {"AnnouncedAndNotSent",
       [](const FrameHeader&, RawBytes honest) {
         return Changed(std::move(honest), [](FrameHeader* h) { h->body_length = kMaxBody; });
       }},
      {"Nothing",
       [](const FrameHeader& request, RawBytes) {
         return RawFrame(AnswerTo(request.type), request.request_id, [](FrameWriter*) {});
       }},
      {"AByteMore",
       [](const FrameHeader&, RawBytes honest) {
         honest.push_back(std::byte{1});
         return Changed(std::move(honest), [](FrameHeader* h) { ++h->body_length; });
       }},
      {"AByteLess",
       [](const FrameHeader&, RawBytes honest) {
         if (honest.size() == sizeof(FrameHeader)) return RawBytes();
         honest.pop_back();
         return Changed(std::move(honest), [](FrameHeader* h) { --h->body_length; });
       }},
      {"OnesOnly",
       [](const FrameHeader& request, RawBytes) {
         return RawFrame(AnswerTo(request.type), request.request_id, [](FrameWriter* w) {
           w->PutSpan(std::span<const uint8_t>(std::vector<uint8_t>(4096, 0xff)));
         });
       }},
  };
}

// An answer of the right form with another body.
LyingPeer::Lie Saying(const std::function<void(FrameWriter*)>& fill) {
  return [fill](const FrameHeader& request, RawBytes) {
    return RawFrame(AnswerTo(request.type), request.request_id, fill);
  };
}
// The number at this place in the body of the honest answer.
uint32_t CountIn(const RawBytes& honest, size_t at = 0) {
  uint32_t count = 0;
  std::memcpy(&count, honest.data() + sizeof(FrameHeader) + at, sizeof(count));
  return count;
}
// As many records, or lengths, as there should be, and `more`.
LyingPeer::Lie Records(const Record& record, size_t more = 0) {
  return [=](const FrameHeader& request, const RawBytes& honest) {
    return RawFrame(AnswerTo(request.type), request.request_id, [&](FrameWriter* w) {
      EncodeRecords(std::vector<Record>(CountIn(honest) + more, record), {}, w);
    });
  };
}
LyingPeer::Lie Lengths(uint32_t length, size_t more = 0) {
  return [=](const FrameHeader& request, const RawBytes& honest) {
    return RawFrame(AnswerTo(request.type), request.request_id, [&](FrameWriter* w) {
      EncodeReadOk(std::vector<uint32_t>(CountIn(honest) + more, length), w);
    });
  };
}
// The answer has as many places as it should have, and `more`, which may be below 0.
LyingPeer::Lie Places(const FetchPlace& place, uint64_t incarnation, int more = 0) {
  return [=](const FrameHeader& request, const RawBytes& honest) {
    const size_t asked = CountIn(honest, sizeof(incarnation));
    return RawFrame(AnswerTo(request.type), request.request_id, [&](FrameWriter* w) {
      FetchAnswer{incarnation, std::vector<FetchPlace>(asked + static_cast<size_t>(more), place)}
          .Encode(w);
    });
  };
}
LyingPeer::Lie Shard(const ShardAnswer& answer) {
  return Saying([=](FrameWriter* w) { answer.Encode(w); });
}
LyingPeer::Lie Cleared(const ClearState& state) {
  return Saying([=](FrameWriter* w) { ClearsAnswer{state, 1}.Encode(w); });
}

// 4,096 members of whom there is none, one of which says that it is the node.
LyingPeer::Lie Crowd() {
  MemberListMessage list;
  std::vector<uint64_t> all(kMostListed, NodeHash("a"));
  const SharedList lies(std::move(all));
  for (uint32_t i = 0; i < kMaxMembers; ++i) {
    Member member{.id = fmt::format("lie{}", i),
                  .incarnation = kMax,
                  .state = MemberState::kActive,
                  .host = "127.0.0.1",
                  .peer_port = 1,
                  .http_port = 1,
                  .capacity_bytes = i % 3 == 0 ? kMax : 0,
                  .synced = lies,
                  .unreachable = lies};
    if (i == 7) member.id = "a";
    list.members.push_back(
        {std::move(member), i % 2 == 0 ? std::numeric_limits<int64_t>::max() : 0});
  }
  return [list](const FrameHeader& request, RawBytes) {
    return RawFrame(AnswerTo(request.type), request.request_id, [&](FrameWriter* w) {
      w->Can(Heartbeat::kHearsAll);
      list.EncodeOnce(w);
    });
  };
}

std::vector<Falsehood> Falsehoods() {
  std::vector<Falsehood> all;
  for (const auto& [name, lie] : NoAnswers()) all.push_back({name, ToAll(lie)});
  // Nobody but the liar can say that the node is in contact, without which it gives no page. And
  // who acknowledges no record is asked to withdraw none.
  for (const char* silent : {"Silence", "AnnouncedAndNotSent"})
    for (const MessageType type : {MessageType::kContact, MessageType::kWithdraw})
      std::ranges::find(all, std::string_view(silent), &Falsehood::name)->lies.erase(type);
  const Record absurd{.node = NodeHash(LyingPeer::kId),
                      .incarnation = kMax,
                      .offset = kMax,
                      .generation = kMax,
                      .checksum = kMax,
                      .length = LyingPeer::kPageBytes,
                      .tier = static_cast<Tier>(255),
                      .replica = 255,
                      .lease_ms = UINT16_MAX};
  Record nobody = absurd, itself = absurd, long_one = absurd;
  nobody.node = kMax;
  itself.node = NodeHash("a");
  long_one.length = UINT32_MAX;
  ShardAnswer timeless, wrong;
  timeless.stamp = std::numeric_limits<int64_t>::max();
  timeless.instance = kMax;
  timeless.code = Code::kOk;
  wrong.stamp = std::numeric_limits<int64_t>::min();
  wrong.code = Code::kAborted;
  wrong.outcomes.assign(kMaxItems, kServed);
  wrong.clears = ClearsVoice{kMax, 1};
  using enum MessageType;
  const auto one = [&](const char* name, MessageType type, LyingPeer::Lie lie) {
    all.push_back({name, {{type, std::move(lie)}}});
  };
  one("RecordsOfNobody", kLookup, Records(nobody));
  one("RecordsOfTheNodeItself", kLookup, Records(itself));
  one("RecordsOfPagesThatCannotBe", kLookup, Records(absurd));
  one("RecordsOfAnotherLength", kLookup, Records(long_one));
  one("MoreRecordsThanKeys", kLookup, Records(absurd, 1));
  one("RecordsOfKeysThatNobodyAskedFor", kLookup,
      [absurd](const FrameHeader& request, const RawBytes& honest) {
        return RawFrame(kLookupOk, request.request_id, [&](FrameWriter* w) {
          const std::vector<OtherRecord> others{{UINT32_MAX, 0, absurd}};
          EncodeRecords(std::vector<Record>(CountIn(honest), absurd), others, w);
        });
      });
  one("NoContact", kContact, NoAnswers()[0].second);
  one("NoWithdrawal", kWithdraw, NoAnswers()[0].second);
  for (const size_t times : {size_t{1}, size_t{kMaxItems}}) {
    one(times == 1 ? "OneTimeForAll" : "TimesOfWhatNobodyHasWithdrawn", kWithdraw,
        Saying([=](FrameWriter* w) {
          WithdrawAnswer answer;
          answer.stamp = answer.instance = 1;
          answer.unserved_ms.assign(times, kNeverServed);
          answer.Encode(w);
        }));
  }
  one("MoreTimesThanBytes", kWithdraw, Saying([](FrameWriter* w) {
        ShardAnswer{1, 1, Code::kOk, {}}.Encode(w);
        w->Put(uint32_t{kMaxItems});
      }));
  one("NoLookupAtAll", kLookup, NoAnswers()[0].second);
  one("LookupOfNoise", kLookup, NoAnswers()[1].second);
  for (const auto& [name, answer] : {std::pair("TimelessShard", timeless), {"WrongShard", wrong}})
    all.push_back(
        {name, {{kPublish, Shard(answer)}, {kContact, Shard(answer)}, {kWithdraw, Shard(answer)}}});
  one("OutcomesThatAreNone", kPublish, [](const FrameHeader&, RawBytes honest) {
    for (size_t i = sizeof(FrameHeader) + 21; i < honest.size(); ++i) honest[i] = std::byte{99};
    return honest;
  });
  one("FewerOutcomesThanRecords", kPublish, Shard({}));
  one("PagesOfAnotherLength", kRead, Lengths(UINT32_MAX));
  one("PagesWithoutTheirBytes", kRead, Lengths(LyingPeer::kPageBytes));
  one("MorePagesThanAskedFor", kRead, Lengths(0, 1));
  Record on_disk{.node = NodeHash(LyingPeer::kId),
                 .incarnation = 1,
                 .generation = 1,
                 .length = LyingPeer::kPageBytes,
                 .tier = Tier::kDisk,
                 .lease_ms = 1000};
  const auto fetch = [&](const char* name, LyingPeer::Lie lie) {
    all.push_back({name, {{kLookup, Records(on_disk)}, {kFetch, std::move(lie)}}});
  };
  const auto place = [](uint64_t offset, uint32_t length, uint32_t state) {
    return FetchPlace{.offset = offset, .generation = 1, .length = length, .state = state};
  };
  const FetchPlace here = place(0, LyingPeer::kPageBytes, kFetchHere);
  fetch("NoFetchAtAll", NoAnswers()[0].second);
  fetch("FetchOfNoise", NoAnswers()[1].second);
  fetch("PlacesOfAnotherLife", Places(here, kMax));
  fetch("MorePlacesThanAskedFor", Places(here, 1, 1));
  fetch("FewerPlacesThanAskedFor", Places(here, 1, -1));
  fetch("PlacesBeyondThePool", Places(place(kMax, LyingPeer::kPageBytes, kFetchHere), 1));
  fetch("PlacesOfAnotherLength", Places(place(0, UINT32_MAX, kFetchHere), 1));
  fetch("PlacesInNoState", Places(place(0, LyingPeer::kPageBytes, 99), 1));
  fetch("AlwaysComing", Places(place(0, LyingPeer::kPageBytes, kFetchComing), 1));
  one("Crowd", kHeartbeat, Crowd());
  one("NeverDone", kClearTag, Saying([](FrameWriter* w) { w->Put(UINT32_MAX); }));
  one("EpochAboveAll", kClears, Cleared({{}, {{1, kMax}, {kOtherTag, kMax}}}));
  one("LastEpoch", kClears, Cleared({{}, {{1, kMaxClearEpoch}, {kOtherTag, kMaxClearEpoch}}}));
  one("HighestFloor", kClears, Cleared({{{0, kMaxClearEpoch, 1}}, {}}));
  return all;
}

// A node, an engine, and a member that lies: the node publishes to it, looks up and reads there,
// tells it of clears, and hears of members from it.
class AmongLiars : public ::testing::Test {
 protected:
  explicit AmongLiars(milliseconds peer_timeout = 5000ms) : peer_timeout_(peer_timeout) {
    NodeConfig config = cluster_.Config("a");
    config.peer_port = port_;
    config.discovery_addr = fmt::format("127.0.0.1:{},127.0.0.1:{}", port_, liar_.port());
    auto node = Node::Start(config);
    EXPECT_TRUE(node.ok()) << node.status().ToString();
    node_ = std::move(*node);
    EXPECT_TRUE(Eventually([&] { return node_->ready(); }));
    liar_.Join();
    EXPECT_TRUE(Eventually([&] { return liar_.told(MessageType::kContact) > 0; }));
    engine_ = std::make_unique<TestEngine>(node_->socket(), kPages, LyingPeer::kPageBytes);
  }
  // All kinds of calls. What is not there is not found, whatever the member says.
  void Work() {
    next_ += kPages;
    EXPECT_EQ(engine_->Get(kElsewhere + next_, kPages).hits, 0u);
    engine_->Set(next_, kPages / 8, kOtherTag);  // the pool has room for all until they are gone
    (void)engine_->client().Clear(kOtherTag);
  }
  bool Serves() {
    next_ += kPages;
    return engine_->Set(next_, kPages) == kPages && engine_->Get(next_, kPages).hits == kPages;
  }

  const milliseconds peer_timeout_;
  TempDir files_;
  std::string token_ = files_.Write("token", testing::kLyingToken);
  TestCluster cluster_{[this](NodeConfig* c) {
    c->auth_token_file = token_;
    c->peer_timeout = peer_timeout_;
  }};
  const uint16_t port_ = TestCluster::FreePort();
  LyingPeer liar_{port_};
  std::unique_ptr<Node> node_;
  std::unique_ptr<TestEngine> engine_;
  uint64_t next_ = 0;
};

class LyingPeerTest : public AmongLiars, public ::testing::WithParamInterface<Falsehood> {
 protected:
  LyingPeerTest() : AmongLiars(250ms) {}  // some lies are waited for
};

TEST_P(LyingPeerTest, CostsHitsAtMost) {
  ASSERT_TRUE(Eventually([&] { return Serves(); }));
  const uint64_t first = next_;
  liar_.Begin(GetParam().lies);
  // One that does not answer is asked less and less, and is in no ring, until it is another
  // process. Some time after that, and before its next silence, it is asked.
  std::string missing;
  const TimePoint end = Clock::now() + testing::kEndsAHang;
  for (int round = 0; Clock::now() < end; ++round) {
    Work();
    missing.clear();
    for (const auto& [type, lie] : GetParam().lies)
      if (liar_.told(type) == 0) missing += fmt::format(" {}", static_cast<int>(type));
    if (missing.empty()) break;
    liar_.BeReborn();
    std::this_thread::sleep_for(milliseconds(50) * (round % 6));
  }
  EXPECT_EQ(missing, "") << "types that it was not asked for";
  Work();
  // Not at once: a node that was stopped for a moment first asks what it may have missed.
  EXPECT_TRUE(Eventually([&] { return engine_->Get(first, kPages).hits == kPages; }))
      << "the node's own pages";
  liar_.BeHonest();
  EXPECT_TRUE(Eventually([&] { return Serves(); }));
  // A clear is true after all: no lie has taken the numbers that it needs.
  EXPECT_TRUE(Eventually([&] {
    EXPECT_TRUE(Eventually([&] { return Serves(); }));
    return engine_->client().Clear(1).ok();
  }));
  EXPECT_EQ(engine_->Get(first, kPages).hits, 0u);
  EXPECT_GT(liar_.EpochOf(1), 0u);
  EXPECT_LT(liar_.EpochOf(1), kMaxClearEpoch / 2) << "numbers are left for the clears to come";
  EXPECT_TRUE(Eventually([&] { return Serves(); }));
}

INSTANTIATE_TEST_SUITE_P(All, LyingPeerTest, ::testing::ValuesIn(Falsehoods()),
                         [](const auto& falsehood) { return falsehood.param.name; });

std::map<MessageType, LyingPeer::Lie> LiesToWhoLeaves() {
  std::map<MessageType, LyingPeer::Lie> lies;
  lies.emplace(MessageType::kLeave, NoAnswers()[1].second);
  lies.emplace(MessageType::kOffer, Saying([](FrameWriter* w) {
                 OfferAnswer{kMax, 1, std::vector<uint8_t>(kMaxOffered, kTaken)}.Encode(w);
               }));
  return lies;
}

// A node that leaves offers its pages, and says that it goes.
TEST_F(AmongLiars, LeavingEndsInTimeWhateverIsAnswered) {
  ASSERT_TRUE(Eventually([&] { return Serves(); }));
  liar_.Begin(LiesToWhoLeaves());
  ASSERT_TRUE(Eventually([&] { return Serves(); }));
  const TimePoint start = Clock::now();
  node_->Leave(10'000ms);
  EXPECT_LT(Clock::now() - start, testing::kEndsAHang);
  EXPECT_GT(liar_.told(MessageType::kOffer), 0u);
  EXPECT_GT(liar_.told(MessageType::kLeave), 0u);
}

TEST(LyingPeer, EveryAnswerHasALie) {
  std::vector<MessageType> answers{MessageType::kError};  // that anything may be answered with
  const auto note = [&](const std::map<MessageType, LyingPeer::Lie>& lies) {
    for (const auto& lie : lies) answers.push_back(AnswerTo(lie.first));
  };
  for (const Falsehood& falsehood : Falsehoods()) note(falsehood.lies);
  note(LiesToWhoLeaves());
  for (int value = 0; value < 256; ++value) {
    const auto type = static_cast<MessageType>(value);
    if (ShownBy(type) == Shown::kAsAnswers) {
      EXPECT_GT(std::ranges::count(answers, type), 0) << value << " has no lie";
    }
  }
}

}  // namespace
}  // namespace peercache
