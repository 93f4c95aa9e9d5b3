// A node that answers thousands of readers.
#include "transport/rdma/acceptor.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "transport/rdma/fake/fake_testing.h"

namespace peercache::rdma {
namespace {

TEST(ManyReadersTest, EachIsAnsweredByItsOwnQueues) {
  FakeVerbs::Get().Reset();
  const auto rails = FakeRails(1);
  TestHolder holder(rails.get(), 1 << 16);
  constexpr uint32_t kReaders = 2000;
  std::vector<ConnectRequest> requests(kReaders);
  std::vector<Acceptor::Queues> queues;
  for (uint32_t i = 0; i < kReaders; ++i) {
    QueueAddress reader;
    reader.ethernet = 1;
    reader.queue = 7;
    reader.sequence = i;  // which tells it from all others
    requests[i].queues = {reader};
    ConnectOk answer;
    auto begun = holder.acceptor().Accept(requests[i], &answer);
    ASSERT_TRUE(begun.ok()) << begun.status().ToString();
    EXPECT_TRUE(answer.later);
    queues.push_back(std::move(*begun));
  }
  rails->Drain();  // or those that take long to connect are left out
  std::set<uint32_t> numbers;
  for (uint32_t i = 0; i < kReaders; ++i) {
    ConnectOk answer;
    const auto again = AcceptNow(&holder.acceptor(), requests[i], &answer);
    ASSERT_TRUE(again.ok()) << again.status().ToString();
    EXPECT_EQ(*again, queues[i]);
    ASSERT_EQ(answer.queues.size(), 1u);
    numbers.insert(answer.queues[0].queue.queue);
  }
  EXPECT_EQ(numbers.size(), kReaders);
  EXPECT_EQ(holder.acceptor().stats().queues, kReaders);
  queues.clear();
  ConnectOk answer;
  auto anew = holder.acceptor().Accept(requests[0], &answer);
  EXPECT_TRUE(anew.ok() && answer.later) << "nobody holds those of the first request any more";
}

}  // namespace
}  // namespace peercache::rdma
