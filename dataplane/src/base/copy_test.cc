#include "base/copy.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

#include "base/checksum.h"
#include "base/memory.h"

namespace peercache {
namespace {

std::vector<std::byte> Pattern(size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = std::byte(i * 131 >> 2);
  return bytes;
}

// What an engine hands over: a memfd without seals, which it may truncate at any time.
struct Engine {
  static constexpr size_t kSize = 1 << 20;
  int fd = ::memfd_create("engine", MFD_CLOEXEC);
  MappedRegion region;

  Engine() {
    EXPECT_EQ(::ftruncate(fd, kSize), 0);
    auto mapped = MappedRegion::Map(UniqueFd(::dup(fd)), kSize, MapAccess::kReadWrite);
    EXPECT_TRUE(mapped.ok()) << mapped.status().ToString();
    region = std::move(mapped).value();
  }
  ~Engine() { ::close(fd); }
};

TEST(Copy, GathersAndScattersInOrder) {
  const std::vector<std::byte> source = Pattern(1000);
  const ConstBytes all(source);
  const ConstBytes parts[] = {all.subspan(600), {}, all.first(100), all.subspan(100, 500)};
  EXPECT_EQ(TotalSize(parts), 1000u);
  for (auto gather : {&Gather, &GuardedGather}) {
    std::vector<std::byte> page(1000);
    ASSERT_TRUE(gather(page, std::span(parts)));
    EXPECT_TRUE(std::equal(page.begin(), page.begin() + 400, source.begin() + 600));
    EXPECT_TRUE(std::equal(page.begin() + 400, page.end(), source.begin()));
  }
  for (auto scatter : {&Scatter, &GuardedScatter}) {
    std::vector<std::byte> target(1000);
    const Bytes into(target);
    const Bytes pieces[] = {into.subspan(600), {}, into.first(100), into.subspan(100, 500)};
    EXPECT_EQ(TotalSize(pieces), 1000u);
    ASSERT_TRUE(scatter(std::span(pieces), all));
    EXPECT_TRUE(std::equal(target.begin() + 600, target.end(), source.begin()));
    EXPECT_TRUE(std::equal(target.begin(), target.begin() + 600, source.begin() + 400));
  }
}

TEST(Copy, RefusesSegmentsThatDoNotAddUp) {
  const std::vector<std::byte> source = Pattern(100);
  std::vector<std::byte> target(99, std::byte{7});
  const ConstBytes from[] = {source};
  const Bytes to[] = {target};
  for (auto gather : {&Gather, &GuardedGather}) EXPECT_FALSE(gather(target, std::span(from)));
  for (auto scatter : {&Scatter, &GuardedScatter}) EXPECT_FALSE(scatter(std::span(to), source));
  EXPECT_EQ(target, std::vector<std::byte>(99, std::byte{7})) << "something was copied";
}

TEST(CopyGuard, TruncatedMemfdIsAFailedCopy) {
  InstallCopyGuard();
  Engine engine;
  const std::vector<std::byte> page = Pattern(Engine::kSize);
  const Bytes to[] = {engine.region.bytes()};
  const ConstBytes from[] = {engine.region.bytes()};
  std::vector<std::byte> back(Engine::kSize);
  ASSERT_TRUE(GuardedScatter(to, page));
  ASSERT_TRUE(GuardedGather(back, from));
  ASSERT_EQ(back, page);

  ASSERT_EQ(::ftruncate(engine.fd, Engine::kSize / 2), 0);
  for (int i = 0; i < 100; ++i) {  // every fault is caught, not only the first
    ASSERT_FALSE(GuardedScatter(to, page));
    ASSERT_FALSE(GuardedGather(back, from));
  }
  // What is still there is still copied.
  const ConstBytes half[] = {engine.region.bytes().first(Engine::kSize / 2)};
  std::vector<std::byte> first(Engine::kSize / 2);
  ASSERT_TRUE(GuardedGather(first, half));
  EXPECT_TRUE(std::equal(first.begin(), first.end(), page.begin()));
}

TEST(CopyGuard, MovesBetweenPagesThatAreCutDifferently) {
  std::vector<std::byte> from(1000), to(1000);
  for (size_t i = 0; i < from.size(); ++i) from[i] = std::byte(i * 7);
  const std::span<std::byte> f(from), t(to);
  const Bytes in[] = {f.first(100), f.subspan(100, 0), f.subspan(100, 899), f.last(1)};
  const Bytes out[] = {t.first(333), t.subspan(333, 333), t.subspan(666), t.last(0)};
  ASSERT_TRUE(GuardedMove(out, in));
  EXPECT_EQ(from, to);
  EXPECT_FALSE(GuardedMove(std::span(out).first(2), in)) << "sizes differ";
  EXPECT_TRUE(GuardedMove({}, {}));
}

TEST(CopyGuard, ChecksumOfMemoryThatIsGoneFails) {
  InstallCopyGuard();
  Engine engine;
  const ConstBytes whole[] = {engine.region.bytes()};
  uint64_t before = 0, again = 0;
  ASSERT_TRUE(GuardedChecksum(whole, &before));
  EXPECT_EQ(before, Checksum(engine.region.bytes()));
  ASSERT_EQ(::ftruncate(engine.fd, 0), 0);
  EXPECT_FALSE(GuardedChecksum(whole, &again));
}

TEST(CopyGuard, WorksInManyThreadsWhileTheFileChanges) {
  InstallCopyGuard();
  Engine engine;
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> failed = 0, copied = 0;
  std::vector<std::thread> readers;
  for (int t = 0; t < 4; ++t) {
    readers.emplace_back([&] {
      std::vector<std::byte> back(Engine::kSize);
      const ConstBytes from[] = {engine.region.bytes()};
      while (!stop) ++(GuardedGather(back, from) ? copied : failed);
    });
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (off_t size = 0; (copied < 50 || failed < 50) && std::chrono::steady_clock::now() < end;
       size = Engine::kSize - size) {
    ASSERT_EQ(::ftruncate(engine.fd, size), 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  stop = true;
  for (auto& reader : readers) reader.join();
  EXPECT_GE(failed, 50u);
  EXPECT_GE(copied, 50u);
}

TEST(CopyGuardDeathTest, FaultOutsideACopyStillKills) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        // Sanitizers install their own handler; the default action must come through the guard.
        std::signal(SIGBUS, SIG_DFL);
        InstallCopyGuard();
        Engine engine;
        if (::ftruncate(engine.fd, 0) != 0) _exit(1);
        *static_cast<volatile std::byte*>(engine.region.data()) = std::byte{1};
        _exit(2);
      },
      ::testing::KilledBySignal(SIGBUS), "");
}

TEST(CopyGuardDeathTest, FaultOutsideACopyGoesToTheHandlerBefore) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        std::signal(SIGBUS, [](int) { _exit(42); });
        InstallCopyGuard();
        Engine engine;
        if (::ftruncate(engine.fd, 0) != 0) _exit(1);
        *static_cast<volatile std::byte*>(engine.region.data()) = std::byte{1};
        _exit(2);
      },
      ::testing::ExitedWithCode(42), "");
}

}  // namespace
}  // namespace peercache
