// What members and hosts say of many members at once.

#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "wire/heartbeat.h"
#include "wire/messages.h"

namespace peercache {
namespace {

std::vector<uint64_t> From(uint64_t first, size_t count) {
  std::vector<uint64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

Member MakeMember(const std::string& id, SharedList synced, SharedList unreachable) {
  Member member;
  member.id = id;
  member.incarnation = 1;
  member.host = "10.0.0.1";
  member.peer_port = 1;
  member.synced = std::move(synced);
  member.unreachable = std::move(unreachable);
  return member;
}

std::vector<std::byte> BodyOf(const std::function<void(FrameWriter*)>& encode) {
  FrameWriter w;
  w.Start(MessageType::kHeartbeatOk, 1);
  encode(&w);
  const auto frame = w.Finish();
  return {frame.begin() + sizeof(FrameHeader), frame.end()};
}

std::vector<std::byte> OnceOf(const MemberListMessage& list) {
  return BodyOf([&](FrameWriter* w) { list.EncodeOnce(w); });
}

bool DecodesOnce(std::span<const std::byte> body, MemberListMessage* list) {
  FrameReader r(body);
  return list->DecodeOnce(&r);
}

TEST(MemberList, ListsThatAreSaidOnceAreEachMembers) {
  const SharedList two = From(1, 2), hundred = From(1000, 100);
  const MemberListMessage said{1,
                               {{MakeMember("a", two, hundred), 5},
                                {MakeMember("b", From(1, 2), {}), 6},
                                {MakeMember("c", {}, From(1000, 100)), 7},
                                {MakeMember("d", hundred, From(1000, 101)), 8}}};
  const auto body = OnceOf(said);
  MemberListMessage heard;
  ASSERT_TRUE(DecodesOnce(body, &heard));
  EXPECT_EQ(heard.warming, 1);
  ASSERT_EQ(heard.members.size(), said.members.size());
  for (size_t i = 0; i < said.members.size(); ++i) {
    EXPECT_EQ(heard.members[i].age_ns, said.members[i].age_ns);
    EXPECT_EQ(heard.members[i].member.id, said.members[i].member.id);
    EXPECT_EQ(heard.members[i].member.synced, said.members[i].member.synced);
    EXPECT_EQ(heard.members[i].member.unreachable, said.members[i].member.unreachable);
  }
  MemberListMessage without = said;
  for (auto& [member, age] : without.members) member.synced = member.unreachable = {};
  EXPECT_EQ(body.size() - OnceOf(without).size(), 3 * sizeof(uint32_t) + (2 + 100 + 101) * 8);
}

TEST(MemberList, AnythingShorterOrLongerIsNone) {
  auto body = OnceOf({0, {{MakeMember("a", From(1, 2), From(3, 4)), 5}}});
  MemberListMessage heard;
  for (size_t n = 0; n < body.size(); ++n)
    EXPECT_FALSE(DecodesOnce(std::span(body).first(n), &heard)) << n << " of " << body.size();
  body.push_back(std::byte{0});
  EXPECT_FALSE(DecodesOnce(body, &heard));
}

TEST(MemberList, AListThatWasNotSaidIsNobodys) {
  auto body = OnceOf({0, {{MakeMember("a", From(1, 2), {}), 5}}});
  // Before the age: the place of `unreachable`, which is 0.
  std::byte& place = body[body.size() - sizeof(int64_t) - sizeof(uint32_t)];
  MemberListMessage heard;
  place = std::byte{1};
  ASSERT_TRUE(DecodesOnce(body, &heard));
  EXPECT_EQ(heard.members[0].member.unreachable, SharedList(From(1, 2)));
  place = std::byte{2};
  EXPECT_FALSE(DecodesOnce(body, &heard));
}

TEST(MemberList, OlderReleasesAreToldOfTheSmallest) {
  const Heartbeat beat{MakeMember("a", From(1, 65), From(100, 200)), {}};
  MemberListMessage list, heard_list;
  list.members = {{beat.member, 5}};
  const auto answer = BodyOf([&](FrameWriter* w) { list.Encode(w); });
  FrameReader list_reader(answer);
  ASSERT_TRUE(heard_list.Decode(&list_reader));
  const auto request = BodyOf([&](FrameWriter* w) { beat.Encode(w, FrameHeader::kHearsLookups); });
  Heartbeat heard;
  FrameReader reader(request);
  ASSERT_TRUE(heard.Decode(&reader));
  for (const Member& member : {heard_list.members[0].member, heard.member}) {
    EXPECT_EQ(member.synced, SharedList(From(1, kMostListedBefore)));
    EXPECT_EQ(member.unreachable, SharedList(From(100, kMostListedBefore)));
  }
}

TEST(MemberList, AHeartbeatNamesAsManyAsThereCanBe) {
  const auto decodes = [](size_t entries) {
    const Heartbeat beat{MakeMember("a", {}, From(1, entries)), {}};
    const auto body = BodyOf([&](FrameWriter* w) { beat.Encode(w); });
    Heartbeat heard;
    FrameReader r(body);
    return heard.Decode(&r) && heard.member.unreachable.size() == entries;
  };
  EXPECT_TRUE(decodes(kMostListed));
  EXPECT_FALSE(decodes(kMostListed + 1)) << "the rest is not said";
}

// Members that agree on nothing: what does not fit is cut to what older releases are told.
TEST(MemberList, AnAnswerIsBoundedWhateverMembersSay) {
  MemberListMessage list, heard;
  for (uint64_t i = 0; i < 1000; ++i)
    list.members.push_back(
        {MakeMember(std::to_string(i), From(i << 32, 500), From(i << 48, 2)), 1});
  const auto body = OnceOf(list);
  EXPECT_LT(body.size(), MemberListMessage::kMostWhole * 8 + 1000 * (64 * 8 + 100));
  ASSERT_TRUE(DecodesOnce(body, &heard));
  size_t whole = 0;
  for (size_t i = 0; i < 1000; ++i) {
    const auto said = list.members[i].member.synced.numbers();
    const auto numbers = heard.members[i].member.synced.numbers();
    whole += numbers.size() == said.size();
    EXPECT_TRUE(numbers.size() == said.size() || numbers.size() == kMostListedBefore);
    EXPECT_TRUE(std::ranges::equal(numbers, said.first(numbers.size())));
    EXPECT_EQ(heard.members[i].member.unreachable.size(), 2u);
  }
  EXPECT_EQ(whole, MemberListMessage::kMostWhole / 500);
}

}  // namespace
}  // namespace peercache
