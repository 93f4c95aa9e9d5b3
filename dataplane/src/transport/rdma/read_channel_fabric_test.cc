// Reads over real queue pairs; needs devices (hack/lab/soft-rdma brings some).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "base/wrong_bytes.h"
#include "transport/rdma/fabric_testing.h"
#include "transport/rdma/memory_testing.h"
#include "transport/rdma/read_channel.h"

namespace peercache::rdma {
namespace {

using std::chrono::seconds;
using ::testing::Each;
using ::testing::HasSubstr;

void Command(const std::string& command) { ASSERT_EQ(std::system(command.c_str()), 0) << command; }

// Pages of many sizes with their destinations cut into segments.
class Batch {
 public:
  Batch(TestHolder* holder, Bytes to, std::span<const uint32_t> lengths, size_t segments) {
    std::mt19937 random(7);
    size_t at = 0;
    for (const uint32_t length : lengths) {
      PageRead read = holder->Put(length);
      auto& parts = segments_.emplace_back();
      for (size_t left = length, i = 0; left > 0; ++i) {
        const size_t size =
            i + 1 == segments ? left : std::min(left, length / segments + random() % 7 + 1);
        parts.push_back(to.subspan(at, size));
        at += size + random() % 3;
        left -= size;
      }
      read.to = parts;
      reads_.push_back(read);
    }
  }
  std::span<PageRead> reads() { return reads_; }
  // Of the pages that were read: all, where `states` does not say.
  void ExpectBytes(const TestHolder& holder, std::span<const PageState> states = {}) const {
    for (size_t i = 0; i < reads_.size(); ++i) {
      if (!states.empty() && states[i] != PageState::kRead) continue;
      const PageRead& read = reads_[i];
      const auto payload = holder.Payload(read);
      size_t at = 0;
      for (const Bytes& part : read.to) {
        ASSERT_TRUE(HasRightBytes("page of key " + read.key.ShortHex(), part,
                                  payload.subspan(at, part.size())));
        at += part.size();
      }
    }
  }

