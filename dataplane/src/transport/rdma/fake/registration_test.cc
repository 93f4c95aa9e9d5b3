// What memory is registered with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <thread>
#include <utility>

#include "base/no_thread_testing.h"
#include "base/patience_testing.h"
#include "transport/rdma/fake/fake_testing.h"

namespace peercache::rdma {
namespace {

using ::testing::HasSubstr;

constexpr unsigned kPool = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
constexpr unsigned kRelaxed = IBV_ACCESS_RELAXED_ORDERING;

class FakeRegistrationTest : public ::testing::Test {
 protected:
  FakeRegistrationTest() { fake.Reset(); }
  ~FakeRegistrationTest() override { table->reg_mr_iova2 = known; }

  // "call: flags" of each registration that making a range of `use` takes.
  std::vector<std::string> Make(const Rails& rails, Registration::For use,
                                Registration::DmaBuf dma_buf = {}) {
    const size_t before = fake.registrations().size();
    const auto memory = TestMemory(1 << 20);
    made = Registration::Make("test", memory->bytes(), rails, use, memory, dma_buf).status();
    std::vector<std::string> said;
    for (const auto& registered : fake.registrations())
      said.push_back(registered.by + ": " + std::to_string(registered.access));
    said.erase(said.begin(), said.begin() + static_cast<ptrdiff_t>(before));
    return said;
  }
  static std::string Said(const std::string& by, unsigned access) {
    return by + ": " + std::to_string(access);
  }

