#include "transport/rdma/disposer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <utility>

namespace peercache::rdma {
namespace {

// Stands for a queue pair; its destruction waits for `may_go` and says that it has begun.
class Body {
 public:
  Body(std::shared_future<void> may_go, std::atomic<int>* gone)
      : may_go_(std::move(may_go)), gone_(gone) {}
  ~Body() {
    may_go_.wait();
    ++*gone_;
  }
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;

 private:
  const std::shared_future<void> may_go_;
  std::atomic<int>* const gone_;
};

Disposer::Remains Remains(const std::shared_future<void>& may_go, std::atomic<int>* gone) {
  return {.keeper = std::make_shared<const Body>(may_go, gone)};
}

TEST(DisposerTest, NobodyWaitsUntilSomethingIsGoneUnlessTheyAsk) {
  std::promise<void> permission;
  const auto may_go = permission.get_future().share();
  std::atomic<int> gone{0};
  Disposer disposer;
  for (int i = 0; i < 3; ++i) disposer.Take(Remains(may_go, &gone));
  EXPECT_EQ(gone, 0);  // and Take has returned
  permission.set_value();
  disposer.Drain();
  EXPECT_EQ(gone, 3);
}

TEST(DisposerTest, ItsEndIsTheirs) {
  std::promise<void> permission;
  permission.set_value();
  const auto may_go = permission.get_future().share();
  std::atomic<int> gone{0};
  {
    Disposer disposer;
    for (int i = 0; i < 100; ++i) disposer.Take(Remains(may_go, &gone));
  }
  EXPECT_EQ(gone, 100);
}

}  // namespace
}  // namespace peercache::rdma
