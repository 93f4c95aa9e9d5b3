// A clear against members of every kind, each a real server on loopback that does as it is told.
#include "node/clear/clearing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <functional>

#include "base/claimed_port_testing.h"
#include "base/patience_testing.h"
#include "transport/tcp/server.h"

namespace peercache {
namespace {

using std::chrono::seconds;
using testing::Eventually;
using ::testing::HasSubstr;
using testing::kEndsAHang;

constexpr uint64_t kTag = 7;

class FakeMember : public PeerService {
 public:
  enum class Kind { kNew, kOld, kSilent, kBusy };

  explicit FakeMember(std::string id) : id_(std::move(id)) { Live(); }
  ~FakeMember() override { kind = Kind::kNew; }  // lets go of what it holds

  void Die() {
    kind = Kind::kNew;
    server_.reset();
  }
  // At the same address as before.
  void Live() {
    auto listener = Listen("127.0.0.1", port_);
    ASSERT_TRUE(listener.ok()) << listener.status().ToString();
    server_ = std::make_unique<TcpServer>(std::move(*listener), this, TcpServerOptions{});
  }
  Member member() const {
    Member m;
    m.id = id_;
    m.incarnation = 1;
    m.state = MemberState::kActive;
    m.host = "127.0.0.1";
    m.peer_port = port_;
    return m;
  }
  uint64_t node() const { return NodeHash(id_); }

  Status OnHello(const Hello&, Greeting* answer) override {
    *answer = {{node(), 1}};
    return {};
  }
  Status OnRequest(const FrameHeader& header, FrameReader body, PeerAnswer* answer) override {
    while (kind == Kind::kSilent) std::this_thread::sleep_for(milliseconds(5));
    answer->Start(static_cast<MessageType>(static_cast<int>(header.type) + 1), header.request_id);
    if (header.type == MessageType::kClearTag) {
      ++swept;
      answer->frame.Put(uint32_t{kind == Kind::kBusy ? 3u : 0u});
      return {};
    }
    if (header.type != MessageType::kClears || kind == Kind::kOld)
      return Corrupt("a node cannot be asked for this");
    ClearsMessage message;
    if (!message.Decode(&body)) return Corrupt("malformed");
    message.view = header.number;
    std::lock_guard lock(mutex_);
    if (message.kind == ClearsMessage::kHeard) last_heard_ = message;
    if (kind != Kind::kBusy) table_.Take(message.state);
    ClearsAnswer{table_.state(), 1, noted}.Encode(&answer->frame);
    return {};
  }

  void Take(const ClearState& heard) {
    std::lock_guard lock(mutex_);
    table_.Take(heard);
  }
  ClearTable table() const {
    std::lock_guard lock(mutex_);
    return table_;
  }
  ClearsMessage last_heard() const {
    std::lock_guard lock(mutex_);
    return last_heard_;
  }

  std::atomic<Kind> kind{Kind::kNew};
  std::atomic<int> swept{0};
  std::atomic<bool> noted{false};  // its drives are at it

 private:
  const std::string id_;
  mutable std::mutex mutex_;  // of what the server's threads write
  ClearTable table_;
  ClearsMessage last_heard_;
  const uint16_t port_ = testing::ClaimPort();
  std::unique_ptr<TcpServer> server_;
};

class ClearingTest : public ::testing::Test {
 protected:
  ClearingTest() {
    // Made by threads at once, it would be a race to ThreadSanitizer, which does not see into
    // spdlog.
    spdlog::default_logger();
    See({&a_, &b_, &c_});
    EXPECT_TRUE(clears_.Start().ok());
    EXPECT_TRUE(Eventually([&] { return clears_.Current(Clock::now()); }));
  }
  ~ClearingTest() override {
    records_ = true;
    clears_.Stop();
  }

  void See(const std::vector<FakeMember*>& members) {
    auto view = std::make_shared<View>();
    for (const FakeMember* member : members) {
      view->members.push_back(member->member());
      view->by_node.emplace(member->node(), view->members.size() - 1);
    }
    peers_.Update(*view);
    views_.Set(view);
  }
  bool ReadsFrom(const FakeMember& member) {
    const PeerRef peer = peers_.Find(member.node());
    return peer != nullptr && peers_.Vouched(*peer);
  }