  FakeVerbs& fake = FakeVerbs::Get();
  Verbs* const table = const_cast<Verbs*>(*Verbs::Load());
  decltype(table->reg_mr_iova2) const known = table->reg_mr_iova2;
  Status made;
};

TEST_F(FakeRegistrationTest, AllMemoryOfAllRailsIsWrittenInAnyOrder) {
  const auto rails = FakeRails(2);
  const std::string pool = Said("ibv_reg_mr_iova2", kPool | kRelaxed);
  const std::string engine = Said("ibv_reg_mr_iova2", IBV_ACCESS_LOCAL_WRITE | kRelaxed);
  const std::string device = Said("ibv_reg_dmabuf_mr", IBV_ACCESS_LOCAL_WRITE | kRelaxed);
  using Of = Registration::For;
  EXPECT_EQ(Make(*rails, Of::kRemoteRead), (std::vector{pool, pool}));
  EXPECT_EQ(Make(*rails, Of::kLocalWrite), (std::vector{engine, engine}));
  EXPECT_EQ(Make(*rails, Of::kLocalWrite, {.device = true}), (std::vector{engine, engine}));
  EXPECT_EQ(Make(*rails, Of::kLocalWrite, {.fd = 0, .device = true}),
            (std::vector{device, device}));
  EXPECT_EQ((*rails)[0].ordering(), "relaxed");
}

TEST_F(FakeRegistrationTest, TheSwitchTurnsItOff) {
  const auto rails = FakeRails(1, {.relaxed_ordering = false});
  EXPECT_EQ(Make(*rails, Registration::For::kRemoteRead), std::vector{Said("ibv_reg_mr", kPool)});
  EXPECT_EQ(Make(*rails, Registration::For::kLocalWrite, {.fd = 0, .device = true}),
            std::vector{Said("ibv_reg_dmabuf_mr", IBV_ACCESS_LOCAL_WRITE)});
  EXPECT_EQ((*rails)[0].ordering(), "strict");
}

TEST_F(FakeRegistrationTest, AnOldLibraryIsNotAskedForIt) {
  table->reg_mr_iova2 = nullptr;
  const auto rails = FakeRails(1);
  EXPECT_EQ(Make(*rails, Registration::For::kRemoteRead), std::vector{Said("ibv_reg_mr", kPool)});
  EXPECT_THAT((*rails)[0].ordering(), HasSubstr("install rdma-core 28"));
}

TEST_F(FakeRegistrationTest, MemoryIsTriedWithoutItWhereTheKernelDoesNotKnowIt) {
  const auto rails = FakeRails(1);
  using Of = Registration::For;
  const std::string with = Said("ibv_reg_dmabuf_mr", IBV_ACCESS_LOCAL_WRITE | kRelaxed);
  const std::string without = Said("ibv_reg_dmabuf_mr", IBV_ACCESS_LOCAL_WRITE);
  for (const int error : {EINVAL, EOPNOTSUPP}) {
    fake.relaxed_error = error;
    EXPECT_EQ(Make(*rails, Of::kLocalWrite, {.fd = 0, .device = true}),
              (std::vector{with, without}));
    EXPECT_TRUE(made.ok()) << made.ToString();
    EXPECT_THAT((*rails)[0].ordering(), HasSubstr("strict for dma-bufs"));
  }
  for (const int error : {EINVAL, EOPNOTSUPP}) {
    fake.relaxed_error = error;
    EXPECT_EQ(Make(*rails, Of::kRemoteRead),
              (std::vector{Said("ibv_reg_mr_iova2", kPool | kRelaxed), Said("ibv_reg_mr", kPool)}));
    EXPECT_TRUE(made.ok()) << made.ToString();
  }
  EXPECT_THAT((*rails)[0].ordering(), HasSubstr("strict: the device's driver refuses"));
  fake.relaxed_error = EREMOTEIO;
  EXPECT_EQ(Make(*rails, Of::kLocalWrite, {.fd = 0, .device = true}), std::vector{with})
      << "it is refused for another reason";
  EXPECT_THAT(made.message(), HasSubstr("PCIe"));
}

// An engine's pool of hundreds of gigabytes is registered for minutes, rail by rail.
TEST_F(FakeRegistrationTest, PagesOfALargeRangeComeOverTheFirstRailThatKnowsIt) {
  const auto rails = FakeRails(3);
  TestHolder holder(rails.get(), 2 << 20);
  const auto memory = TestMemory(size_t{65} << 20);
  RegisteredMemory registered;
  fake.registers = fake.registrations().size() + 1;
  std::thread registering([&] {
    const auto id = registered.Register("engine", memory->bytes(), *rails,
                                        Registration::For::kLocalWrite, memory);
    EXPECT_TRUE(id.ok()) << id.status().ToString();
  });
  const auto known_to = [&](size_t rail) {
    const auto ranges = registered.ranges();
    return !ranges->empty() && ranges->front()->KnownTo(rail) != nullptr;
  };
  const TimePoint end = Clock::now() + std::chrono::seconds(20);
  while (!known_to(0) && Clock::now() < end) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_TRUE(known_to(0));
  EXPECT_FALSE(known_to(1) || known_to(2));
  if (known_to(0)) {
    auto channel = ReadChannel::Make(*rails, ~0u);
    ConnectOk answer;
    const auto queues = AcceptNow(&holder.acceptor(), (*channel)->request(), &answer);
    EXPECT_TRUE((*channel)->Establish(answer, end).ok());
    PageRead page = holder.Put(1 << 20);
    // Also where its header lands.
    const auto headers = std::span(reinterpret_cast<SlotHeader*>(memory->data()), 2);
    const Bytes to = memory->bytes().subspan(4096, 1 << 20);
    page.to = std::span(&to, 1);
    PageState state = PageState::kPending;
    const auto ranges = registered.ranges();
    (*channel)->Begin(std::span(&page, 1), *ranges, headers, std::span(&state, 1),
                      std::chrono::seconds(2), Clock::now());
    const RunningRead running{channel->get(), -1};
    RunReads(std::span(&running, 1), {end, {}});
    EXPECT_EQ(state, PageState::kRead);
    EXPECT_EQ((*channel)->queues(), 3u) << "the others are kept";
  }
  fake.registers = SIZE_MAX;
  registering.join();
  EXPECT_TRUE(known_to(0) && known_to(1) && known_to(2));
}

TEST_F(FakeRegistrationTest, TheHelpersOfAllRegistrationsTogetherAreBounded) {
  constexpr size_t kRegions = 16;
  const auto rails = FakeRails(3);
  const auto memory = TestMemory(1 << 20);
  RegisteredMemory registered;
  static std::atomic<bool> held{true};
  static std::atomic<size_t> asked{0};
  static thread_local bool asks = false;
  static const auto really = known;
  table->reg_mr_iova2 = [](ibv_pd* pd, void* address, size_t length, uint64_t iova,
                           unsigned access) {
    if (std::exchange(asks, false)) ++asked;
    while (held) std::this_thread::sleep_for(milliseconds(1));
    return really(pd, address, length, iova, access);
  };
  const auto threads = [] {
    using Entries = std::filesystem::directory_iterator;
    return static_cast<size_t>(std::distance(Entries("/proc/self/task"), Entries()));
  };
  const size_t before = threads();
  std::vector<std::thread> regions;
  for (size_t i = 0; i < kRegions; ++i) {
    regions.emplace_back([&] {
      asks = true;
      const auto id = registered.Register("engine", memory->bytes(), *rails,
                                          Registration::For::kLocalWrite, memory);
      EXPECT_TRUE(id.ok()) << id.status().ToString();
    });
  }
  // Who asks for a part itself has the helpers that it gets.
  EXPECT_TRUE(testing::Eventually([&] { return asked == kRegions; }));
  EXPECT_EQ(threads() - before, kRegions + 12);
  held = false;
  for (std::thread& region : regions) region.join();
}

TEST_F(FakeRegistrationTest, MemoryIsRegisteredWithoutHelpersWhereNoThreadCanBeStarted) {
  const auto rails = FakeRails(3);
  const auto pool = TestMemory(1 << 20), engine = TestMemory(size_t{65} << 20);
  RegisteredMemory registered;
  using Of = Registration::For;
  {
    const testing::NoMoreThreads none;
    // By the helpers for parts, and by those for rails.
    EXPECT_TRUE(registered.Register("pool", pool->bytes(), *rails, Of::kRemoteRead, pool).ok());
    EXPECT_TRUE(
        registered.Register("engine", engine->bytes(), *rails, Of::kLocalWrite, engine).ok());
  }
  const auto ranges = registered.ranges();
  ASSERT_EQ(ranges->size(), 2u);
  for (const auto& range : *ranges)
    for (size_t rail = 0; rail < rails->size(); ++rail)
      EXPECT_NE(range->KnownTo(rail), nullptr) << range->what() << " of rail " << rail;
}

}  // namespace
}  // namespace peercache::rdma
