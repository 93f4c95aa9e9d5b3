#include "wire/fabric.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace peercache {
namespace {

template <typename Message>
bool RoundTrip(const Message& in, Message* out, size_t cut = 0) {
  FrameWriter w;
  w.Start(MessageType::kConnect, 1);
  in.Encode(&w);
  const auto bytes = w.Finish().subspan(sizeof(FrameHeader));
  FrameReader r(bytes.first(bytes.size() - cut));
  return out->Decode(&r);
}

QueueAddress SomeQueue(uint32_t number) {
  QueueAddress address;
  address.gid[0] = 0xfe;
  address.queue = number;
  address.sequence = 77;
  address.mtu = 5;
  return address;
}

ConnectOk Answer() {
  ConnectOk ok;
  ok.pool = 0x7f0000000000;
  ok.pool_bytes = (3 << 20) + 1;
  ok.chunk_bytes = 1 << 20;
  ok.queues.push_back({SomeQueue(5), {1, 2, 3, 4}});
  ok.queues.push_back({QueueAddress(), {}});
  return ok;
}

TEST(FabricMessagesTest, RoundTrip) {
  ConnectRequest request, got;
  request.queues = {SomeQueue(1), SomeQueue(2)};
  ASSERT_TRUE(RoundTrip(request, &got));
  ASSERT_EQ(got.queues.size(), 2u);
  EXPECT_EQ(got.queues[1].queue, 2u);
  EXPECT_EQ(got.queues[1].gid, request.queues[1].gid);
  ConnectOk ok;
  ASSERT_TRUE(RoundTrip(Answer(), &ok));
  EXPECT_EQ(ok.pool_bytes, (3u << 20) + 1);
  EXPECT_EQ(ok.queues[0].rkeys, (std::vector<uint32_t>{1, 2, 3, 4}));
  EXPECT_EQ(ok.queues[1].queue.queue, 0u);
  EXPECT_FALSE(ok.later);
  ConnectOk later;
  later.later = true;
  ASSERT_TRUE(RoundTrip(later, &ok));
  EXPECT_TRUE(ok.later);
  EXPECT_TRUE(ok.queues.empty()) << "of an earlier answer";
}

// Older members have zeros there, which say nothing, and look at none of them.
TEST(FabricMessagesTest, ClassAndLevelAreWhereOlderMembersHaveZeros) {
  QueueAddress address = SomeQueue(1);
  address.traffic_class = 105;
  address.service_level = 4;
  std::array<uint8_t, sizeof(QueueAddress)> bytes;
  std::memcpy(bytes.data(), &address, sizeof(address));
  EXPECT_EQ(bytes[44], 0) << "the link layer";
  EXPECT_EQ(bytes[45], 105);
  EXPECT_EQ(bytes[46], 4);
  for (size_t i = 47; i < bytes.size(); ++i) EXPECT_EQ(bytes[i], 0) << i;
}

TEST(FabricMessagesTest, TruncatedAndOversizedAreRefused) {
  ConnectRequest request, got;
  request.queues = {SomeQueue(1)};
  for (size_t cut = 1; cut < 56; ++cut) EXPECT_FALSE(RoundTrip(request, &got, cut)) << cut;
  request.queues.resize(kMaxQueues + 1);
  EXPECT_FALSE(RoundTrip(request, &got));
  ConnectOk ok, decoded;
  ok.later = true;
  EXPECT_FALSE(RoundTrip(ok, &decoded, 1));
}

TEST(FabricMessagesTest, KeysMustCoverThePool) {
  ConnectOk got;
  ConnectOk ok = Answer();
  ok.queues[0].rkeys.pop_back();
  EXPECT_FALSE(RoundTrip(ok, &got)) << "a page of the last chunk would have no key";
  ok = Answer();
  ok.chunk_bytes = 0;
  EXPECT_FALSE(RoundTrip(ok, &got));
  ok = Answer();
  ok.pool_bytes = 0;
  ok.queues[0].rkeys.clear();
  EXPECT_FALSE(RoundTrip(ok, &got)) << "a queue pair without a key to READ the first page with";
  ok = Answer();
  ok.pool = UINT64_MAX;
  EXPECT_FALSE(RoundTrip(ok, &got)) << "it would wrap";
}

}  // namespace
}  // namespace peercache
