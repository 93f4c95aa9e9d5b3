// What queue pairs, completion queues and the process are made with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "transport/rdma/fake/fake_testing.h"

namespace peercache::rdma {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::Le;
using ::testing::SizeIs;

TEST(FakeQueuePairTest, CompletionsOfADeviceGoToItsVectorsInTurn) {
  FakeVerbs& fake = FakeVerbs::Get();
  fake.Reset();
  const auto rails = FakeRails(1);
  for (int i = 0; i < FakeVerbs::kVectors + 1; ++i) ASSERT_TRUE(ReadChannel::Make(*rails, 1).ok());
  EXPECT_THAT(fake.vectors(), ElementsAre(0, 1, 2, 0));
}

TEST(FakeQueuePairTest, EachHasAFlowLabelOfItsOwnAlsoWhenItIsMadeAnew) {
  FakeVerbs& fake = FakeVerbs::Get();
  fake.Reset();
  const auto rails = FakeRails(2);
  TestHolder holder(rails.get(), 1 << 20);
  const TestReader reader(rails.get(), 1 << 20);
  for (int link = 0; link < 3; ++link) ASSERT_TRUE(Connect(*rails, &holder, reader).ok());
  rails->Drain();
  std::vector<uint32_t> labels;
  for (const auto& change : fake.modified())
    if ((change.mask & IBV_QP_AV) != 0) labels.push_back(change.attributes.ah_attr.grh.flow_label);
  EXPECT_THAT(labels, SizeIs(3 * 2 * 2)) << "links, rails, ends";
  EXPECT_THAT(labels, Each(AllOf(Ge(1u), Le(0xfffffu))));
  // Twelve of a million: two are equal once in 16,000 runs, and then no more than two.
  EXPECT_THAT(std::set(labels.begin(), labels.end()), SizeIs(Ge(labels.size() - 1)));
}

// The ECE that the ends of a link have taken, reader's and holder's.
std::pair<uint32_t, uint32_t> Agreed(bool reader_on, bool holder_on, uint32_t device) {
  FakeVerbs& fake = FakeVerbs::Get();
  fake.Reset();
  fake.ece = device;
  const auto here = FakeRails(1, {.ece = reader_on}), there = FakeRails(1, {.ece = holder_on}, 2);
  TestHolder holder(there.get(), 1 << 20);
  const TestReader reader(here.get(), 1 << 20);
  ConnectOk answer;
  const auto connection =
      Connect(*here, &holder.acceptor(), reader, [&](ConnectOk* said) { answer = *said; });
  EXPECT_TRUE(connection.ok()) << connection.status().ToString();
  return {fake.ece_taken(connection->channel->request().queues.at(0).queue),
          answer.queues.at(0).queue.ece};
}

TEST(FakeQueuePairTest, DevicesDoBeyondTheSpecificationWhatBothEndsWant) {
  EXPECT_EQ(Agreed(true, true, 6), std::pair(6u, 6u));
  EXPECT_EQ(Agreed(true, false, 6), std::pair(0u, 0u)) << "the holder has it off";
  EXPECT_EQ(Agreed(false, true, 6), std::pair(0u, 0u)) << "the reader has it off";
  EXPECT_EQ(Agreed(true, true, 0), std::pair(0u, 0u)) << "the devices have none";
}

// An end that claims to have agreed to more than its device was asked for.
TEST(FakeQueuePairTest, WhatTheDeviceDoesNotDoIsRefused) {
  FakeVerbs& fake = FakeVerbs::Get();
  fake.Reset();
  const auto rails = FakeRails(1);
  TestHolder holder(rails.get(), 1 << 20);
  const TestReader reader(rails.get(), 1 << 20);
  const auto connection = Connect(*rails, &holder.acceptor(), reader,
                                  [](ConnectOk* said) { said->queues[0].queue.ece = 1; });
  ASSERT_FALSE(connection.ok());
  EXPECT_THAT(connection.status().ToString(), ::testing::HasSubstr("rdma-ece"));
}

TEST(VerbsTest, KernelsCopyRegisteredMemoryAtForkSince512) {
  EXPECT_FALSE(ForkCopiesRegisteredMemory("4.18.0-553.el8_10.x86_64"));
  EXPECT_FALSE(ForkCopiesRegisteredMemory("5.11.22"));
  EXPECT_TRUE(ForkCopiesRegisteredMemory("5.12.0-rc1"));
  EXPECT_TRUE(ForkCopiesRegisteredMemory("6.1.0-13-amd64"));
  EXPECT_FALSE(ForkCopiesRegisteredMemory("mine"));
}

// Each in a process of its own, which has not loaded the library yet.
class ForkDeathTest : public ::testing::Test {
 protected:
  ForkDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  // Ends with 0 when what was called, before anything else was, is `expected`.
  [[noreturn]] static void Calls(Verbs::Process process, ibv_fork_status state,
                                 const std::vector<std::string>& expected) {
    FakeVerbs& fake = FakeVerbs::Get();
    fake.fork = state;
    const bool loaded = Verbs::Load(process).ok();
    std::_Exit(loaded && fake.calls() == expected ? 0 : 1);
  }
};

TEST_F(ForkDeathTest, AProcessThatMayForkIsMadeSafeBeforeAnythingElse) {
  EXPECT_EXIT(Calls(Verbs::Process::kMayFork, IBV_FORK_DISABLED,
                    {"ibv_is_fork_initialized", "ibv_fork_init"}),
              ::testing::ExitedWithCode(0), "");
}

TEST_F(ForkDeathTest, NothingIsDoneWhereTheKernelDoesIt) {
  EXPECT_EXIT(Calls(Verbs::Process::kMayFork, IBV_FORK_UNNEEDED, {"ibv_is_fork_initialized"}),
              ::testing::ExitedWithCode(0), "");
}

TEST_F(ForkDeathTest, NorForAProcessThatNeverForks) {
  EXPECT_EXIT(Calls(Verbs::Process::kNeverForks, IBV_FORK_DISABLED, {}),
              ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace peercache::rdma