  FakeMember a_{"a"}, b_{"b"}, c_{"c"};
  std::unique_ptr<Secret> secret_ = Secret::None();
  Counters counters_;
  Views views_;
  Peers peers_{Hello{"test", "", NodeHash("self"), 1}, secret_.get(), OwnerTimes{}};
  std::atomic<int> swept_{0};
  std::atomic<size_t> busy_{0};
  const Clears::Sweep sweep_ = [this](const ClearOrder&) {
    ++swept_;
    return busy_.load();
  };
  std::atomic<bool> records_{true};  // else this node's drives are at it
  Clears clears_{{.peer_timeout = milliseconds(400),
                  .stall = milliseconds(100),
                  .member_ttl = milliseconds(2000),
                  .record =
                      [this] {
                        while (!records_) std::this_thread::sleep_for(milliseconds(1));
                      }},
                 &peers_,
                 &views_,
                 &counters_,
                 sweep_};
  Clearing clearing_{{"self", milliseconds(400), milliseconds(100), seconds(60)},
                     &peers_,
                     &clears_,
                     &counters_,
                     sweep_};
};

TEST_F(ClearingTest, EverybodyHearsAndIsReadFrom) {
  ASSERT_TRUE(clearing_.Clear(kTag).ok());
  for (FakeMember* member : {&a_, &b_, &c_}) {
    EXPECT_GE(member->swept, 1);
    EXPECT_EQ(member->table().size(), 1u);
    EXPECT_TRUE(ReadsFrom(*member));
  }
  const std::vector<uint64_t> all{a_.node(), b_.node(), c_.node(), peers_.self()};
  EXPECT_EQ(a_.last_heard().view, MarkOf(all));
  const uint64_t first = a_.table().EpochOf(kTag);
  ASSERT_TRUE(clearing_.Clear(kTag).ok());
  EXPECT_GT(a_.table().EpochOf(kTag), first);
}

TEST_F(ClearingTest, WhoDoesNotAnswerIsNamedAndNotReadFromBeforeItSaysThatItKnows) {
  b_.kind = FakeMember::Kind::kSilent;
  const TimePoint start = Clock::now();
  const Status status = clearing_.Clear(kTag);
  EXPECT_LT(Clock::now() - start, kEndsAHang / 2);
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("1 of 4 members do not know it: b;"));
  EXPECT_TRUE(ReadsFrom(a_));
  EXPECT_FALSE(ReadsFrom(b_));
  EXPECT_EQ(a_.last_heard().unheard, std::vector<uint64_t>{b_.node()}) << "so the others know";
  // An answer without the clear does not help, nor does being out of the view and back.
  See({&a_, &c_});
  See({&a_, &b_, &c_});
  EXPECT_FALSE(ReadsFrom(b_));
  b_.kind = FakeMember::Kind::kNew;
  // It is told of the clear as soon as it can be, and then it says so.
  EXPECT_TRUE(Eventually([&] { return ReadsFrom(b_); }));
  EXPECT_EQ(b_.table().size(), 1u);
}

TEST_F(ClearingTest, WhoWasLostAMomentAgoIsNamedUnlessItsProcessIsGone) {
  b_.kind = FakeMember::Kind::kSilent;
  See({&a_, &c_});
  EXPECT_THAT(clearing_.Clear(kTag).message(), HasSubstr("1 of 4 members do not know it: b;"));
  b_.Die();
  EXPECT_TRUE(clearing_.Clear(kTag).ok()) << "nobody listens there: its pages are gone";
}

// A process that is gone may be followed by one that has its pages, which hears of the clear from
// nobody if it asks before others know.
TEST_F(ClearingTest, WhoComesBackWhileAClearIsMadeIsTold) {
  b_.Die();
  busy_ = 1;  // here, which keeps it going
  Status status;
  std::thread engine([&] { status = clearing_.Clear(kTag); });
  EXPECT_TRUE(Eventually([&] { return a_.swept > 0 && swept_ > 1; }));
  b_.Live();
  busy_ = 0;
  engine.join();
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(b_.table().EpochOf(kTag), a_.table().EpochOf(kTag));
  EXPECT_EQ(a_.last_heard().unheard, std::vector<uint64_t>{b_.node()}) << "it had not heard then";
}

// Frozen for longer than lost members are asked for: nobody names it, but it still has its pages,
// and shards have records of them.
TEST_F(ClearingTest, WhoWasLostLongAgoIsNotNamedAndNotReadFromBeforeItKnows) {
  constexpr milliseconds kRemember{50};
  Clearing clearing{{"self", milliseconds(400), milliseconds(100), kRemember},
                    &peers_,
                    &clears_,
                    &counters_,
                    sweep_};
  EXPECT_TRUE(Eventually([&] { return ReadsFrom(b_); }));
  b_.kind = FakeMember::Kind::kSilent;
  See({&a_, &c_});
  std::this_thread::sleep_for(2 * kRemember);
  const Status status = clearing.Clear(kTag);
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(b_.swept, 0);
  See({&a_, &b_, &c_});
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_FALSE(ReadsFrom(b_)) << "it has said nothing since it is back";
  b_.kind = FakeMember::Kind::kNew;
  EXPECT_TRUE(Eventually([&] { return ReadsFrom(b_); }));
  EXPECT_EQ(b_.table().EpochOf(kTag), a_.table().EpochOf(kTag)) << "it was told before";
}

// The other side of that: this node was away, for however long.
TEST_F(ClearingTest, WhoWasAwayDropsWhatWasClearedBeforeItGivesAnything) {
  for (FakeMember* member : {&a_, &b_, &c_}) member->kind = FakeMember::Kind::kSilent;
  ASSERT_TRUE(Eventually([&] { return !clears_.Current(Clock::now()); })) << "after member_ttl";
  for (FakeMember* member : {&a_, &b_, &c_}) member->Take({{}, {{kTag, 5}}});
  busy_ = 1;
  const int before = swept_;
  for (FakeMember* member : {&a_, &b_, &c_}) member->kind = FakeMember::Kind::kNew;
  EXPECT_TRUE(Eventually([&] { return swept_ > before; }));
  EXPECT_FALSE(clears_.Current(Clock::now())) << "pages of the tag are still there";
  busy_ = 0;
  EXPECT_TRUE(Eventually([&] { return clears_.Current(Clock::now()); }));
  EXPECT_EQ(clears_.Voice(Clock::now()).digest, a_.table().digest());
}

// As a member that is told so by a clearer. One that has just come back is in this node's view, and
// has said that it knows all clears before; the clearer has not seen it yet, so it is not asked.
TEST_F(ClearingTest, ThatAllHaveHeardCountsForThoseWhoWereAsked) {
  const auto told = [&](std::vector<uint64_t> asked) {
    for (const FakeMember* member : {&a_, &b_, &c_}) {
      const ClearsVoice voice = clears_.Voice(Clock::now());
      clears_.Heard(peers_.Find(member->node()), 1, voice, Clock::now());
      EXPECT_TRUE(ReadsFrom(*member));
    }
    asked.push_back(peers_.self());
    const ClearState made{{}, {{kTag, clears_.New(kTag).epoch}}};
    EXPECT_TRUE(clears_.Answer({made, ClearsMessage::kMade, {}}).ok());
    EXPECT_FALSE(ReadsFrom(b_));
    EXPECT_TRUE(clears_.Answer({made, ClearsMessage::kHeard, {}, MarkOf(asked)}).ok());
  };
  for (FakeMember* member : {&a_, &b_, &c_}) member->kind = FakeMember::Kind::kSilent;
  told({a_.node(), c_.node()});
  EXPECT_FALSE(ReadsFrom(b_)) << "nobody has asked it";
  EXPECT_FALSE(ReadsFrom(a_)) << "nothing says that this one was asked";
  told({c_.node(), a_.node(), b_.node()});
  EXPECT_TRUE(ReadsFrom(a_) && ReadsFrom(b_) && ReadsFrom(c_));
}

TEST_F(ClearingTest, PagesInUseAreSaid) {
  c_.kind = FakeMember::Kind::kBusy;
  EXPECT_THAT(clearing_.Clear(kTag).message(), HasSubstr("pages are still in use on c;"));
  c_.kind = FakeMember::Kind::kNew;
  busy_ = 1;
  EXPECT_THAT(clearing_.Clear(kTag).message(), HasSubstr("pages are still in use on self;"));
  EXPECT_FALSE(clears_.Current(Clock::now())) << "what it knows of it must not give";
  busy_ = 0;
  EXPECT_TRUE(Eventually([&] { return clears_.Current(Clock::now()); }));
}

TEST_F(ClearingTest, DrivesThatTakeLongKeepNobodyButTheAnswerWaiting) {
  Clearing clearing{
      {"self", kEndsAHang, milliseconds(100), seconds(60)}, &peers_, &clears_, &counters_, sweep_};
  b_.noted = true;
  records_ = false;
  std::atomic<bool> ended{false};
  std::thread engine([&] {
    EXPECT_TRUE(clearing.Clear(kTag).ok());
    ended = true;
  });
  EXPECT_TRUE(Eventually([&] { return a_.last_heard().view != 0; }));
  EXPECT_TRUE(a_.last_heard().unheard.empty()) << "they all know";
  EXPECT_TRUE(Eventually([&] { return ReadsFrom(b_); }));
  EXPECT_TRUE(Eventually([&] { return clears_.Current(Clock::now()); }));
  const ClearState made{{}, {{kTag, a_.table().EpochOf(kTag)}}};
  const auto answer = clears_.Answer({made, ClearsMessage::kMade, {}});
  EXPECT_TRUE(answer.ok() && answer->noted) << "as a member that is asked";
  std::thread other([&] { EXPECT_TRUE(clearing.Clear(kTag + 1).ok()); });
  EXPECT_TRUE(Eventually([&] { return a_.table().EpochOf(kTag + 1) != 0; })) << "the next clear";
  b_.noted = false;
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_FALSE(ended) << "this node's own drives";
  records_ = true;
  engine.join();
  other.join();
}

TEST_F(ClearingTest, DrivesThatTakeTooLongAreNamed) {
  b_.noted = true;
  EXPECT_THAT(clearing_.Clear(kTag).message(), HasSubstr("the drives of b have not recorded it"));
  b_.noted = false;
  records_ = false;
  EXPECT_THAT(clearing_.Clear(kTag).message(), HasSubstr("the drives of self have not recorded"));
  records_ = true;
  EXPECT_TRUE(Eventually([&] { return clearing_.Clear(kTag).ok(); }));
}

// As of a node that has a drive which is off.
TEST_F(ClearingTest, WhatNoDriveHasRecordedIsSaidUnlessAnotherMemberKnows) {
  Clearing clearing{
      {"self", milliseconds(400), milliseconds(100), seconds(60), [] { return true; }},
      &peers_,
      &clears_,
      &counters_,
      sweep_};
  EXPECT_TRUE(clearing.Clear(kTag).ok()) << "they tell it when it starts again";
  for (FakeMember* member : {&a_, &b_, &c_}) member->kind = FakeMember::Kind::kOld;
  EXPECT_THAT(clearing.Clear(kTag).message(), HasSubstr("remove the files in disk-path"));
  for (FakeMember* member : {&a_, &b_, &c_}) member->Die();
  See({});
  const Status status = clearing.Clear(kTag);
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("remove the files in disk-path"));
}

