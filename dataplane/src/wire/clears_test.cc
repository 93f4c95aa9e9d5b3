#include "wire/clears.h"

#include <gtest/gtest.h>

#include <algorithm>

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
  const ClearsMessage message{
      {{{0, 3, 8}, {7, kMaxClearEpoch, 0}}, {{5, 1000}, {6, kMaxClearEpoch}}}, 1, {7, 9}};
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

  const ClearsAnswer answer{{{}, {{5, 1}}}, 1};
  body = Body(answer);
  ClearsAnswer back;
  ASSERT_TRUE(Decodes(body, &back));
  EXPECT_EQ(back.state, answer.state);
  for (size_t size = 0; size < body.size(); ++size)
    EXPECT_FALSE(Decodes(std::span(body).first(size), &back)) << size;
}

TEST(Clears, AStateBeginsWithWhatIsForgotten) {
  ClearsMessage message{{{{1, 3, 0x123456789}}, {{5, 1000}}}, 1, {7}}, got;
  const size_t with = Body(message).size();
  message.state.forgotten.clear();
  const auto body = Body(message);
  EXPECT_EQ(body.size() + sizeof(ForgottenClears), with);
  EXPECT_TRUE(std::ranges::all_of(std::span(body).first(8), [](std::byte b) {
    return b == std::byte{0};
  })) << "as of releases that knew no groups";
  ASSERT_TRUE(Decodes(body, &got));
  EXPECT_EQ(got.state, message.state);
}

TEST(Clears, OutOfBoundsAreRefused) {
  ClearsMessage got;
  EXPECT_FALSE(Decodes(Body(ClearsMessage{{{}, {{5, 0}}}, 0, {}}), &got)) << "no epoch";
  EXPECT_FALSE(Decodes(Body(ClearsMessage{{{}, {{5, kMaxClearEpoch + 1}}}, 0, {}}), &got));
  const auto forgotten = [&](std::vector<ForgottenClears> all) {
    return Decodes(Body(ClearsMessage{{std::move(all), {}}, 0, {}}), &got);
  };
  EXPECT_TRUE(forgotten({{0, 1, 7}, {kTagGroups - 1, 1, 7}}));
  EXPECT_FALSE(forgotten({{0, kMaxClearEpoch + 1, 7}}));
  EXPECT_FALSE(forgotten({{0, 0, 7}})) << "nothing";
  EXPECT_FALSE(forgotten({{kTagGroups, 1, 7}}));
  EXPECT_FALSE(forgotten({{3, 1, 7}, {3, 2, 7}})) << "of one group twice";
  EXPECT_FALSE(forgotten({{4, 1, 7}, {3, 2, 7}}));
  EXPECT_FALSE(Decodes(Body(ClearsMessage{{}, 3, {}}), &got));
  EXPECT_FALSE(Decodes(
      Body(ClearsMessage{{{}, std::vector<ClearEntry>(kMostClears + 1, {5, 1})}, 0, {}}), &got));
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
