// What a shard may say of where its buckets are, and lie. What the buckets themselves say:
// directory/buckets_test.cc and the fuzz target bucket.
#include "node/read/one_sided.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>
#include <vector>

namespace peercache {
namespace {

using std::chrono::seconds;

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kIncarnation = 7;
constexpr Duration kOwnerTtl = seconds(3);

class OneSidedTest : public ::testing::Test {
 protected:
  OneSidedTest() {
    Member member;
    member.id = "peer";
    member.incarnation = kIncarnation;
    member.state = MemberState::kActive;
    member.host = "127.0.0.1";
    member.peer_port = 1;
    View view;
    view.members.push_back(member);
    view.by_node[NodeHash("peer")] = 0;
    peers_.Update(view);
    call_.peer = peers_.Find(NodeHash("peer"));
    call_.answered_by = kIncarnation;
  }

  // The grant that it leads to; null: the shard is asked for records.
  std::shared_ptr<const Grant> Take(const std::vector<std::byte>& body) {
    bool due = false;
    (void)lookups_.Use(*call_.peer, now_, &due);  // finds that it has to ask
    call_.answer = FrameReader(body);
    lookups_.Take(call_, now_);
    return lookups_.Use(*call_.peer, now_, &due);
  }
  static std::vector<std::byte> BodyOf(const DirectoryOk& said) {
    FrameWriter w;
    w.Start(MessageType::kDirectoryOk, 1);
    said.Encode(&w);
    const auto frame = w.Finish().subspan(sizeof(FrameHeader));
    return {frame.begin(), frame.end()};
  }
  std::shared_ptr<const Grant> Take(const DirectoryOk& said) { return Take(BodyOf(said)); }

  const TimePoint now_ = Clock::now();
  const DirectoryOk right_{.instance = 1,
                           .offset = 4096,
                           .buckets = 64,
                           .owners = {{.node = 9, .incarnation = 1, .era = 1, .place = 3}}};
  std::unique_ptr<Secret> secret_ = Secret::None();
  Peers peers_{Hello{"test", "", NodeHash("self"), 1}, secret_.get(), OwnerTimes{}};
  Counters counters_;
  OneSidedLookups lookups_{kOwnerTtl, nullptr, &peers_, &counters_};
  PeerCall call_;
};

TEST_F(OneSidedTest, ALieAboutTheDirectoryIsNoGrant) {
  const auto honest = Take(right_);
  ASSERT_NE(honest, nullptr);
  EXPECT_TRUE(honest->Lasts(now_));
  DirectoryOk odd = right_;
  odd.buckets = 63;
  EXPECT_EQ(Take(odd), nullptr) << "no power of two: a key would have no bucket";
  odd.buckets = 0;
  EXPECT_EQ(Take(odd), nullptr);
  DirectoryOk crowd = right_;
  crowd.owners.resize(UINT16_MAX + 1);
  EXPECT_EQ(Take(crowd), nullptr) << "more owners than there are places";
  std::vector<std::byte> body = BodyOf(right_);
  body.push_back({});
  EXPECT_EQ(Take(body), nullptr);
  body.resize(body.size() - 2);
  EXPECT_EQ(Take(body), nullptr);
  EXPECT_EQ(Take(std::vector<std::byte>()), nullptr);
  EXPECT_NE(Take(right_), nullptr) << "it is honest again";
}

// What it says of times and places cannot be told from the truth. It is bounded all the same: by
// owner_ttl, and by the peer's pool where it is READ (read_channel.cc).
TEST_F(OneSidedTest, WhatCannotBeCheckedIsBounded) {
  DirectoryOk absurd = right_;
  absurd.offset = kMax;
  absurd.buckets = uint64_t{1} << 63;
  absurd.owners[0] = {
      .node = NodeHash("self"), .incarnation = kMax, .era = 1, .fresh_us = UINT32_MAX, .place = 3};
  absurd.owners.push_back(absurd.owners[0]);  // a place twice
  const auto grant = Take(absurd);
  ASSERT_NE(grant, nullptr);
  Key key;
  key.bytes.fill(0xff);
  EXPECT_LT(grant->IndexOf(key), absurd.buckets);
  bool later = false;
  const TimePoint last = now_ + kOwnerTtl;
  EXPECT_NE(grant->Find(3, 1, last - milliseconds(1), &later), nullptr);
  EXPECT_EQ(grant->Find(3, 1, last, &later), nullptr);
  EXPECT_FALSE(grant->Lasts(last));
  // A bucket that nobody ever wrote is believed for no longer either.
  const std::vector<std::byte> unused(sizeof(Bucket));
  Record record;
  EXPECT_EQ(LookUpIn(unused, *grant, key, NodeHash("self"), {}, last, &record),
            BucketAnswer::kUngranted);
}

TEST_F(OneSidedTest, AGrantOfAnotherLifeIsNotUsed) {
  call_.answered_by = kIncarnation + 1;
  EXPECT_EQ(Take(right_), nullptr);
}

}  // namespace
}  // namespace peercache