TEST_F(ClearingTest, AReleaseThatKeepsNoClearsIsSweptTwice) {
  a_.kind = FakeMember::Kind::kOld;
  ASSERT_TRUE(clearing_.Clear(kTag).ok());
  EXPECT_EQ(a_.swept, 2);
  EXPECT_TRUE(ReadsFrom(a_)) << "it has dropped them";
  a_.kind = FakeMember::Kind::kSilent;
  EXPECT_THAT(clearing_.Clear(kTag).message(), HasSubstr("a"));
  a_.kind = FakeMember::Kind::kOld;
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_FALSE(ReadsFrom(a_)) << "it cannot say that it has";
}

TEST_F(ClearingTest, AnotherMembersClearOfTheTagIsNotTakenForThisOne) {
  const uint64_t theirs = clears_.New(kTag).epoch + (uint64_t{3600} << 30);  // a clock an hour fast
  b_.Take({{}, {{kTag, theirs}}});
  ASSERT_TRUE(clearing_.Clear(kTag).ok());
  EXPECT_GT(b_.table().EpochOf(kTag), theirs);
  EXPECT_EQ(a_.table().EpochOf(kTag), b_.table().EpochOf(kTag));
}

TEST_F(ClearingTest, NorIsOneThatIsKnownToAMemberThatAnswersLate) {
  const uint64_t theirs = clears_.New(kTag).epoch + (uint64_t{3600} << 30);
  b_.Take({{}, {{kTag, theirs}}});
  b_.kind = FakeMember::Kind::kSilent;
  Status status;
  std::thread engine([&] { status = clearing_.Clear(kTag); });
  EXPECT_TRUE(Eventually([&] { return a_.last_heard().unheard.size() == 1; })) << "all others know";
  b_.kind = FakeMember::Kind::kNew;
  engine.join();
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_GT(b_.table().EpochOf(kTag), theirs);
  EXPECT_EQ(a_.table().EpochOf(kTag), b_.table().EpochOf(kTag));
}

