#include "wire/clears.h"

#include <gtest/gtest.h>

#include "wire/messages.h"

namespace peercache {
namespace {

template <typename Message>
std::vector<std::byte> Body(const Message& message) {
  FrameWriter w;
  w.Start(MessageType::kClears, 1);
  message.Encode(&w);
  const auto frame = w.Finish();
  return {frame.begin() + sizeof(FrameHeader), frame.end()};
}

template <typename Message>
bool Decodes(std::span<const std::byte> body, Message* message) {
  FrameReader r(body);
  return message->Decode(&r);
}

TEST(Clears, TravelAndAreRefusedWhenCutOrTooLong) {
  const ClearsMessage message{{3, {{5, 1000}, {6, kMaxClearEpoch}}}, 1, {7, 9}};
  auto body = Body(message);
  ClearsMessage got;
  ASSERT_TRUE(Decodes(body, &got));
  EXPECT_EQ(got.state, message.state);
  EXPECT_EQ(got.kind, ClearsMessage::kMade);
  EXPECT_EQ(got.unheard, message.unheard);
  for (size_t size = 0; size < body.size(); ++size)
    EXPECT_FALSE(Decodes(std::span(body).first(size), &got)) << size;
  body.push_back(std::byte{0});
  EXPECT_FALSE(Decodes(body, &got));

  const ClearsAnswer answer{{0, {{5, 1}}}, 1};
  body = Body(answer);
  ClearsAnswer back;
  ASSERT_TRUE(Decodes(body, &back));
  EXPECT_EQ(back.state, answer.state);
  for (size_t size = 0; size < body.size(); ++size)
    EXPECT_FALSE(Decodes(std::span(body).first(size), &back)) << size;
}

TEST(Clears, WhatIsForgottenIsSaidAtTheEndAndOlderReleasesSayNothing) {
  const ClearState state{3, {{5, 1000}}, 0x123456789};
  const auto body = Body(ClearsMessage{state, 1, {7}});
  ClearsMessage got;
  ASSERT_TRUE(Decodes(body, &got));
  EXPECT_EQ(got.state, state);
  const auto older = Body(ClearsMessage{{3, {{5, 1000}}}, 1, {7}});
  EXPECT_EQ(older.size() + sizeof(uint64_t), body.size());
  ASSERT_TRUE(Decodes(older, &got));
  EXPECT_EQ(got.state.forgotten, 0u) << "also when the one before had some";
  for (size_t size = older.size() + 1; size < body.size(); ++size)
    EXPECT_FALSE(Decodes(std::span(body).first(size), &got)) << size;

  const auto answer = Body(ClearsAnswer{state, 1});
  ClearsAnswer back;
  ASSERT_TRUE(Decodes(answer, &back));
  EXPECT_EQ(back.state, state);
  for (size_t size = answer.size() - 7; size < answer.size(); ++size)
    EXPECT_FALSE(Decodes(std::span(answer).first(size), &back)) << size;
}

TEST(Clears, OutOfBoundsAreRefused) {
  ClearsMessage got;
  EXPECT_FALSE(Decodes(Body(ClearsMessage{{0, {{5, 0}}}, 0, {}}), &got)) << "no epoch";
  EXPECT_FALSE(Decodes(Body(ClearsMessage{{0, {{5, kMaxClearEpoch + 1}}}, 0, {}}), &got));
  EXPECT_FALSE(Decodes(Body(ClearsMessage{{kMaxClearEpoch + 1, {}}, 0, {}}), &got));
  EXPECT_FALSE(Decodes(Body(ClearsMessage{{}, 3, {}}), &got));
  EXPECT_FALSE(Decodes(
      Body(ClearsMessage{{0, std::vector<ClearEntry>(kMostClears + 1, {5, 1})}, 0, {}}), &got));
  EXPECT_FALSE(Decodes(Body(ClearsMessage{{0, {}, 7}, 0, {}}), &got)) << "of no floor";
  ClearsAnswer answer;
  EXPECT_FALSE(Decodes(Body(ClearsAnswer{{}, 2}), &answer));
}

TEST(Clears, AreSaidInContactsToThoseWhoListenAndOlderAnswersHaveNone) {
  ShardAnswer with{5, 77, Code::kOk, {}, ClearsVoice{0x1234, 1}}, got;
  auto body = Body(with);
  ASSERT_TRUE(Decodes(body, &got));
  ASSERT_TRUE(got.clears.has_value());
  EXPECT_EQ(got.clears->digest, 0x1234u);
  EXPECT_EQ(got.clears->current, 1);
  const auto older = Body(ShardAnswer{5, 77, Code::kOk, {}, {}});
  ASSERT_TRUE(Decodes(older, &got));
  EXPECT_FALSE(got.clears.has_value()) << "also when the one before had some";
  for (size_t size = older.size() + 1; size < body.size(); ++size)
    EXPECT_FALSE(Decodes(std::span(body).first(size), &got)) << size;
  body.back() = std::byte{2};
  EXPECT_FALSE(Decodes(body, &got));
}

}  // namespace
}  // namespace peercache
