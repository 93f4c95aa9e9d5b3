// Crowds: many members that come, leave or are lost at once. Members and hosts are played with what
// they really run, message bytes included; only sockets and clocks are not real.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <span>

#include "membership/table.h"
#include "membership/view.h"
#include "wire/heartbeat.h"

namespace peercache {
namespace {

constexpr milliseconds kBeat{500};
constexpr Duration kTtl = milliseconds(3000);
// Members that hear the same answer. An answer for each member would take twice as long.
constexpr size_t kTogether = 10;

std::vector<std::byte> BodyOf(const std::function<void(FrameWriter*)>& encode) {
  FrameWriter w;
  w.Start(MessageType::kHeartbeat, 1);
  encode(&w);
  const auto frame = w.Finish();
  return {frame.begin() + sizeof(FrameHeader), frame.end()};
}

Member MakeMember(int number, MemberState state) {
  Member member;
  member.id = "peercache-" + std::to_string(number) + ".default";
  member.incarnation = 1;
  member.state = state;
  member.host = "10.0." + std::to_string(number / 250) + "." + std::to_string(number % 250);
  member.peer_port = 31998;
  member.capacity_bytes = uint64_t{1} << 30;
  return member;
}

// One discovery host.
class Host {
 public:
  explicit Host(TimePoint started) : table_({.member_ttl = kTtl}, started) {}

  void Hear(const Member& member, TimePoint now) {
    const auto body = BodyOf([&](FrameWriter* w) { Heartbeat{member, {}}.Encode(w); });
    FrameReader r(body);
    Heartbeat heard;
    ASSERT_TRUE(heard.Decode(&r));
    ASSERT_TRUE(table_.Heartbeat(heard.member, now).ok());
  }
  MemberList Answer(TimePoint now) {
    const MemberListMessage list = ToWire(table_.List(now));
    const auto body = BodyOf([&](FrameWriter* w) { list.EncodeOnce(w); });
    largest_answer_ = std::max(largest_answer_, body.size());
    FrameReader r(body);
    MemberListMessage heard;
    EXPECT_TRUE(heard.DecodeOnce(&r));
    return FromWire(heard);
  }
  size_t largest_answer() const { return largest_answer_; }

 private:
  Table table_;
  size_t largest_answer_ = 0;
};

// A member, as node/peer/member_agent.cc makes it go.
struct Node {
  Member self;
  KnownMembers known;
  std::shared_ptr<const View> view;
  std::vector<uint64_t> suspects;

  void Tell(Host* host, TimePoint now) {
    suspects.resize(std::min(suspects.size(), kMostListed));
    self.unreachable = suspects;
    host->Hear(self, now);
  }
  // `prepares`: puts every record where the view wants it, until its next heartbeat.
  void Learn(const MemberList& answer, bool prepares, TimePoint now) {
    MergeLists({&answer, 1}, kTtl, now, &known);
    ViewOptions options;
    options.vnodes = 1;
    options.grace = 2 * kTtl;
    options.voting = kTtl / 2;
    options.self = NodeHash(self.id);
    view = BuildView(view, known, options, now);
    if (prepares) self.synced = PendingChanges(*view);
    if (self.state == MemberState::kJoining && prepared()) self.state = MemberState::kActive;
  }
  bool prepared() const {
    return view->HasMember(NodeHash(self.id)) && EveryoneSynced(*view, self);
  }
};

class Crowd : public ::testing::Test {
 protected:
  void Add(int members, MemberState state) {
    for (int i = 0; i < members; ++i)
      nodes_.push_back({MakeMember(static_cast<int>(nodes_.size()), state), {}, nullptr, {}});
  }
  // Each member tells the host how it is and hears of the others.
  void BeatAll(bool prepare = true) {
    const std::span all(nodes_);
    for (size_t first = 0; first < all.size(); first += kTogether) {
      const auto some = all.subspan(first, std::min(kTogether, all.size() - first));
      for (Node& node : some) node.Tell(&host_, now_);
      const MemberList answer = host_.Answer(now_);
      for (Node& node : some) node.Learn(answer, prepare, now_);
    }
    now_ += kBeat;
  }
  // The same, but only `listeners` look at what they hear.
  void TellAll(std::initializer_list<int> listeners) {
    for (Node& node : nodes_) node.Tell(&host_, now_);
    for (const int i : listeners)
      nodes_[static_cast<size_t>(i)].Learn(host_.Answer(now_), true, now_);
    now_ += kBeat;
  }
  int InState(MemberState state) const {
    return static_cast<int>(
        std::ranges::count(nodes_, state, [](const Node& node) { return node.self.state; }));
  }
  uint64_t HashOf(int i) const { return NodeHash(nodes_[static_cast<size_t>(i)].self.id); }
  const View& ViewOf(int i) const { return *nodes_[static_cast<size_t>(i)].view; }
  // Of members `first` to `last`.
  std::vector<uint64_t> Hashes(int first, int last) const {
    std::vector<uint64_t> hashes;
    for (int i = first; i < last; ++i) hashes.push_back(HashOf(i));
    std::ranges::sort(hashes);
    return hashes;
  }