TEST_F(ClearingTest, CallsThatWaitTogetherAreOneClear) {
  b_.kind = FakeMember::Kind::kSilent;  // takes long
  std::vector<std::thread> engines;
  for (int i = 0; i < 16; ++i)
    engines.emplace_back([&] { EXPECT_FALSE(clearing_.Clear(kTag).ok()); });
  for (auto& engine : engines) engine.join();
  EXPECT_LE(counters_.clears, 4u);
}

TEST_F(ClearingTest, AMissedClearIsHeardOfAndSweptForBeforeItIsKnown) {
  busy_ = 1;
  c_.Take({{}, {{9, 5}}});
  clears_.Heard(peers_.Find(c_.node()), 1, ClearsVoice{c_.table().digest(), 1}, Clock::now());
  const int before = swept_;
  EXPECT_TRUE(Eventually([&] { return swept_ > before; }));
  EXPECT_FALSE(clears_.Current(Clock::now()));
  EXPECT_EQ(clears_.Voice(Clock::now()).digest, 0u) << "not before the pages are gone";
  busy_ = 0;
  EXPECT_TRUE(Eventually([&] { return clears_.Current(Clock::now()); }));
  EXPECT_EQ(clears_.Voice(Clock::now()).digest, c_.table().digest());
  EXPECT_EQ(counters_.clears_caught_up, 1u);
  // And passed on.
  EXPECT_TRUE(Eventually([&] { return a_.table().size() == 1; }));
  EXPECT_TRUE(Eventually([&] { return ReadsFrom(a_) && ReadsFrom(b_) && ReadsFrom(c_); }));
}