 private:
  std::vector<std::vector<Bytes>> segments_;
  std::vector<PageRead> reads_;
};

class ReadChannelFabricTest : public ::testing::Test {
 protected:
  static constexpr size_t kBytes = 48 << 20;
  ReadChannelFabricTest() {
    rails->OnDeviceChange([this](size_t rail) {
      const Status s = holder.registered.Renew(*rails, rail);
      return s.ok() ? reader.registered.Renew(*rails, rail) : s;
    });
  }
  ~ReadChannelFabricTest() override { rails->Stop(); }
  std::unique_ptr<Rails> rails = OpenTestRails();
  TestHolder holder{rails.get(), kBytes};
  TestReader reader{rails.get(), kBytes};
};

TEST_F(ReadChannelFabricTest, PagesOfEverySizeArriveByteForByteOverAllRails) {
  auto connection = Connect(*rails, &holder, reader);
  ASSERT_TRUE(connection.ok()) << connection.status().ToString();
  EXPECT_EQ(connection->channel->queues(), rails->size());
  std::vector<uint32_t> lengths;
  for (const uint32_t length : {1u, 63u, 4096u, 65'537u, 131'072u, 1'048'576u, 3'000'001u})
    lengths.insert(lengths.end(), 3, length);
  for (int i = 0; i < 200; ++i) lengths.push_back(static_cast<uint32_t>(i * 97 + 1));
  Batch batch(&holder, reader.bytes(), lengths, 5);
  const auto states = ReadAll(connection->channel.get(), reader, batch.reads());
  EXPECT_THAT(states, Each(PageState::kRead));
  batch.ExpectBytes(holder);
  for (const auto& rail : rails->all()) EXPECT_GT(rail->stats().bytes, 1'000'000u) << rail->name();
}

TEST_F(ReadChannelFabricTest, APageOfManySegmentsTakesSeveralReads) {
  auto connection = Connect(*rails, &holder, reader);
  ASSERT_TRUE(connection.ok()) << connection.status().ToString();
  const uint32_t lengths[] = {131'072, 131'072};
  Batch batch(&holder, reader.bytes(), lengths, 160);
  EXPECT_THAT(ReadAll(connection->channel.get(), reader, batch.reads()), Each(PageState::kRead));
  batch.ExpectBytes(holder);
}

TEST_F(ReadChannelFabricTest, AnotherPageInTheSlotIsNotTaken) {
  auto connection = Connect(*rails, &holder, reader);
  ASSERT_TRUE(connection.ok()) << connection.status().ToString();
  const std::vector<uint32_t> lengths(6, 10'000);
  Batch batch(&holder, reader.bytes(), lengths, 2);
  batch.reads()[1].generation += 1;
  batch.reads()[2].key.bytes[5] ^= 1;
  batch.reads()[3].offset += 64;
  batch.reads()[4].offset = kBytes;  // outside of the pool
  const auto states = ReadAll(connection->channel.get(), reader, batch.reads());
  EXPECT_THAT(states,
              ::testing::ElementsAre(PageState::kRead, PageState::kStale, PageState::kStale,
                                     PageState::kStale, PageState::kStale, PageState::kRead));
}

TEST_F(ReadChannelFabricTest, MemoryThatIsNotRegisteredIsLeftToOthers) {
  auto connection = Connect(*rails, &holder, reader);
  ASSERT_TRUE(connection.ok()) << connection.status().ToString();
  const std::vector<uint32_t> lengths(2, 10'000);
  Batch batch(&holder, reader.bytes(), lengths, 1);
  std::vector<std::byte> elsewhere(10'000);
  const Bytes foreign[] = {elsewhere};
  batch.reads()[0].to = foreign;
  const auto states = ReadAll(connection->channel.get(), reader, batch.reads());
  EXPECT_EQ(states[0], PageState::kUnregistered);
  EXPECT_EQ(states[1], PageState::kRead);
}

TEST_F(ReadChannelFabricTest, AWrongKeyIsRefusedAndSurvived) {
  auto refused = Connect(*rails, &holder, reader, [](ConnectOk* answer) {
    for (auto& queue : answer->queues)
      for (uint32_t& key : queue.rkeys) key ^= 0x5a5a00;
  });
  EXPECT_FALSE(refused.ok()) << "the probe must not come through";
  auto connection = Connect(*rails, &holder, reader);
  ASSERT_TRUE(connection.ok()) << connection.status().ToString();
  const uint32_t lengths[] = {100'000};
  Batch batch(&holder, reader.bytes(), lengths, 1);
  EXPECT_THAT(ReadAll(connection->channel.get(), reader, batch.reads()), Each(PageState::kRead));
}

TEST_F(ReadChannelFabricTest, AReadBeyondThePoolFailsAndIsSurvived) {
  auto connection = Connect(*rails, &holder, reader, [](ConnectOk* answer) {
    answer->pool_bytes *= 2;  // within the one chunk, as far as the reader knows
  });
  ASSERT_TRUE(connection.ok()) << connection.status().ToString();
  const std::vector<uint32_t> lengths(2, 50'000);
  Batch batch(&holder, reader.bytes(), lengths, 1);
  batch.reads()[0].offset = kBytes + 4096;
  const auto states = ReadAll(connection->channel.get(), reader, batch.reads());
  EXPECT_EQ(states[0], PageState::kFailed);
  EXPECT_EQ(connection->channel->queues(), 0u);
  auto again = Connect(*rails, &holder, reader);
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(ReadAll(again->channel.get(), reader, batch.reads().subspan(1))[0], PageState::kRead);
}

TEST_F(ReadChannelFabricTest, NothingLandsAfterThePeerHasGone) {
  auto connection = Connect(*rails, &holder, reader);
  ASSERT_TRUE(connection.ok()) << connection.status().ToString();
  const std::vector<uint32_t> lengths(40, 1 << 20);
  Batch batch(&holder, reader.bytes(), lengths, 1);
  std::vector<PageState> states(lengths.size());
  const auto ranges = reader.registered.ranges();
  ReadChannel& channel = *connection->channel;
  channel.Begin(batch.reads(), *ranges, reader.headers().first(2 * lengths.size()), states,
                milliseconds(200), Clock::now());
  channel.Advance(Clock::now());
  connection->queues.reset();  // the holder's process ends
  const RunningRead running{&channel, -1};
  const TimePoint start = Clock::now();
  RunReads(std::span(&running, 1), {start + seconds(10), {}});
  EXPECT_LT(Clock::now() - start, seconds(3));
  EXPECT_THAT(states, ::testing::Contains(PageState::kFailed));
  std::memset(reader.bytes().data(), 0x5a, reader.bytes().size());
  std::this_thread::sleep_for(milliseconds(300));
  const Bytes all = reader.bytes();
  EXPECT_EQ(all[0], std::byte{0x5a});
  EXPECT_EQ(std::memcmp(all.data(), all.data() + 1, all.size() - 1), 0) << "all bytes are equal";
}

TEST_F(ReadChannelFabricTest, ARailThatGoesDownIsDoneWithoutAndComesBack) {
  const auto found = FindTestRails();
  ASSERT_GE(found.size(), 2u) << "this test needs two rails";
  const std::string interface = InterfaceOf((*rails)[1].spec());
  auto connection = Connect(*rails, &holder, reader);
  ASSERT_TRUE(connection.ok()) << connection.status().ToString();
  const std::vector<uint32_t> lengths(32, 1 << 20);
  Batch batch(&holder, reader.bytes(), lengths, 1);
  std::thread breaker([&] {
    std::this_thread::sleep_for(milliseconds(100));
    Command("ip link set " + interface + " down");
  });
  bool lost = false;
  for (const TimePoint end = Clock::now() + seconds(5); !lost && Clock::now() < end;) {
    std::memset(reader.bytes().data(), 0, reader.bytes().size());
    const auto states = ReadAll(connection->channel.get(), reader, batch.reads());
    EXPECT_THAT(states, Each(PageState::kRead)) << "the other rail takes over";
    batch.ExpectBytes(holder, states);
    lost = connection->channel->queues() < found.size();
  }
  breaker.join();
  EXPECT_TRUE(lost);
  for (int i = 0; i < 50 && (*rails)[1].up(); ++i) std::this_thread::sleep_for(milliseconds(100));
  EXPECT_FALSE((*rails)[1].up());
  auto narrow = Connect(*rails, &holder, reader);
  ASSERT_TRUE(narrow.ok()) << narrow.status().ToString();
  EXPECT_EQ(narrow->channel->queues(), found.size() - 1);
  Command("ip link set " + interface + " up");
  for (int i = 0; i < 50 && !(*rails)[1].up(); ++i) std::this_thread::sleep_for(milliseconds(100));
  EXPECT_TRUE((*rails)[1].up()) << "it came back by itself";
  auto wide = Connect(*rails, &holder, reader);
  ASSERT_TRUE(wide.ok()) << wide.status().ToString();
  EXPECT_EQ(wide->channel->queues(), found.size());
  EXPECT_THAT(ReadAll(wide->channel.get(), reader, batch.reads()), Each(PageState::kRead));
}

// Until the rail is as it should be; the kernel tells of ports and addresses a moment later.
template <typename Holds>
bool Within20Seconds(const Holds& holds) {
  for (int i = 0; i < 200 && !holds(); ++i) std::this_thread::sleep_for(milliseconds(100));
  return holds();
}

TEST_F(ReadChannelFabricTest, ARailThatIsDownAtTheStartComesIntoUse) {
  ASSERT_GE(rails->size(), 2u);
  const std::string interface = InterfaceOf((*rails)[1].spec());
  Command("ip link set " + interface + " down");
  ASSERT_TRUE(Within20Seconds([&] { return !(*rails)[1].up(); }));
  auto late = OpenTestRails();
  ASSERT_EQ(late->size(), rails->size());
  EXPECT_FALSE((*late)[1].up());
  EXPECT_EQ((*late)[1].state().waits().what, WaitsFor::kPort);
  EXPECT_THAT((*late)[1].state().waits().why, HasSubstr("set " + interface + " up"));
  {
    // Registered with both, before the one is up.
    TestHolder late_holder{late.get(), kBytes};
    TestReader late_reader{late.get(), kBytes};
    const std::vector<uint32_t> lengths(32, 1 << 20);
    Batch batch(&late_holder, late_reader.bytes(), lengths, 1);
    const auto read_over = [&](size_t queues) {
      std::memset(late_reader.bytes().data(), 0, late_reader.bytes().size());
      auto connection = Connect(*late, &late_holder, late_reader);
      ASSERT_TRUE(connection.ok()) << connection.status().ToString();
      EXPECT_EQ(connection->channel->queues(), queues);
      EXPECT_THAT(ReadAll(connection->channel.get(), late_reader, batch.reads()),
                  Each(PageState::kRead));
      batch.ExpectBytes(late_holder);
    };
    read_over(late->size() - 1);
    Command("ip link set " + interface + " up");
    EXPECT_TRUE(Within20Seconds([&] { return (*late)[1].up(); })) << "nobody starts it again";
    read_over(late->size());
    EXPECT_GT((*late)[1].stats().bytes, 1'000'000u);
    EXPECT_EQ((*late)[1].stats().downs, 0u);
  }
}

TEST_F(ReadChannelFabricTest, ARailWhoseAddressChangesUnderReadsIsConnectedAnew) {
  ASSERT_GE(rails->size(), 2u);
  const RailState& rail = (*rails)[1].state();
  const std::string interface = InterfaceOf((*rails)[1].spec());
  const std::string old = FormatAddress(rail.address().gid.address);
  const std::string other = old.substr(0, old.rfind('.')) + ".77";
  // In this order: with the first address of a network go those that came later.
  const auto move = [&](const std::string& from, const std::string& to) {
    Command(fmt::format("ip addr del {1}/24 dev {2} && ip addr add {0}/24 dev {2}", to, from,
                        interface));
  };
  auto connection = Connect(*rails, &holder, reader);
  ASSERT_TRUE(connection.ok()) << connection.status().ToString();
  const std::vector<uint32_t> lengths(32, 1 << 20);
  Batch batch(&holder, reader.bytes(), lengths, 1);
  std::thread mover([&] {
    std::this_thread::sleep_for(milliseconds(100));
    move(old, other);
  });
  bool lost = false;
  for (const TimePoint end = Clock::now() + seconds(20); !lost && Clock::now() < end;) {
    std::memset(reader.bytes().data(), 0, reader.bytes().size());
    const auto states = ReadAll(connection->channel.get(), reader, batch.reads());
    EXPECT_THAT(states, Each(PageState::kRead)) << "the other rail takes over";
    batch.ExpectBytes(holder, states);
    lost = connection->channel->queues() < rails->size();
  }
  mover.join();
  EXPECT_TRUE(lost);
  EXPECT_TRUE(Within20Seconds(
      [&] { return rail.up() && FormatAddress(rail.address().gid.address) == other; }));
  EXPECT_GE(rail.address_changes(), 1u);
  auto anew = Connect(*rails, &holder, reader);
  ASSERT_TRUE(anew.ok()) << anew.status().ToString();
  EXPECT_EQ(anew->channel->queues(), rails->size());
  // One that is idle when the address changes is not used again either.
  move(other, old);
  EXPECT_TRUE(Within20Seconds(
      [&] { return rail.up() && FormatAddress(rail.address().gid.address) == old; }));
  const TimePoint start = Clock::now();
  EXPECT_THAT(ReadAll(anew->channel.get(), reader, batch.reads(), seconds(15)),
              Each(PageState::kRead));
  EXPECT_LT(Clock::now() - start, seconds(15)) << "the old address was waited for";
  EXPECT_EQ(anew->channel->lost_rails(), 2u);
  batch.ExpectBytes(holder);
}

TEST_F(ReadChannelFabricTest, ADeviceThatIsTakenAwayUnderReadsIsDoneWithoutAndOpenedAnew) {
  ASSERT_GE(rails->size(), 2u);
  Rail& rail = (*rails)[1];
  const std::string device = rail.spec().device, interface = InterfaceOf(rail.spec());
  const std::vector<uint32_t> lengths(32, 1 << 20);
  Batch batch(&holder, reader.bytes(), lengths, 1);
  const auto read = [&](ReadChannel* channel) {
    std::memset(reader.bytes().data(), 0, reader.bytes().size());
    const auto states = ReadAll(channel, reader, batch.reads());
    EXPECT_THAT(states, Each(PageState::kRead));
    batch.ExpectBytes(holder, states);
  };
  const auto left = [&] {
    rails->Drain();
    return std::vector<size_t>{OpenFiles(),   CountOf("qp"), CountOf("mr"),
                               CountOf("cq"), CountOf("pd"), CountOf("ctx")};
  };
  const std::vector<size_t> before = left();
  for (uint64_t round = 1; round <= 3 && !HasFailure(); ++round) {
    std::vector<uint32_t> old_keys;
    auto connection = Connect(*rails, &holder, reader,
                              [&](ConnectOk* answer) { old_keys = answer->queues[1].rkeys; });
    ASSERT_TRUE(connection.ok()) << connection.status().ToString();
    std::thread breaker([&] {
      std::this_thread::sleep_for(milliseconds(100));
      Command("rdma link delete " + device);
    });
    bool lost = false;
    for (const TimePoint end = Clock::now() + seconds(20); !lost && Clock::now() < end;) {
      read(connection->channel.get());
      lost = connection->channel->queues() < rails->size();
    }
    breaker.join();
    EXPECT_TRUE(lost) << "the other rail takes over";
    EXPECT_TRUE(Within20Seconds([&] { return !rail.up(); }));
    EXPECT_EQ(rail.state().waits().what, WaitsFor::kDevice);
    EXPECT_THAT(rail.state().waits().why, HasSubstr("opened again"));
    EXPECT_EQ(rail.stats().device_failures, round);
    // Memory that comes meanwhile is registered with the rest, and with this one later.
    TestReader late(rails.get(), 8 << 20);
    auto narrow = Connect(*rails, &holder, reader);
    ASSERT_TRUE(narrow.ok()) << narrow.status().ToString();
    EXPECT_EQ(narrow->channel->queues(), rails->size() - 1);
    read(narrow->channel.get());
    Command(fmt::format("rdma link add {} type rxe netdev {}", device, interface));
    EXPECT_TRUE(Within20Seconds([&] { return rail.up(); })) << "nobody starts it again";
    auto stale = Connect(*rails, &holder, reader, [&](ConnectOk* answer) {
      if (answer->queues[1].rkeys == old_keys) old_keys.clear();  // once in 256 times
      if (!old_keys.empty()) answer->queues[1].rkeys = old_keys;
    });
    ASSERT_TRUE(stale.ok()) << stale.status().ToString();
    EXPECT_EQ(stale->channel->queues(), rails->size() - (old_keys.empty() ? 0 : 1))
        << "a key of the device that was there before opens the pool";
    auto wide = Connect(*rails, &holder, reader);
    ASSERT_TRUE(wide.ok()) << wide.status().ToString();
    EXPECT_EQ(wide->channel->queues(), rails->size());
    const uint64_t bytes = rail.stats().bytes;
    read(wide->channel.get());
    EXPECT_GT(rail.stats().bytes, bytes + 1'000'000u);
    // A queue pair of the old device is noticed, if it was idle all the time.
    read(connection->channel.get());
    EXPECT_EQ(connection->channel->queues(), rails->size() - 1);
    const auto ranges = late.registered.ranges();
    ASSERT_TRUE(late.registered.Renew(*rails, 1).ok());
    EXPECT_EQ(late.registered.ranges()->front()->KnownTo(1), rail.device().get());
  }
  EXPECT_EQ(left(), before) << "descriptors, and what the kernel keeps for this process";
}

TEST_F(ReadChannelFabricTest, ARailThatDoesNotKnowTheMemoryIsNotUsedForIt) {
  ASSERT_GE(rails->size(), 2u);
  auto connection = Connect(*rails, &holder, reader);
  ASSERT_TRUE(connection.ok()) << connection.status().ToString();
  const std::string device = (*rails)[1].spec().device, interface = InterfaceOf((*rails)[1].spec());
  // The engine's memory is not registered again.
  rails->OnDeviceChange([this](size_t rail) { return holder.registered.Renew(*rails, rail); });
  Command("rdma link delete " + device);
  ASSERT_TRUE(Within20Seconds([&] { return !(*rails)[1].up(); }));
  Command(fmt::format("rdma link add {} type rxe netdev {}", device, interface));
  ASSERT_TRUE(Within20Seconds([&] { return (*rails)[1].up(); }));
  auto channel = ReadChannel::Make(*rails, ~0u);
  ASSERT_TRUE(channel.ok());
  ConnectOk answer;
  auto queues = AcceptNow(&holder.acceptor(), (*channel)->request(), &answer);
  ASSERT_TRUE(queues.ok());
  ASSERT_TRUE((*channel)->Establish(answer, Clock::now() + seconds(5)).ok());
  EXPECT_EQ((*channel)->queues(), rails->size());
  const uint64_t bytes = (*rails)[1].stats().bytes;
  const std::vector<uint32_t> lengths(16, 1 << 20);
  Batch batch(&holder, reader.bytes(), lengths, 1);
  EXPECT_THAT(ReadAll(channel->get(), reader, batch.reads()), Each(PageState::kRead));
  batch.ExpectBytes(holder);
  EXPECT_EQ((*rails)[1].stats().bytes, bytes);
  EXPECT_EQ((*channel)->queues(), rails->size()) << "it is well for other memory";
  // Over that rail alone there is no way.
  auto alone = ReadChannel::Make(*rails, 2);
  ASSERT_TRUE(alone.ok());
  queues = AcceptNow(&holder.acceptor(), (*alone)->request(), &answer);
  ASSERT_TRUE(queues.ok());
  ASSERT_TRUE((*alone)->Establish(answer, Clock::now() + seconds(5)).ok());
  EXPECT_THAT(ReadAll(alone->get(), reader, batch.reads()), Each(PageState::kFailed));
}

TEST_F(ReadChannelFabricTest, PagesCrossTheBordersOfChunks) {
  constexpr uint64_t kChunk = 2 << 20;
  RailTesting::Limit(*rails, kChunk);
  TestHolder cut(rails.get(), kBytes);
  const TestReader into(rails.get(), kBytes);
  EXPECT_EQ(cut.registered.ranges()->front()->chunk_bytes(), kChunk);
  EXPECT_EQ(cut.registered.ranges()->front()->chunks(), kBytes / kChunk);
  auto connection = Connect(*rails, &cut, into);
  ASSERT_TRUE(connection.ok()) << connection.status().ToString();
  // Of 24 chunks, at whose borders pages lie here and there in different places.
  std::vector<uint32_t> lengths(32, 1'234'567);
  lengths.push_back(5'000'000);
  Batch batch(&cut, into.bytes(), lengths, 3);
  EXPECT_THAT(ReadAll(connection->channel.get(), into, batch.reads()), Each(PageState::kRead));
  batch.ExpectBytes(cut);
}

TEST_F(ReadChannelFabricTest, DevicesOfSmallLimitsReadToo) {
  RailTesting::Limit(*rails, [](ibv_device_attr* limits) {
    limits->max_qp_wr = 4;
    limits->max_sge = 2;
    limits->max_sge_rd = 0;
    limits->max_cqe = 5;
    limits->max_qp_rd_atom = limits->max_qp_init_rd_atom = 1;
  });
  auto connection = Connect(*rails, &holder, reader);
  ASSERT_TRUE(connection.ok()) << connection.status().ToString();
  EXPECT_EQ(connection->channel->request().queues[0].reads, 1u);
  const std::vector<uint32_t> lengths(60, 70'001);
  Batch batch(&holder, reader.bytes(), lengths, 7);
  EXPECT_THAT(ReadAll(connection->channel.get(), reader, batch.reads()), Each(PageState::kRead));
  batch.ExpectBytes(holder);
  EXPECT_EQ(connection->channel->queues(), rails->size());
}

TEST_F(ReadChannelFabricTest, ASmallBatchStaysOnTheRailNearItsMemory) {
  ASSERT_EQ(rails->size(), 2u);
  auto connection = Connect(*rails, &holder, reader);
  ASSERT_TRUE(connection.ok()) << connection.status().ToString();
  const auto known = reader.registered.ranges()->front();
  for (const size_t near : {0, 1}) {
    RegisteredMemory registered;
    registered.Add(RegistrationTesting::Far(*known, {near != 0, near != 1}));
    const auto ranges = registered.ranges();
    const uint64_t before[] = {(*rails)[0].stats().bytes, (*rails)[1].stats().bytes};
    const auto brought = [&](size_t rail) { return (*rails)[rail].stats().bytes - before[rail]; };
    const auto read = [&](size_t pages) {
      const std::vector<uint32_t> lengths(pages, 100'000);
      Batch batch(&holder, reader.bytes(), lengths, 1);
      std::vector<PageState> states(pages);
      connection->channel->Begin(batch.reads(), *ranges, reader.headers().first(2 * pages), states,
                                 seconds(2), Clock::now());
      const RunningRead running{connection->channel.get(), -1};
      RunReads(std::span(&running, 1), {Clock::now() + seconds(20), {}});
      EXPECT_THAT(states, Each(PageState::kRead));
    };
    read(5);
    EXPECT_GE(brought(near), 500'000u);
    EXPECT_EQ(brought(1 - near), 0u);
    read(100);
    EXPECT_GT(brought(1 - near), 0u) << "a large one uses all";
  }
}

// As that of an engine whose dma-buf was revoked.
TEST_F(ReadChannelFabricTest, MemoryThatDevicesMayNotWriteToIsNoRailsFault) {
  auto* table = const_cast<Verbs*>(*Verbs::Load());
  static const auto before = table->reg_mr_iova2;
  table->reg_mr_iova2 = [](ibv_pd* pd, void* address, size_t length, uint64_t iova, unsigned) {
    return before(pd, address, length, iova, 0);
  };
  const auto memory = TestMemory(1 << 20);
  const auto revoked = Registration::Make("engine", memory->bytes(), *rails,
                                          Registration::For::kLocalWrite, memory, {});
  table->reg_mr_iova2 = before;
  ASSERT_TRUE(revoked.ok()) << revoked.status().ToString();
  reader.registered.Add(*revoked);
  auto connection = Connect(*rails, &holder, reader);
  ASSERT_TRUE(connection.ok()) << connection.status().ToString();
  const auto failures = [&] {
    uint64_t all = 0;
    for (const auto& rail : rails->all()) all += rail->stats().failures;
    return all;
  };
  const uint64_t failed = failures();
  const std::vector<uint32_t> lengths(9, 100'000);
  Batch bad(&holder, memory->bytes(), lengths, 1);
  EXPECT_THAT(ReadAll(connection->channel.get(), reader, bad.reads()), Each(PageState::kFailed));
  EXPECT_EQ(connection->channel->queues(), 0u) << "nothing lands any more";
  EXPECT_EQ(connection->channel->lost_rails(), 0u);
  EXPECT_EQ(failures(), failed);
  auto again = Connect(*rails, &holder, reader);
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  Batch good(&holder, reader.bytes(), lengths, 1);
  EXPECT_THAT(ReadAll(again->channel.get(), reader, good.reads()), Each(PageState::kRead));
  good.ExpectBytes(holder);
}

TEST_F(ReadChannelFabricTest, QueuePairsForPeersAreBounded) {
  RegisteredMemory registered;
  ASSERT_TRUE(
      registered.Register("pool", reader.bytes(), *rails, Registration::For::kRemoteRead, nullptr)
          .ok());
  Acceptor acceptor(rails.get(), &registered, reader.bytes(), static_cast<uint32_t>(rails->size()));
  auto channel = ReadChannel::Make(*rails, ~0u), other = ReadChannel::Make(*rails, ~0u);
  ASSERT_TRUE(channel.ok() && other.ok());
  ConnectOk answer;
  auto first = acceptor.Accept((*channel)->request(), &answer);
  ASSERT_TRUE(first.ok());
  auto second = acceptor.Accept((*other)->request(), &answer);
  EXPECT_EQ(second.status().code(), Code::kResourceExhausted);
  EXPECT_THAT(second.status().message(), HasSubstr("rdma-max-queues"));
  *first = nullptr;
  rails->Drain();
  EXPECT_TRUE(acceptor.Accept((*other)->request(), &answer).ok());
}

// An address in the network of `rail` that nobody has: the kernel looks for it for a second.
QueueAddress Nobody(QueueAddress rail) {
  rail.gid[15] = 0xfd;
  return rail;
}

TEST_F(ReadChannelFabricTest, NobodyWaitsForAReaderWhoseAddressDoesNotAnswer) {
  ASSERT_GE(rails->size(), 2u);
  auto channel = ReadChannel::Make(*rails, ~0u);
  ASSERT_TRUE(channel.ok());
  ConnectRequest request = (*channel)->request();
  request.queues[0] = Nobody(request.queues[0]);
  ConnectOk answer;
  auto queues = holder.acceptor().Accept(request, &answer);
  ASSERT_TRUE(queues.ok());
  EXPECT_TRUE(answer.later) << "it was waited for";
  queues = AcceptNow(&holder.acceptor(), request, &answer);
  ASSERT_TRUE(queues.ok());
  ASSERT_EQ(answer.queues.size(), rails->size());
  EXPECT_EQ(answer.queues[0].queue.queue, 0u);
  EXPECT_NE(answer.queues[1].queue.queue, 0u) << "the other rails do not wait for it";
  // The reader goes, and what is under way with it.
  *queues = nullptr;
  rails->Drain();
  EXPECT_EQ(holder.acceptor().stats().queues, 0u);
  auto connection = Connect(*rails, &holder, reader);
  ASSERT_TRUE(connection.ok()) << connection.status().ToString();
  EXPECT_EQ(connection->channel->queues(), rails->size());
}

TEST_F(ReadChannelFabricTest, ARailWhosePeerDoesNotAnswerIsDoneWithout) {
  ASSERT_GE(rails->size(), 2u);
  auto connection = Connect(*rails, &holder, reader, [](ConnectOk* answer) {
    answer->queues[0].queue = Nobody(answer->queues[0].queue);
  });
  ASSERT_TRUE(connection.ok()) << connection.status().ToString();
  EXPECT_EQ(connection->channel->queues(), rails->size() - 1);
  EXPECT_EQ(connection->channel->lost_rails(), 1u);
  const std::vector<uint32_t> lengths(4, 100'000);
  Batch batch(&holder, reader.bytes(), lengths, 1);
  EXPECT_THAT(ReadAll(connection->channel.get(), reader, batch.reads()), Each(PageState::kRead));
  // The connector may still be at work when its channel has gone.
  auto given_up = ReadChannel::Make(*rails, ~0u);
  ASSERT_TRUE(given_up.ok());
  ConnectOk nobody;
  auto queues = AcceptNow(&holder.acceptor(), (*given_up)->request(), &nobody);
  ASSERT_TRUE(queues.ok());
  for (auto& served : nobody.queues) served.queue = Nobody(served.queue);
  EXPECT_FALSE((*given_up)->Establish(nobody, Clock::now()).ok());
  given_up->reset();
  rails->Drain();
  EXPECT_THAT(ReadAll(connection->channel.get(), reader, batch.reads()), Each(PageState::kRead));
}

}  // namespace
}  // namespace peercache::rdma
