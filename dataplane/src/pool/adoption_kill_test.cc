// A process with a pool that is a file is killed again and again, at any instruction, while it
// sets, evicts, clears and reuses. What the next one takes over are whole pages that were in
// service; and of those that were in service and not about to go it takes over all.
//
// PEERCACHE_KILL_ROUNDS: how often (200 in make test-kill FULL=1).
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <new>
#include <random>
#include <thread>
#include <unordered_map>

#include "pool/pool_file_testing.h"

namespace peercache {
namespace {

constexpr uint64_t kKeys = 1 << 14;  // of one round

// What the process says of its pages, in memory that outlives it.
struct Said {
  enum : uint8_t { kNever, kBegun, kCommitted, kGone };
  std::array<std::atomic<uint8_t>, kKeys> page{};
  std::atomic<bool> started{false};
  std::atomic<bool> taking{false};  // some page is on its way out, and not kGone yet
};

class Round {
 public:
  Round(Pool* pool, Said* said, uint64_t first, uint64_t seed)
      : pool_(pool), said_(said), first_(first), random_(seed) {
    for (uint64_t n = 0; n < kKeys; ++n) number_of_[KeyOf(first + n).Word(0)] = n;
  }

  void Run() {
    std::thread writers[] = {std::thread([this] { Write(); }), std::thread([this] { Write(); })};
    said_->started = true;
    for (;;) Remove();
  }

 private:
  // Odd pages are of another class, and of a tag of their own, which is cleared now and then.
  static size_t LengthOf(uint64_t n) { return n % 2 == 0 ? 20 * kKiB : 70 * kKiB; }

  void Write() {
    for (uint64_t n; (n = next_.fetch_add(1)) < kKeys;) {
      auto slot = pool_->Reserve(LengthOf(n));
      while (!slot.ok()) {
        std::this_thread::yield();
        slot = pool_->Reserve(LengthOf(n));
      }
      said_->page[n] = Said::kBegun;
      Fill(slot->payload(), KeyOf(first_ + n));
      bool duplicate = false;
      const PagePin pin = pool_->Commit(std::move(*slot), KeyOf(first_ + n), n % 2, 0, &duplicate);
      uint8_t begun = Said::kBegun;
      said_->page[n].compare_exchange_strong(begun, Said::kCommitted);
    }
    for (;;) std::this_thread::yield();
  }

  void Remove() {
    // The pool stays nearly full.
    if (pool_->FreeBytes(70 * kKiB) > 1 * kMiB && random_() % 1000 != 0)
      return std::this_thread::yield();
    said_->taking = true;
    const auto victims =
        random_() % 20 == 0 ? pool_->TakeTagged(1, nullptr)
                            : pool_->TakeVictims(random_() % (300 * kKiB), LengthOf(random_() % 2));
    for (const Victim& victim : victims)
      if (const auto n = number_of_.find(victim.key.Word(0)); n != number_of_.end())
        said_->page[n->second] = Said::kGone;
    said_->taking = false;
    for (const Victim& victim : victims) pool_->Quarantine(victim, Clock::now());
    pool_->Reclaim(Clock::now() + milliseconds(1));
  }

  Pool* const pool_;
  Said* const said_;
  const uint64_t first_;
  std::mt19937_64 random_;
  std::unordered_map<uint64_t, uint64_t> number_of_;
  std::atomic<uint64_t> next_{0};
};

int Rounds() {
  const char* rounds = getenv("PEERCACHE_KILL_ROUNDS");
  return rounds == nullptr ? 30 : atoi(rounds);
}

TEST(AdoptionKillTest, WhereverAProcessIsKilledTheNextHasItsPagesAndNoOthers) {
  const PoolFolder folder;
  std::random_device device;
  const uint64_t seed = device();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  uint64_t committed = 0, missing_on_their_way = 0, taken_over = 0;
  for (int round = 0; round < Rounds(); ++round) {
    void* memory =
        mmap(nullptr, sizeof(Said), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    auto* said = new (memory) Said;
    const uint64_t first = static_cast<uint64_t>(round) * kKeys, of_round = random();
    const pid_t pid = fork();
    if (pid == 0) {
      const auto pool = folder.Start(8 * kMiB);
      Round(pool.get(), said, first, of_round).Run();
    }
    while (!said->started && waitpid(pid, nullptr, WNOHANG) == 0) usleep(100);
    usleep(static_cast<useconds_t>(random() % 20'000));
    kill(pid, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;

    const auto pool = folder.Start(8 * kMiB);
    ASSERT_EQ(pool->adoption().start, PoolStart::kAdopted) << pool->adoption().why;
    taken_over += pool->adoption().pages;
    pool->ForEachReady([&](const PageInfo& page) {
      const PagePin pin = pool->Find(page.key);
      ASSERT_TRUE(IsPageOf(pin, page.key)) << "round " << round;
    });
    for (uint64_t n = 0; n < kKeys; ++n) {
      const bool there = pool->Contains(KeyOf(first + n));
      switch (said->page[n]) {
        case Said::kNever: ASSERT_FALSE(there) << "nobody has set it"; break;
        case Said::kGone: ASSERT_FALSE(there) << "it was withdrawn or cleared"; break;
        case Said::kBegun: break;
        case Said::kCommitted:
          ++committed;
          if (there) break;
          ASSERT_TRUE(said->taking) << "a page was lost, round " << round;
          ++missing_on_their_way;
      }
    }
    munmap(memory, sizeof(Said));
  }
  EXPECT_GT(committed, 0u);
  std::printf("%d rounds: %lu pages were in service, %lu of them just going; %lu taken over\n",
              Rounds(), committed, missing_on_their_way, taken_over);
}

}  // namespace
}  // namespace peercache