TEST_F(ClearingTest, WhoGetsNoAnswersGivesNoPages) {
  for (FakeMember* member : {&a_, &b_, &c_}) member->kind = FakeMember::Kind::kSilent;
  EXPECT_TRUE(Eventually([&] { return !clears_.Current(Clock::now()); })) << "after member_ttl";
  // The first call may find out; those that follow do not wait.
  (void)clears_.Await(Clock::now(), Clock::now() + seconds(5));
  const TimePoint start = Clock::now();
  EXPECT_FALSE(clears_.Await(start, start + kEndsAHang));
  EXPECT_LT(Clock::now() - start, kEndsAHang / 2);
  for (FakeMember* member : {&a_, &b_, &c_}) member->kind = FakeMember::Kind::kNew;
  EXPECT_TRUE(Eventually([&] { return clears_.Current(Clock::now()); }));
}

// No page is a miss in between: a call waits until the thread has seen that nobody is left.
TEST_F(ClearingTest, WhoHasGotNoAnswersAndIsAloneThenWaitsNoLonger) {
  for (FakeMember* member : {&a_, &b_, &c_}) member->kind = FakeMember::Kind::kSilent;
  ASSERT_TRUE(Eventually([&] { return !clears_.Current(Clock::now()); }));
  const TimePoint now = Clock::now();
  ASSERT_FALSE(clears_.Await(now, now + seconds(1)));
  See({});
  EXPECT_TRUE(clears_.Await(Clock::now(), Clock::now() + kEndsAHang));
}

TEST_F(ClearingTest, WhoIsAloneIsCurrent) {
  See({});
  for (FakeMember* member : {&a_, &b_, &c_}) member->Die();
  std::this_thread::sleep_for(milliseconds(2500));
  // A thread that a busy machine has just stopped is not, for a moment.
  EXPECT_TRUE(Eventually([&] { return clears_.Current(Clock::now()); }));
}

}  // namespace
}  // namespace peercache
