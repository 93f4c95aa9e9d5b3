// What a reader of this machine has of a pool's file while the next process, with other options,
// does what it may. Answers over TCP lie in the reader's queue by reference: no clock, no header
// and no checksum tells a byte that is written there before the reader comes to it.
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstring>
#include <functional>

#include "base/patience_testing.h"
#include "node/pools.h"
#include "pool/pool_file_testing.h"
#include "transport/tcp/page_pipe.h"
#include "transport/tcp/tcp_testing.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;

constexpr size_t kPage = 16 << 10;
constexpr milliseconds kLong{60'000}, kShort{50};

// A page in the queue of a reader that does not come to it.
class Lying {
 public:
  explicit Lying(const PagePin& pin) {
    auto listener = Listen("127.0.0.1", 0);
    EXPECT_TRUE(listener.ok());
    reader_ = testing::RawConnect(listener->port);
    UniqueFd holder(accept4(listener->fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    PagePipe pipe = PagePipe::Create();
    std::vector<iovec> pages = {
        {const_cast<std::byte*>(pin.payload().data()), pin.payload().size()}};
    size_t next = 0;
    uint64_t sent = 0;
    EXPECT_EQ(pipe.Send(holder.get(), pages, &next, &sent), PagePipe::Progress::kDone);
    EXPECT_TRUE(testing::Eventually([&] {
      int there = 0;
      return ioctl(reader_.get(), FIONREAD, &there) == 0 && there == static_cast<int>(kPage);
    }));
    // A reset, as when a process is killed.
    const linger now{1, 0};
    EXPECT_EQ(setsockopt(holder.get(), SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
  }
  std::vector<std::byte> Take() const {
    std::vector<std::byte> bytes(kPage);
    EXPECT_EQ(recv(reader_.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(kPage));
    return bytes;
  }

 private:
  UniqueFd reader_;
};

struct Options {
  NodeConfig config;
  bool rails = true;
};
using Change = std::function<void(Options*)>;

struct Row {
  const char* name;
  PoolStart start;  // of the last process
  std::vector<Change> processes;
};

class OtherOptionsTest : public ::testing::TestWithParam<Row> {
 protected:
  std::unique_ptr<Pool> Start(const Options& options) const {
    auto made = MakePools(options.config, -1, nullptr, options.rails);
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    return std::move(made->pool);
  }
  const testing::TempDir memory_{"/dev/shm"};
  const testing::TempDir files_;
};

// All that the pool lets anybody write.
size_t WriteOver(Pool* pool, TimePoint now) {
  for (const Victim& victim : pool->TakeTagged(TagRange::OfGroup(0), nullptr))
    pool->Quarantine(victim, now);
  pool->Reclaim(now + 1ms);
  if (!pool->beside().empty()) std::memset(pool->beside().data(), 0xee, pool->beside().size());
  std::vector<Reservation> slots;
  for (auto slot = pool->Reserve(kPage); slot.ok(); slot = pool->Reserve(kPage)) {
    std::memset(slot->payload().data(), 0xee, kPage);
    slots.push_back(std::move(*slot));
  }
  return slots.size();
}

TEST_P(OtherOptionsTest, ASlowReaderHasTheBytesThatItWasSent) {
  Options options;
  options.config.pool_bytes = 16 * kMiB;
  options.config.promotion_percent = 0;
  options.config.pool_file = memory_.path();
  options.config.lease = kLong;
  std::vector<Key> keys;
  std::vector<Lying> lying;
  const auto& processes = GetParam().processes;
  processes.front()(&options);
  {
    const auto pool = Start(options);
    ASSERT_EQ(pool->adoption().start, PoolStart::kNew);
    uint64_t pages = 0;
    while (Put(*pool, pages, kPage)) ++pages;
    const uint64_t shown = 16;
    for (uint64_t i = 0; i < shown; ++i) {  // also the first and the last one
      keys.push_back(KeyOf(i * (pages - 1) / (shown - 1)));
      lying.emplace_back(pool->Find(keys.back()));
    }
  }
  for (size_t i = 1; i + 1 < processes.size(); ++i) {
    processes[i](&options);
    (void)Start(options);  // ends at once
  }
  processes.back()(&options);
  const TimePoint before = Clock::now();
  const auto pool = Start(options);
  EXPECT_EQ(PoolStartName(pool->adoption().start), PoolStartName(GetParam().start))
      << pool->adoption().why;
  // Its last moment within the lease of the first one, however long this takes. A file that was
  // emptied is other memory.
  const size_t written = WriteOver(pool.get(), before + kLong);
  EXPECT_EQ(written > 0, GetParam().start != PoolStart::kAdopted) << written;
  for (size_t i = 0; i < lying.size(); ++i)
    EXPECT_TRUE(IsPageOf(lying[i].Take(), keys[i]))
        << "a page of the process before, within its lease";
  if (written > 0) return;
  EXPECT_GT(WriteOver(pool.get(), pool->NextReuse() + 1ns), 0u) << "in the end";
}

void Nothing(Options*) {}
void Shorter(Options* o) { o->config.lease = kShort; }

void OneSided(Options* o) { o->config.directory_lookups = "one-sided"; }

INSTANTIATE_TEST_SUITE_P(
    Rows, OtherOptionsTest,
    ::testing::Values(
        Row{"None", PoolStart::kAdopted, {Nothing, Nothing}},
        Row{"ShorterLease", PoolStart::kAdopted, {Nothing, Shorter}},
        // The second one had no time to rest.
        Row{"ShorterLeaseTwice", PoolStart::kAdopted, {Nothing, Shorter, Nothing, Shorter}},
        Row{"LongerLease",
            PoolStart::kAdopted,
            {Nothing, Shorter, [](Options* o) { o->config.lease = kLong; }}},
        Row{"Eviction",
            PoolStart::kAdopted,
            {Nothing,
             [](Options* o) {
               Shorter(o);
               o->config.eviction = EvictionPolicy::kS3Fifo;
             }}},
        Row{"LargerPool",
            PoolStart::kDifferent,
            {Nothing, [](Options* o) { o->config.pool_bytes += 2 * kMiB; }}},
        Row{"SmallerPool",
            PoolStart::kDifferent,
            {Nothing, [](Options* o) { o->config.pool_bytes -= 2 * kMiB; }}},
        Row{"Replicas",  // the pool itself has what it had
            PoolStart::kAdopted,
            {Nothing,
             [](Options* o) {
               Shorter(o);
               o->config.pool_bytes = 112 * kMiB;
               o->config.promotion_percent = 87;
             }}},
        Row{"OneSidedLookupsCome", PoolStart::kDifferent, {Nothing, OneSided}},
        Row{"OneSidedLookupsGo",
            PoolStart::kDifferent,
            {OneSided, [](Options* o) { o->config.directory_lookups = "rpc"; }}},
        Row{"RailsCome",
            PoolStart::kDifferent,
            {[](Options* o) {
               OneSided(o);
               o->rails = false;
             },
             [](Options* o) { o->rails = true; }}},
        Row{"RailsGo", PoolStart::kDifferent, {OneSided, [](Options* o) { o->rails = false; }}},
        Row{"RailsGoAndComeBack",
            PoolStart::kDifferent,
            {OneSided, [](Options* o) { o->rails = false; }, [](Options* o) { o->rails = true; }}},
        Row{"HugePages",
            PoolStart::kDifferent,
            {OneSided, [](Options* o) { o->config.huge_pages = HugePages::kOff; }}},
        Row{"MemberTtl",
            PoolStart::kDifferent,
            {Nothing, [](Options* o) { o->config.member_ttl /= 2; }}},
        Row{"Name", PoolStart::kDifferent, {Nothing, [](Options* o) { o->config.node_id = "b"; }}},
        Row{"Cluster",
            PoolStart::kDifferent,
            {Nothing, [](Options* o) { o->config.cluster = "other"; }}}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace peercache
