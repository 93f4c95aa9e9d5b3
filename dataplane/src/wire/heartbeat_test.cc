#include "wire/heartbeat.h"

#include <gtest/gtest.h>

#include <functional>

#include "wire/fabric.h"
#include "wire/messages.h"

namespace peercache {
namespace {

Heartbeat Full() {
  Heartbeat beat;
  beat.member.id = "node7.numa0";
  beat.member.incarnation = 42;
  beat.member.state = MemberState::kActive;
  beat.member.host = "10.0.0.7";
  beat.member.peer_port = 31998;
  beat.health = {"numa0", 8,  7, "mlx5_3 port 1", NumaHealth::kMemoryElsewhere, 4, 1000, 900,
                 5000,    80, 70};
  return beat;
}

std::vector<std::byte> BodyOf(const Heartbeat& beat) {
  FrameWriter w;
  w.Start(MessageType::kHeartbeat, 1);
  beat.Encode(&w);
  const auto frame = w.Finish();
  return {frame.begin() + sizeof(FrameHeader), frame.end()};
}

bool Decodes(const Heartbeat& beat, Heartbeat* decoded) {
  const auto body = BodyOf(beat);
  FrameReader r(body);
  return decoded->Decode(&r);
}

TEST(Heartbeat, WhatIsSaidIsHeard) {
  Heartbeat heard;
  ASSERT_TRUE(Decodes(Full(), &heard));
  EXPECT_EQ(heard.health, Full().health);
  EXPECT_EQ(heard.member.id, "node7.numa0");
  ASSERT_TRUE(Decodes(Heartbeat(), &heard)) << "all of it may be nothing";
  EXPECT_EQ(heard.health, MemberHealth());
}

TEST(Heartbeat, AnythingShorterOrLongerIsNone) {
  auto body = BodyOf(Full());
  Heartbeat heard;
  // Without the latest lookups it is one of an older release.
  constexpr size_t kLatest = 16;
  for (size_t n = 0; n < body.size(); ++n) {
    if (n == body.size() - kLatest) continue;
    const std::vector<std::byte> cut(body.begin(), body.begin() + static_cast<std::ptrdiff_t>(n));
    FrameReader r(cut);
    EXPECT_FALSE(heard.Decode(&r)) << n << " of " << body.size();
  }
  body.push_back(std::byte{0});
  FrameReader r(body);
  EXPECT_FALSE(heard.Decode(&r));
}

TEST(Heartbeat, OfAnOlderReleaseSaysNothingOfLookups) {
  FrameWriter w;
  w.Start(MessageType::kHeartbeat, 1);
  Full().Encode(&w, 0);
  FrameReader r(w.Finish().subspan(sizeof(FrameHeader)));
  Heartbeat heard;
  ASSERT_TRUE(heard.Decode(&r));
  EXPECT_EQ(heard.health.recent_looked_up, 0u)
      << "it counted gets, which are not what was looked up";
  EXPECT_EQ(heard.health.recent_delivered, 0u);
  EXPECT_EQ(heard.health.latest_looked_up, 0u);
  EXPECT_EQ(heard.health.pool_used_bytes, 5000u);
}

TEST(Heartbeat, SaysWhatTheMemberDidToHostsThatTakeIt) {
  Heartbeat beat = Full(), heard;
  beat.health.activity.emplace().milliseconds = 10'000;
  ASSERT_TRUE(Decodes(beat, &heard));
  EXPECT_EQ(heard.health, beat.health);
  ASSERT_TRUE(Decodes(Full(), &heard));
  EXPECT_FALSE(heard.health.activity) << "nothing is left of an earlier one";
  for (const uint16_t host : {uint16_t{0}, FrameHeader::kHearsLookups, FrameHeader::kHearsActivity,
                              FrameHeader::kHearsCrowds}) {
    FrameWriter w, without;
    w.Start(MessageType::kHeartbeat, 1);
    beat.Encode(&w, host);
    without.Start(MessageType::kHeartbeat, 1);
    Full().Encode(&without, host);
    EXPECT_EQ(w.Finish().size(), without.Finish().size()) << host;
  }
}

TEST(Heartbeat, WhatCannotBeIsRefused) {
  const std::vector<std::pair<const char*, std::function<void(MemberHealth*)>>> impossible = {
      {"more rails than there can be", [](MemberHealth* h) { h->rails = kMaxRails + 1; }},
      {"more rails up than there are", [](MemberHealth* h) { h->rails_up = 9; }},
      {"more pages found than asked for", [](MemberHealth* h) { h->recent_delivered = 1001; }},
      {"more of the latest", [](MemberHealth* h) { h->latest_delivered = 81; }},
      {"no such placement", [](MemberHealth* h) { h->numa = static_cast<NumaHealth>(5); }},
      {"a group that is no name", [](MemberHealth* h) { h->group = "a b"; }},
  };
  for (const auto& [what, change] : impossible) {
    Heartbeat beat = Full(), heard;
    change(&beat.health);
    EXPECT_FALSE(Decodes(beat, &heard)) << what;
  }
}

TEST(Heartbeat, HealthIsSmallHoweverLongTheNames) {
  Heartbeat plain = Full(), long_names = Full(), heard;
  plain.health = {};
  const size_t without = BodyOf(plain).size();
  EXPECT_LE(BodyOf(Full()).size() - without, 32u) << "what it usually costs besides fixed fields";
  long_names.health.group.assign(10'000, 'g');
  long_names.health.rail_down.assign(10'000, 'r');
  EXPECT_LT(BodyOf(long_names).size() - without, 300u);
  ASSERT_TRUE(Decodes(long_names, &heard));
  EXPECT_EQ(heard.health.group.size(), kMaxIdBytes);
  EXPECT_EQ(heard.health.rail_down.size(), kMaxRailNameBytes);
}

TEST(Heartbeat, AMachineMayHaveTheLongestNameOfKubernetes) {
  Heartbeat beat = Full(), heard;
  beat.member.id = std::string(253, 'm') + "." + std::string(63, 'g');
  ASSERT_TRUE(Decodes(beat, &heard));
  EXPECT_EQ(heard.member.id, beat.member.id);
  beat.member.id.assign(kMaxMemberIdBytes + 1, 'm');
  EXPECT_FALSE(Decodes(beat, &heard));
}

TEST(Heartbeat, RailNamesAreMadePrintable) {
  Heartbeat beat = Full(), heard;
  beat.health.rail_down = "mlx5\n\x1b[31m";
  ASSERT_TRUE(Decodes(beat, &heard));
  EXPECT_EQ(heard.health.rail_down, "mlx5??[31m");
}

}  // namespace
}  // namespace peercache
