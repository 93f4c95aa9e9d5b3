#include "transport/rdma/connector.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <vector>

namespace peercache::rdma {
namespace {

TEST(ConnectorTest, NobodyWaitsForWorkUnlessTheyAsk) {
  std::promise<void> permission;
  const auto may_go = permission.get_future().share();
  std::vector<int> order;
  Connector connector;
  auto first = connector.Do([&] {
    may_go.wait();
    order.push_back(1);
    return Unavailable("nobody answers");
  });
  auto second = connector.Do([&] {
    order.push_back(2);
    return Status();
  });
  EXPECT_EQ(first.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  permission.set_value();
  EXPECT_EQ(first.get().code(), Code::kUnavailable);
  EXPECT_TRUE(second.get().ok());
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(ConnectorTest, WhatWasDoneIsForgottenBeforeDrainReturns) {
  const auto held = std::make_shared<int>(0);
  Connector connector;
  for (int i = 0; i < 100; ++i) {
    connector.Do([held] {
      ++*held;
      return Status();
    });
  }
  connector.Drain();
  EXPECT_EQ(*held, 100);
  EXPECT_EQ(held.use_count(), 1);
}

TEST(ConnectorTest, ItsEndIsTheEndOfAllWork) {
  std::atomic<int> done{0};
  {
    Connector connector;
    for (int i = 0; i < 100; ++i) {
      connector.Do([&] {
        ++done;
        return Status();
      });
    }
  }
  EXPECT_EQ(done, 100);
}

}  // namespace
}  // namespace peercache::rdma
