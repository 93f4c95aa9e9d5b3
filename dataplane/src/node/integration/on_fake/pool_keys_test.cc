// The keys by which peers READ the pool, while the token is replaced.
#include "node/rails/pool_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "transport/rdma/fake/fake_testing.h"

namespace peercache {
namespace {

using rdma::PageState;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Not;

constexpr Duration kSpread = std::chrono::hours(1);
const std::string kOld = "the token that they had\n", kNew = "a new token of the cluster\n";

class PoolKeysTest : public ::testing::Test {
 protected:
  PoolKeysTest() {
    rdma::FakeVerbs::Get().Reset();
    page_.to = std::span(&to_, 1);
  }
  // A reader connects, and keeps what it is told.
  rdma::TestConnection Connect(std::vector<uint32_t>* told) {
    auto connection = rdma::Connect(*rails_, &holder_, reader_, [told](const ConnectOk* answer) {
      for (const auto& served : answer->queues)
        told->insert(told->end(), served.rkeys.begin(), served.rkeys.end());
    });
    EXPECT_TRUE(connection.ok()) << connection.status().ToString();
    return std::move(*connection);
  }
  std::vector<PageState> Read(const rdma::TestConnection& by) {
    return rdma::ReadAll(by.channel.get(), reader_, std::span(&page_, 1));
  }
  void Follow(TimePoint now) {
    keys_.Follow(now);
    rails_->Drain();  // a thread of each rail deregisters
  }
  void Replace(const std::string& contents, TimePoint now) {
    EXPECT_TRUE(secret_->Replace(contents, now).ok());
    Follow(now);
  }

  const TimePoint start_ = Clock::now();
  std::unique_ptr<rdma::Rails> rails_ = rdma::FakeRails(2);
  rdma::TestHolder holder_{rails_.get(), 2 << 20};
  rdma::TestReader reader_{rails_.get(), 1 << 20};
  Bytes to_ = reader_.bytes();
  rdma::PageRead page_ = holder_.Put(1 << 20);
  std::unique_ptr<Secret> secret_ = std::move(Secret::Of(kOld, "cluster", kSpread).value());
  PoolKeys keys_{rails_.get(), &holder_.registered, holder_.registered.ranges()->front()->id(),
                 secret_.get()};
};

TEST_F(PoolKeysTest, WhoIsToldKeysAfterTheTokenChangedIsToldOthers) {
  std::vector<uint32_t> before, same, after;
  const auto former = Connect(&before);
  ASSERT_EQ(before.size(), 2u);
  Follow(start_);
  Connect(&same);
  EXPECT_EQ(same, before);
  Replace(kNew, start_);
  const auto present = Connect(&after);
  ASSERT_EQ(after.size(), 2u);
  for (const uint32_t key : before) EXPECT_THAT(after, Each(Not(key)));
  EXPECT_THAT(Read(former), ElementsAre(PageState::kRead)) << "the former token is still good";
  EXPECT_THAT(Read(present), ElementsAre(PageState::kRead));
}

TEST_F(PoolKeysTest, TheFormerKeysEndWithTheirToken) {
  std::vector<uint32_t> told;
  const auto former = Connect(&told);
  Replace(kNew, start_);
  const auto present = Connect(&told);
  Follow(start_ + 2 * kSpread - milliseconds(1));
  EXPECT_THAT(Read(former), ElementsAre(PageState::kRead));
  Follow(start_ + 2 * kSpread);
  EXPECT_THAT(Read(former), ElementsAre(PageState::kFailed));
  EXPECT_THAT(Read(present), ElementsAre(PageState::kRead));
}

// As the operator does it. The keys are others when the second token is added, so nobody who
// proves that one is told keys that end.
TEST_F(PoolKeysTest, ACarefulRotationEndsTheKeysOfTheFormerTokenAlone) {
  std::vector<uint32_t> first, added, swapped, removed;
  const auto former = Connect(&first);
  Replace(kOld + kNew, start_);
  const auto present = Connect(&added);
  Replace(kNew + kOld, start_ + 3 * kSpread);
  Connect(&swapped);
  EXPECT_EQ(swapped, added);
  EXPECT_THAT(Read(former), ElementsAre(PageState::kRead));
  Replace(kNew, start_ + 6 * kSpread);
  Connect(&removed);
  EXPECT_EQ(removed, added);
  Follow(start_ + 8 * kSpread);
  EXPECT_THAT(Read(former), ElementsAre(PageState::kFailed));
  EXPECT_THAT(Read(present), ElementsAre(PageState::kRead));
}

TEST_F(PoolKeysTest, TwoRotationsAtOnceHaveTwoSetsOfKeysAtMost) {
  std::vector<uint32_t> first, second, third, last;
  Connect(&first);
  Replace(kNew, start_);
  Connect(&second);
  Replace("one more token of the cluster\n", start_ + kSpread);
  Connect(&third);
  EXPECT_EQ(third, second);
  Follow(start_ + 2 * kSpread);  // the first token has ended
  Connect(&last);
  EXPECT_NE(last, second);
  EXPECT_GT(keys_.since(), start_);
}

TEST_F(PoolKeysTest, RailsThatRefuseKeepTheirKeys) {
  std::vector<uint32_t> before, after;
  Connect(&before);
  rdma::FakeVerbs::Get().relaxed_error = EREMOTEIO;
  Replace(kNew, start_);
  const auto present = Connect(&after);
  EXPECT_EQ(after, before);
  Follow(start_ + 2 * kSpread);
  EXPECT_THAT(Read(present), ElementsAre(PageState::kRead));
}

}  // namespace
}  // namespace peercache
