#include "transport/rdma/worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <vector>

namespace peercache::rdma {
namespace {

TEST(WorkerTest, NobodyWaitsForWorkUnlessTheyAsk) {
  std::promise<void> permission;
  const auto may_go = permission.get_future().share();
  std::vector<int> order;
  Worker worker;
  auto first = worker.Do([&] {
    may_go.wait();
    order.push_back(1);
    return Unavailable("nobody answers");
  });
  auto second = worker.Do([&] {
    order.push_back(2);
    return Status();
  });
  EXPECT_EQ(first.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  permission.set_value();
  EXPECT_EQ(first.get().code(), Code::kUnavailable);
  EXPECT_TRUE(second.get().ok());
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(WorkerTest, WhatWasDoneIsForgottenBeforeDrainReturns) {
  const auto held = std::make_shared<int>(0);
  Worker worker;
  for (int i = 0; i < 100; ++i) {
    worker.Do([held] {
      ++*held;
      return Status();
    });
  }
  worker.Drain();
  EXPECT_EQ(*held, 100);
  EXPECT_EQ(held.use_count(), 1);
}

TEST(WorkerTest, NobodyWaitsUntilSomethingIsDestroyedUnlessTheyAsk) {
  std::promise<void> permission;
  const auto may_go = permission.get_future().share();
  std::atomic<int> gone{0};
  Worker worker;
  for (int i = 0; i < 3; ++i) {
    std::unique_ptr<int, std::function<void(int*)>> slow(new int(i), [may_go, &gone](const int* p) {
      may_go.wait();
      ++gone;
      delete p;
    });
    worker.Do([slow = std::move(slow)] { return Status(); });
  }
  EXPECT_EQ(gone, 0);  // and Do has returned
  permission.set_value();
  worker.Drain();
  EXPECT_EQ(gone, 3);
}

TEST(WorkerTest, WhoHasTheResultDoesNotDestroyTheWork) {
  std::thread::id by;
  std::unique_ptr<int, std::function<void(int*)>> held(new int(0), [&by](const int* p) {
    by = std::this_thread::get_id();
    delete p;
  });
  Worker worker;
  auto result = worker.Do([held = std::move(held)] { return Status(); });
  worker.Drain();
  EXPECT_NE(by, std::thread::id()) << "it is still there";
  result = {};
  EXPECT_NE(by, std::this_thread::get_id());
}

TEST(WorkerTest, ItsEndIsTheEndOfAllWork) {
  std::atomic<int> done{0};
  {
    Worker worker;
    for (int i = 0; i < 100; ++i) {
      worker.Do([&] {
        ++done;
        return Status();
      });
    }
  }
  EXPECT_EQ(done, 100);
}

}  // namespace
}  // namespace peercache::rdma
