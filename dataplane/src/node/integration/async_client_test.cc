// The asynchronous client against real nodes.
#include "client/async_client.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/no_thread_testing.h"
#include "node/integration/node_testing.h"

namespace peercache {
namespace {

using testing::TestCluster;
using testing::TestEngine;

constexpr size_t kPage = 16 << 10;
constexpr size_t kPages = 64;

TimePoint Soon() { return Clock::now() + std::chrono::seconds(30); }

class AsyncClientTest : public ::testing::Test {
 protected:
  // One call for each page.
  std::vector<AsyncClient::Call> SetAll(AsyncClient* async, TestEngine* engine) {
    std::vector<AsyncClient::Call> calls;
    for (size_t i = 0; i < kPages; ++i) {
      engine->Write(i, i);
      auto call = async->Set(TestEngine::Keys(i, 1), engine->Segments(1, i), 2, 1);
      EXPECT_TRUE(call.ok()) << call.status().ToString();
      calls.push_back(*call);
    }
    return calls;
  }

  TestCluster cluster_;
  std::unique_ptr<Node> a_ = cluster_.Start("a"), b_ = cluster_.Start("b");
  TestEngine writer_{a_->socket(), kPages, kPage}, reader_{b_->socket(), kPages, kPage};
};

TEST_F(AsyncClientTest, EveryCallOfAFloodGetsItsOwnPages) {
  AsyncClient set(writer_.shared_client(), {.window = 2});
  for (const auto& call : SetAll(&set, &writer_)) {
    ASSERT_TRUE(call->WaitUntil(Soon()));
    EXPECT_TRUE(call->done());
    EXPECT_EQ(call->pages(), std::vector<uint8_t>{1});
  }
  AsyncClient get(reader_.shared_client(), {.window = 2});
  std::vector<AsyncClient::Call> calls;
  for (size_t i = 0; i < kPages; ++i) {
    // Every other call asks for a page that nobody has set.
    const uint64_t key = i % 2 == 0 ? i : 100'000 + i;
    auto call = get.Get(TestEngine::Keys(key, 1), reader_.Segments(1, i), 2);
    ASSERT_TRUE(call.ok());
    calls.push_back(*call);
  }
  for (size_t i = 0; i < kPages; ++i) {
    ASSERT_TRUE(calls[i]->WaitUntil(Soon()));
    ASSERT_EQ(calls[i]->pages().size(), 1u);
    ASSERT_EQ(calls[i]->pages()[0], i % 2 == 0 ? 1 : 0) << i;
    if (i % 2 == 0) {
      EXPECT_TRUE(reader_.Holds(i, i)) << i;
    }
  }
}

TEST_F(AsyncClientTest, PresenceAnswersForEachKey) {
  ASSERT_EQ(writer_.Set(0, 10), 10u);
  AsyncClient async(reader_.shared_client(), {});
  std::vector<Key> keys = TestEngine::Keys(0, 10);
  keys.insert(keys.begin() + 3, testing::KeyOf(99'999));
  auto call = async.Presence(keys, {.page_tokens = 16});
  ASSERT_TRUE(call.ok());
  ASSERT_TRUE((*call)->WaitUntil(Soon()));
  EXPECT_EQ((*call)->pages(), (std::vector<uint8_t>{1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1}));
}

// In the engine's process nothing may throw.
TEST_F(AsyncClientTest, WithoutAThreadCallsAreRefusedUntilThereIsOne) {
  std::optional<testing::NoMoreThreads> none(std::in_place);
  AsyncClient async(writer_.shared_client(), {.window = 4});
  const auto refused = async.Presence(TestEngine::Keys(0, 1));
  none.reset();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::kResourceExhausted);
  const auto calls = SetAll(&async, &writer_);
  for (const auto& call : calls) {
    ASSERT_TRUE(call->WaitUntil(Soon()));
    EXPECT_EQ(call->pages(), std::vector<uint8_t>{1});
  }
}

TEST_F(AsyncClientTest, DestructionFinishesWhatWasSubmitted) {
  std::vector<AsyncClient::Call> calls;
  {
    AsyncClient async(writer_.shared_client(), {.window = 1});
    calls = SetAll(&async, &writer_);
  }
  for (const auto& call : calls) {
    EXPECT_TRUE(call->done());
    EXPECT_EQ(call->pages(), std::vector<uint8_t>{1});
  }
  EXPECT_EQ(reader_.Get(0, kPages).hits, kPages);
}

TEST_F(AsyncClientTest, CallsThatCannotBeTakenAreRefusedAtOnce) {
  AsyncClient async(writer_.shared_client(), {.window = 1, .max_pending = 0});
  const auto full = async.Presence(TestEngine::Keys(0, 1));
  EXPECT_EQ(full.status().code(), Code::kResourceExhausted);
  const auto odd = async.Get(TestEngine::Keys(0, 2), writer_.Segments(1), 2);
  EXPECT_EQ(odd.status().code(), Code::kInvalidArgument);
  const auto none = async.Get(TestEngine::Keys(0, 1), {}, 0);
  EXPECT_EQ(none.status().code(), Code::kInvalidArgument);
}

TEST_F(AsyncClientTest, AWaitThatTimesOutCanBeRepeated) {
  AsyncClient async(writer_.shared_client(), {.window = 1});
  const auto calls = SetAll(&async, &writer_);
  (void)calls.back()->WaitUntil(Clock::now());  // done or not: it may be asked
  EXPECT_TRUE(calls.back()->WaitUntil(Soon()));
}

TEST_F(AsyncClientTest, CallsAreDoneAlsoWhenTheNodeIsGone) {
  AsyncClient async(writer_.shared_client(), {.window = 2});
  a_.reset();
  const auto calls = SetAll(&async, &writer_);
  for (const auto& call : calls) {
    ASSERT_TRUE(call->WaitUntil(Soon()));
    EXPECT_EQ(call->pages(), std::vector<uint8_t>{0});
  }
}

TEST_F(AsyncClientTest, EachEndIsHeardOfOnce) {
  std::atomic<size_t> heard{0}, pages{0};
  {
    AsyncClient async(writer_.shared_client(), {.window = 2});
    for (size_t i = 0; i < kPages; ++i) {
      writer_.Write(i, i);
      const auto done = [&](const AsyncCall& call) {
        EXPECT_TRUE(call.done());
        EXPECT_EQ(call.outcome(), AsyncCall::Outcome::kAnswered);
        ++heard;
        pages += call.pages()[0];
      };
      ASSERT_TRUE(async.Set(TestEngine::Keys(i, 1), writer_.Segments(1, i), 2, 1, done).ok());
    }
  }
  EXPECT_EQ(heard, kPages) << "joined calls have an end each";
  EXPECT_EQ(pages, kPages);
}

TEST_F(AsyncClientTest, WhatHasNotBegunIsCancelled) {
  // Before the client, whose destructor waits for calls and what they report to.
  std::atomic<bool> held{true};
  std::atomic<int> cancelled{0};
  // The only thread is held by the end of the first call until the second one is cancelled.
  AsyncClient async(writer_.shared_client(), {.window = 1});
  const auto first = async.Presence(TestEngine::Keys(0, 1), {}, [&](const AsyncCall&) {
    EXPECT_TRUE(testing::Eventually([&] { return !held.load(); }));
  });
  const auto second = async.Presence(TestEngine::Keys(0, 1), {}, [&](const AsyncCall& call) {
    cancelled += call.outcome() == AsyncCall::Outcome::kCancelled;
  });
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_TRUE(async.Cancel(*second));
  EXPECT_TRUE((*second)->done());
  EXPECT_EQ(cancelled, 1);
  EXPECT_FALSE(async.Cancel(*second)) << "it is done";
  held = false;
  ASSERT_TRUE((*first)->WaitUntil(Soon()));
  EXPECT_FALSE(async.Cancel(*first));
  EXPECT_EQ((*first)->outcome(), AsyncCall::Outcome::kAnswered);
}

TEST_F(AsyncClientTest, ManyThreadsSubmit) {
  ASSERT_EQ(writer_.Set(0, kPages), kPages);
  AsyncClient async(reader_.shared_client(), {.window = 3});
  std::vector<std::thread> threads;
  std::atomic<size_t> hits{0};
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = t; i < kPages; i += 4) {
        auto call = async.Get(TestEngine::Keys(i, 1), reader_.Segments(1, i), 2);
        if (call.ok() && (*call)->WaitUntil(Soon()) && (*call)->pages()[0] == 1)
          hits += reader_.Holds(i, i);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(hits, kPages);
}

}  // namespace
}  // namespace peercache
