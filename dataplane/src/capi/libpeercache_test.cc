// The C API with real members.
#include "peercache/libpeercache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "capi/capi_testing.h"
#include "node/integration/node_status_testing.h"

namespace peercache {
namespace {

using testing::CEngine;
using testing::CKeys;
using testing::Completed;
using testing::Eventually;
using testing::TestCluster;

class LibpeercacheTest : public ::testing::Test {
 protected:
  LibpeercacheTest() {
    writer_.Share();
    reader_.Share();
  }

  TestCluster cluster_;
  std::unique_ptr<Node> a_ = cluster_.Start("a"), b_ = cluster_.Start("b");
  CEngine writer_{a_->socket()}, reader_{b_->socket()};
};

TEST_F(LibpeercacheTest, PagesOfOneMachineAreReadOnAnother) {
  constexpr size_t kCount = 130;  // two completions of 64 pages, and one of 2
  EXPECT_EQ(reader_.Presence(0, kCount).hits(), 0u);
  EXPECT_EQ(writer_.Set(0, kCount).hits(), kCount);
  EXPECT_EQ(reader_.Presence(0, kCount).hits(), kCount);
  // Each third is of keys that nobody has set.
  auto keys = CKeys(0, kCount);
  std::vector<pc_iov> iovs;
  for (size_t i = 0; i < kCount; ++i) {
    if (i % 3 == 0) keys[i] = testing::CKeyOf(100'000 + i);
    iovs.push_back(reader_.Iovs(i).front());
  }
  auto op = CEngine::Op(PC_GET, keys, iovs);
  op.user_data = 0x1234'5678'9abc'def0;
  op.page_tokens = 16;
  const Completed got = reader_.Run(op);
  EXPECT_EQ(got.result, PC_OK);
  for (size_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(got.ok[i], i % 3 != 0) << i;
    EXPECT_TRUE(!got.ok[i] || reader_.Holds(i, i));
  }
  EXPECT_EQ(writer_.state().staged_bytes + reader_.state().staged_bytes, 0u) << "zero copy";
  EXPECT_EQ(reader_.state().get_hits, got.hits());
}

TEST_F(LibpeercacheTest, PagesOfOneOpMayHaveDifferentNumbersOfIovs) {
  // Cuts that are spread over the op in an order of their own.
  const std::vector<std::vector<size_t>> cuts{{}, {100}, {7, 4096}, {100}, {}, {1, 2, 3}};
  constexpr size_t kCount = 90;
  const auto run = [&](CEngine* engine, int kind, size_t shift) {
    std::vector<pc_iov> iovs;
    std::vector<uint32_t> counts;
    for (size_t i = 0; i < kCount; ++i) {
      const auto page = engine->Iovs(i, cuts[(i + shift) % cuts.size()]);
      iovs.insert(iovs.end(), page.begin(), page.end());
      counts.push_back(static_cast<uint32_t>(page.size()));
    }
    const auto keys = CKeys(0, kCount);
    auto op = CEngine::Op(kind, keys, iovs);
    op.iovs_per_page = 0;
    op.iov_counts = counts.data();
    return engine->Run(op);
  };
  for (size_t i = 0; i < kCount; ++i) testing::TestEngine::Fill(writer_.page(i), i);
  EXPECT_EQ(run(&writer_, PC_SET, 0).hits(), kCount);
  EXPECT_EQ(run(&reader_, PC_GET, 1).hits(), kCount) << "cut differently";
  for (size_t i = 0; i < kCount; ++i) EXPECT_TRUE(reader_.Holds(i, i));
}

TEST_F(LibpeercacheTest, AClearDropsThePagesOfItsTag) {
  auto keys = CKeys(0, 2);
  for (uint64_t tag : {1, 2}) {
    const auto iovs = writer_.Iovs(tag - 1);
    std::vector<pc_key> key{keys[tag - 1]};
    auto op = CEngine::Op(PC_SET, key, iovs);
    op.tag = tag;
    ASSERT_EQ(writer_.Run(op).hits(), 1u);
  }
  EXPECT_EQ(pc_clear(reader_.client(), 1), PC_OK) << pc_error();
  EXPECT_EQ(reader_.Presence(0, 2).ok, (std::vector<bool>{false, true}));
}

TEST_F(LibpeercacheTest, TheMemberLearnsHowFastTheEngineComputes) {
  const auto told = [&] {
    const auto status = nlohmann::json::parse(b_->StatusJson());
    return status["engines"][0]["prefill_tokens_per_second"].get<uint32_t>();
  };
  for (const uint32_t rate : {20'000u, 0u}) {
    EXPECT_EQ(pc_set_prefill(reader_.client(), rate), PC_OK);
    reader_.Presence(0, 1);
    EXPECT_EQ(told(), rate);
  }
}

TEST_F(LibpeercacheTest, ThreadsShareAQueue) {
  constexpr size_t kThreads = 4, kOps = 40;
  ASSERT_EQ(writer_.Set(0, kOps).hits(), kOps);
  std::atomic<size_t> completed{0}, hits{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = t; i < kOps; i += kThreads) {
        const auto keys = CKeys(i, 1);
        const auto iovs = reader_.Iovs(i);
        const std::vector<pc_iov> none;
        auto op = CEngine::Op(i % 2 == 0 ? PC_GET : PC_PRESENCE, keys, i % 2 == 0 ? iovs : none);
        op.user_data = i;
        EXPECT_EQ(pc_submit(reader_.queue(), &op, 1), 1) << pc_error();
      }
      while (completed < kOps) {
        pc_completion done[3];
        (void)pc_wait(reader_.queue(), 10);
        const int64_t reaped = pc_reap(reader_.queue(), done, std::size(done));
        ASSERT_GE(reaped, 0);
        for (int64_t i = 0; i < reaped; ++i) hits += done[i].ok;
        completed += static_cast<size_t>(reaped);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(hits, kOps);
  for (size_t i = 0; i < kOps; i += 2) EXPECT_TRUE(reader_.Holds(i, i));
}

TEST_F(LibpeercacheTest, ClosingAQueueLetsItsOpsEnd) {
  auto keys = CKeys(0, 1);
  const auto iovs = writer_.Iovs(0);
  {
    pc_queue* queue = nullptr;
    ASSERT_EQ(pc_queue_open(writer_.client(), nullptr, &queue), PC_OK) << pc_error();
    for (int i = 0; i < 20; ++i) {
      keys[0] = testing::CKeyOf(static_cast<uint64_t>(i));
      const auto op = CEngine::Op(PC_SET, keys, iovs);
      ASSERT_EQ(pc_submit(queue, &op, 1), 1) << pc_error();
    }
    pc_queue_close(queue);
  }
  EXPECT_EQ(reader_.Presence(0, 20).hits(), 20u);
}

TEST(LibpeercacheWithoutMember, EachPageIsAMissAtOnceUntilOneComes) {
  TestCluster cluster;
  CEngine engine(cluster.Config("late").socket);
  engine.Share();
  EXPECT_EQ(pc_can(engine.client()), 0u);
  for (const Completed& missed : {engine.Set(0, 70), engine.Get(0, 70), engine.Presence(0, 70)}) {
    EXPECT_EQ(missed.hits(), 0u);
    EXPECT_EQ(missed.result, PC_OK);
  }
  pc_state_info state = engine.state();
  EXPECT_EQ(state.attached, 0u);
  EXPECT_NE(std::string(state.detached).find("is peercached running"), std::string::npos);
  EXPECT_EQ(pc_clear(engine.client(), 1), PC_EREFUSED);
  EXPECT_NE(std::string(pc_error()).find(".sock"), std::string::npos) << pc_error();
  const auto node = cluster.Start("late");
  ASSERT_TRUE(Eventually([&] { return engine.state().attached == 1; }));
  EXPECT_EQ(pc_can(engine.client()), uint64_t{PC_CAN_PRESENCE});
  EXPECT_NE(std::string(engine.state().member).find("late (release "), std::string::npos);
  ASSERT_TRUE(Eventually([&] { return engine.Set(0, 70).hits() == 70; }));
  EXPECT_EQ(engine.Get(0, 70).hits(), 70u);
  EXPECT_EQ(engine.state().staged_bytes, 0u) << "it got the memory";
}

}  // namespace
}  // namespace peercache