  TimePoint now_ = TimePoint(std::chrono::hours(1));
  Host host_{now_ - std::chrono::minutes(1)};
  std::vector<Node> nodes_;
};

// A host knows all after one round, all know them after two, say that they have prepared in the
// third and hear so by the fourth.
constexpr int kRounds = 4;

TEST_F(Crowd, TwoHundredWhoJoinAtOnceAreActiveAfterAFewHeartbeats) {
  Add(40, MemberState::kActive);
  BeatAll();
  Add(200, MemberState::kJoining);
  for (int round = 0; round < kRounds; ++round) BeatAll();
  EXPECT_EQ(InState(MemberState::kActive), 240);
}

// Members drain for minutes while their pages are moved. Neither they nor who joins meanwhile wait
// for the others to be through.
TEST_F(Crowd, WhoDrainsForLongKeepsNobodyFromJoiningOrDraining) {
  Add(40, MemberState::kActive);
  Add(150, MemberState::kDraining);
  Add(50, MemberState::kJoining);
  for (int round = 0; round < kRounds; ++round) BeatAll();
  EXPECT_EQ(InState(MemberState::kActive), 90);
  for (int round = 0; round < 2; ++round) BeatAll();
  EXPECT_TRUE(std::ranges::all_of(nodes_, [](const Node& node) {
    return node.self.state != MemberState::kDraining || node.prepared();
  }));
}

TEST_F(Crowd, NobodyJoinsBeforeAllHavePrepared) {
  Add(10, MemberState::kActive);
  Add(100, MemberState::kJoining);
  for (int round = 0; round < 10; ++round) BeatAll(false);
  EXPECT_EQ(InState(MemberState::kJoining), 100);
}

// Members 872 to 999 are behind a cable that carries their heartbeats and nothing else: they stay
// members, and only the others' word takes them out of the rings.
class Rack : public Crowd {
 protected:
  static constexpr int kMembers = 1000, kCut = 872;
  Rack() { Add(kMembers, MemberState::kActive); }
  void Break() {
    for (int i = 0; i < kMembers; ++i) {
      auto& suspects = nodes_[static_cast<size_t>(i)].suspects;
      suspects = i < kCut ? Hashes(kCut, kMembers) : Hashes(0, kCut);
    }
  }
};

TEST_F(Rack, AllOfItLeavesTheRingsAtTheNextHeartbeat) {
  TellAll({0, kCut});
  Break();
  TellAll({0, kCut});
  for (const int i : {0, kCut}) {
    EXPECT_EQ(ViewOf(i).unreachable, Hashes(kCut, kMembers));
    EXPECT_EQ(ViewOf(i).current.members().size(), size_t{kCut});
    EXPECT_EQ(ViewOf(i).members.size(), size_t{kMembers});
  }
  for (Node& node : nodes_) node.suspects.clear();
  TellAll({0});
  EXPECT_EQ(ViewOf(0).current.members().size(), size_t{kMembers}) << "and is back in them";
}

TEST_F(Rack, AnAnswerGrowsByWhatIsSaidOnceAndNotByWhoSaysIt) {
  TellAll({0});
  const size_t before = host_.largest_answer();
  Break();
  TellAll({0});
  EXPECT_EQ(host_.largest_answer(), before + 2 * sizeof(uint32_t) + kMembers * sizeof(uint64_t))
      << "the 128 that the others name, and the 872 that they name themselves";
}

// Each has besides a few of its own that it does not reach, so that no two say the same.
TEST_F(Rack, OwnTroublesOfEachDoNotKeepItInTheRings) {
  Break();
  for (int i = 0; i < kCut; ++i) {
    auto& suspects = nodes_[static_cast<size_t>(i)].suspects;
    for (const int own : {1, 7, 40}) suspects.push_back(HashOf((i + own) % kCut));
    std::ranges::sort(suspects);
  }
  TellAll({0, kCut});
  for (const int i : {0, kCut}) EXPECT_EQ(ViewOf(i).unreachable, Hashes(kCut, kMembers));
  EXPECT_LT(host_.largest_answer(), size_t{2} << 20);
}

TEST_F(Rack, ThatIsSilentIsOutOfTheRingsAndThenForgotten) {
  TellAll({0});
  Break();
  nodes_.resize(kCut, {});
  TellAll({0});
  EXPECT_EQ(ViewOf(0).current.members().size(), size_t{kCut});
  EXPECT_EQ(ViewOf(0).members.size(), size_t{kMembers});
  for (Duration passed{}; passed <= kTtl; passed += kBeat) TellAll({0});
  EXPECT_EQ(ViewOf(0).members.size(), size_t{kCut});
}

}  // namespace
}  // namespace peercache
