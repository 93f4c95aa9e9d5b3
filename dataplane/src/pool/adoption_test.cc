// A pool that is a file, and the one that comes after it.
#include "pool/adoption.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "pool/pool_file_testing.h"

namespace peercache {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kPage = 64 * kKiB;

uint64_t Dropped(const Pool& pool, AdoptionDrop why) {
  return pool.adoption().dropped[static_cast<size_t>(why)];
}

// Runs `work` with a pool of its own in a process of its own, which `signal` ends.
template <typename Work>
void InAProcess(const PoolFolder& folder, int signal, const Work& work) {
  const pid_t pid = fork();
  if (pid == 0) {
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    for (const int fault : {SIGSEGV, SIGABRT, SIGBUS}) ::signal(fault, SIG_DFL);  // no sanitizer's
    CrashMark::Install();
    const auto pool = folder.Start();
    work(*pool);
    raise(signal);
    _exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status)) << status;
}

TEST(AdoptionTest, PagesOutliveTheProcess) {
  const PoolFolder folder;
  InAProcess(folder, SIGKILL, [](Pool& pool) {
    EXPECT_EQ(pool.adoption().start, PoolStart::kNew);
    for (uint64_t n = 0; n < 50; ++n) Put(pool, n, n % 2 == 0 ? kPage : 5000, 7);
    Put(pool, 50, 2 * kMiB);
  });
  const auto pool = folder.Start();
  EXPECT_EQ(pool->adoption().start, PoolStart::kAdopted);
  EXPECT_EQ(pool->adoption().pages, 51u);
  EXPECT_EQ(pool->adoption().bytes, 25 * kPage + 25 * 5000 + 2 * kMiB);
  EXPECT_EQ(pool->stats().pages, 51u);
  EXPECT_EQ(pool->stats().payload_bytes, pool->adoption().bytes);
  for (uint64_t n = 0; n <= 50; ++n) {
    const PagePin pin = pool->Find(KeyOf(n));
    EXPECT_TRUE(IsPageOf(pin, KeyOf(n))) << n;
    EXPECT_TRUE(pool->FindAt(pin.offset(), pin.header().generation, KeyOf(n)));
  }
  size_t busy = 0;
  EXPECT_EQ(pool->TakeTagged(7, &busy).size(), 50u);
  EXPECT_EQ(busy, 0u);
}

TEST(AdoptionTest, OnlyWhatWasReadyComesBack) {
  const PoolFolder folder;
  InAProcess(folder, SIGKILL, [](Pool& pool) {
    for (uint64_t n = 0; n < 20; ++n) Put(pool, n, kPage, n < 15 ? 1 : 2);
    (void)pool.TakeVictims(2 * (kPage + 512), kPage);           // 0 and 1: being withdrawn
    const auto resting = pool.TakeVictims(kPage + 512, kPage);  // 2
    pool.Quarantine(resting.at(0), Clock::now() + std::chrono::hours(1));
    (void)pool.TakeTagged(2, nullptr);  // 15 to 19
    auto half = pool.Reserve(kPage);
    Fill(half->payload().first(kPage / 2), KeyOf(100));
    bool duplicate = false;
    Put(pool, 3, kPage);
    EXPECT_FALSE(pool.Commit(Reservation(), KeyOf(4), 0, 0, &duplicate));
    raise(SIGKILL);
  });
  const auto pool = folder.Start();
  EXPECT_EQ(pool->adoption().pages, 12u);
  EXPECT_EQ(Dropped(*pool, AdoptionDrop::kWithdrawn), 8u);
  EXPECT_EQ(Dropped(*pool, AdoptionDrop::kWriting), 1u);
  EXPECT_EQ(Dropped(*pool, AdoptionDrop::kHeader), 0u);
  for (uint64_t n = 0; n < 20; ++n)
    EXPECT_EQ(static_cast<bool>(pool->Find(KeyOf(n))), n >= 3 && n < 15) << n;
  EXPECT_FALSE(pool->Find(KeyOf(100)));
  // Headers of slots without a page are void, and stay so for a third process.
  uint64_t valid = 0;
  for (size_t at = kSlotLead; at + sizeof(SlotHeader) <= pool->size(); at += 512)
    valid += reinterpret_cast<const SlotHeader*>(pool->base() + at)->magic == SlotHeader::kMagic &&
             reinterpret_cast<const SlotHeader*>(pool->base() + at)->generation != 0;
  EXPECT_EQ(valid, 12u);
}

TEST(AdoptionTest, GenerationsAndIncarnationsGoOn) {
  const PoolFolder folder;
  uint64_t generation = 0;
  {
    const auto pool = folder.Start();
    Put(*pool, 1, kPage);
    generation = Put(*pool, 2, kPage).header().generation;
    Evict(*pool, SIZE_MAX, kPage);  // no header says it any more
    EXPECT_EQ(pool->file()->Incarnation(1000), 1000u);
  }
  const auto pool = folder.Start();
  EXPECT_GT(Put(*pool, 1, kPage).header().generation, generation);
  EXPECT_EQ(pool->file()->Incarnation(900), 1001u);
  EXPECT_EQ(pool->file()->Incarnation(2000), 2000u);
}

TEST(AdoptionTest, NoSlotIsWrittenBeforeTheRestIsOver) {
  const PoolFolder folder;
  const auto rest = std::chrono::hours(1);
  {
    const auto pool = folder.Start(16 * kMiB, {{"node", "a"}}, rest);
    EXPECT_TRUE(Put(*pool, 1, kPage)) << "nobody has used a new file";
  }
  const auto pool = folder.Start(16 * kMiB, {{"node", "a"}}, rest);
  EXPECT_TRUE(pool->Find(KeyOf(1)));
  EXPECT_FALSE(Put(*pool, 2, kPage));
  EXPECT_FALSE(Put(*pool, 3, 2 * kMiB)) << "nor is memory that no slot had";
  const TimePoint over = pool->NextReuse();
  EXPECT_GT(over, Clock::now() + rest / 2);
  EXPECT_EQ(pool->Reclaim(over), 0u);
  EXPECT_GT(pool->Reclaim(over + Duration(1)), 10 * kMiB);
  EXPECT_EQ(pool->NextReuse(), TimePoint::max());
  EXPECT_TRUE(Put(*pool, 2, kPage));
}

// Others may still go by what the process before has told them of the file: a page at the same
// place must not pass for that one.
TEST(AdoptionTest, AFileThatIsEmptiedNeedsNoRest) {
  const PoolFolder folder;
  const auto rest = std::chrono::hours(1);
  const auto start = [&](const char* node) {
    return folder.Start(16 * kMiB, {{"node", node}}, rest);
  };
  uint64_t offset = 0, generation = 0;
  {
    const auto pool = start("a");
    const PagePin pin = Put(*pool, 1, kPage);
    offset = pin.offset();
    generation = pin.header().generation;
  }
  for (const char* node : {"b", "a", "b"}) {
    const auto pool = start(node);
    EXPECT_EQ(pool->adoption().start, PoolStart::kDifferent);
    EXPECT_EQ(pool->NextReuse(), TimePoint::max());
    const PagePin pin = Put(*pool, 1, kPage);
    ASSERT_TRUE(pin);
    EXPECT_EQ(pin.offset(), offset) << "or this tests nothing";
    EXPECT_GT(pin.header().generation, generation);
    generation = pin.header().generation;
  }
}

TEST(AdoptionTest, AFileOfAnotherFormatStartsEmptyAtOnceAndSaysSo) {
  const PoolFolder folder;
  const auto start = [&] {
    return folder.Start(16 * kMiB, {{"node", "a"}}, std::chrono::hours(1));
  };
  Put(*start(), 1, kPage);
  {
    std::fstream file(folder.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-static_cast<int64_t>(PoolFile::kTailBytes), std::ios::end);
    const auto tail = file.tellg();
    std::string header(4096, '\0');
    file.read(header.data(), static_cast<std::streamsize>(header.size()));
    const size_t at = header.find("format=");
    ASSERT_NE(at, std::string::npos);
    file.seekp(tail + static_cast<std::streamoff>(at + std::strlen("format=")));
    file.put('1');
  }
  const auto pool = start();
  EXPECT_EQ(pool->adoption().start, PoolStart::kDifferent);
  EXPECT_EQ(pool->adoption().why, "format was 1 and is 3");
  EXPECT_FALSE(pool->Find(KeyOf(1)));
  EXPECT_TRUE(Put(*pool, 1, kPage));
}

// That process's readers go by what it has told them. The one in between may end before they are
// done.
TEST(AdoptionTest, TheLongestRestCountsUntilItHasPassed) {
  constexpr std::chrono::hours kLong{2}, kShort{1};
  const PoolFolder folder;
  const auto start = [&](Duration rest, const char* node = "a") {
    return folder.Start(16 * kMiB, {{"node", node}}, rest);
  };
  (void)start(kLong);
  EXPECT_EQ(start(kShort)->file()->rest(), kLong);
  {
    const TimePoint before = Clock::now();
    const auto pool = start(kShort);
    EXPECT_EQ(pool->file()->rest(), kLong) << "the one before had no time to rest";
    EXPECT_EQ(pool->Reclaim(before + kLong), 0u) << "no slot rests for less than the longest";
    EXPECT_FALSE(Put(*pool, 1, kPage));
    EXPECT_GT(pool->Reclaim(pool->NextReuse() + Duration(1)), 0u);
  }
  EXPECT_EQ(start(kShort)->file()->rest(), kShort) << "nobody has the long one any more";
  EXPECT_EQ(start(kLong)->file()->rest(), kLong);
  (void)start(kShort, "b");
  EXPECT_EQ(start(kShort, "b")->file()->rest(), kShort) << "no page of before has been there";
}

TEST(AdoptionTest, WhatIsBesideTheSlotsIsOfOneProcess) {
  const PoolFolder folder;
  PoolOptions options = folder.Options(16 * kMiB);
  options.beside = 4096;
  for (int process = 0; process < 2; ++process) {
    const auto pool = Pool::Create(options);
    ASSERT_TRUE(pool.ok()) << pool.status().ToString();
    EXPECT_EQ((*pool)->adoption().pages, static_cast<uint64_t>(process));
    EXPECT_TRUE(
        std::ranges::all_of((*pool)->beside(), [](std::byte b) { return b == std::byte{}; }));
    std::ranges::fill((*pool)->beside(), std::byte{1});
    Put(**pool, 1, kPage);
  }
}

TEST(AdoptionTest, ReplicasStayReplicasAndThePageSetFirstGoesFirst) {
  const PoolFolder folder;
  {
    const auto pool = folder.Start();
    for (uint64_t n = 0; n < 10; ++n) Put(*pool, n, kPage);
    Put(*pool, 10, kPage, 0, PageKind::kReplica);
    PagePin adopted = Put(*pool, 11, kPage, 0, PageKind::kReplica);
    pool->Adopt(&adopted, 5);
  }
  const auto pool = folder.Start();
  EXPECT_EQ(pool->stats().replicas, 1u);
  EXPECT_EQ(pool->TakeReplicas(1).at(0).key, KeyOf(10));
  EXPECT_TRUE(pool->TakeReplicas(1).empty());
  for (uint64_t n = 0; n < 3; ++n) EXPECT_EQ(pool->TakeVictims(1, kPage).at(0).key, KeyOf(n));
  EXPECT_EQ(pool->TakeTagged(5, nullptr).size(), 1u);
}

TEST(AdoptionTest, AnyDifferenceStartsEmptyAndSaysWhich) {
  const PoolFolder folder;
  const auto put = [&] { Put(*folder.Start(), 1, kPage); };
  const auto why = [&](size_t bytes, Fingerprint identity) {
    const auto pool = folder.Start(bytes, std::move(identity));
    EXPECT_EQ(pool->adoption().start, PoolStart::kDifferent);
    EXPECT_FALSE(pool->Find(KeyOf(1)));
    EXPECT_TRUE(Put(*pool, 2, kPage));
    return pool->adoption().why;
  };
  put();
  EXPECT_THAT(why(16 * kMiB, {{"node", "b"}}), HasSubstr("node was a and is b"));
  put();
  EXPECT_THAT(why(32 * kMiB, {{"node", "a"}}), HasSubstr("size was "));
  EXPECT_EQ(folder.Start()->adoption().start, PoolStart::kDifferent);
  EXPECT_EQ(folder.Start()->adoption().start, PoolStart::kAdopted);
}

// Memory beside the slots comes, and the file is as long as before: the table of states is of fewer
// chunks, and each of its bytes is at another place.
TEST(AdoptionTest, AnotherLayoutOfTheSameSizeStartsEmpty) {
  const PoolFolder folder;
  PoolOptions options = folder.Options(16 * kMiB);
  Put(*folder.Start(), 1, kPage);
  const auto size = std::filesystem::file_size(folder.path());
  for (const size_t beside : {2 * kMiB, size_t{0}, size_t{2 * kMiB}}) {
    options.beside = beside;
    const auto pool = Pool::Create(options);
    ASSERT_TRUE(pool.ok()) << pool.status().ToString();
    EXPECT_EQ(std::filesystem::file_size(folder.path()), size) << "or this tests nothing";
    EXPECT_EQ((*pool)->memory().bytes().size(), 16 * kMiB) << "or this tests nothing";
    EXPECT_EQ((*pool)->adoption().start, PoolStart::kDifferent);
    EXPECT_THAT((*pool)->adoption().why,
                AllOf(HasSubstr("slots was "), HasSubstr("beside was "), HasSubstr("layout was ")));
    EXPECT_FALSE((*pool)->Find(KeyOf(1)));
    Put(**pool, 1, kPage);
  }
  options.max_page_bytes = kMiB;
  const auto pool = Pool::Create(options);
  ASSERT_TRUE(pool.ok());
  EXPECT_THAT((*pool)->adoption().why, HasSubstr("layout was "));
}

TEST(AdoptionTest, AfterAFaultNothingIsTakenOver) {
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS}) {
    const PoolFolder folder;
    InAProcess(folder, signal, [](Pool& pool) { Put(pool, 1, kPage); });
    const auto pool = folder.Start();
    EXPECT_EQ(pool->adoption().start, PoolStart::kCrashed);
    EXPECT_THAT(pool->adoption().why, HasSubstr(strsignal(signal)));
    EXPECT_FALSE(pool->Find(KeyOf(1)));
    Put(*pool, 1, kPage);
  }
  for (const int signal : {SIGKILL, SIGTERM, SIGINT}) {
    const PoolFolder folder;
    InAProcess(folder, signal, [](Pool& pool) { Put(pool, 1, kPage); });
    EXPECT_TRUE(IsPageOf(folder.Start()->Find(KeyOf(1)), KeyOf(1))) << signal;
  }
}

// Bytes of the file, wherever something that was written is half there or wrong.
TEST(AdoptionTest, ATornFileIsEmptiedOrLosesThePage) {
  const auto begin = [](const PoolFolder& folder) {
    const auto pool = folder.Start();
    return Put(*pool, 1, kPage).offset();
  };
  const auto write = [](const PoolFolder& folder, uint64_t at, uint64_t value, size_t bytes) {
    const UniqueFd fd(open(folder.path().c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(pwrite(fd.get(), &value, bytes, static_cast<off_t>(at)), static_cast<ssize_t>(bytes));
  };
  const auto start_of = [](const PoolFolder& folder) { return folder.Start()->adoption().start; };
  const size_t pages = 16 * kMiB + 0;
  {
    const PoolFolder folder;
    (void)begin(folder);
    const auto size = std::filesystem::file_size(folder.path());
    write(folder, size - PoolFile::kTailBytes, 0, 8);  // the magic number
    EXPECT_EQ(start_of(folder), PoolStart::kDamaged);
    EXPECT_EQ(start_of(folder), PoolStart::kAdopted);
    write(folder, size - PoolFile::kTailBytes + 8, UINT32_MAX, 4);  // the fingerprint's length
    EXPECT_EQ(start_of(folder), PoolStart::kDamaged);
    write(folder, size - PoolFile::kTailBytes + 32 + 3072, UINT64_MAX, 8);  // the rest
    EXPECT_EQ(start_of(folder), PoolStart::kDamaged);
    EXPECT_EQ(start_of(folder), PoolStart::kAdopted);
    ASSERT_EQ(truncate(folder.path().c_str(), 100), 0);
    EXPECT_EQ(start_of(folder), PoolStart::kDamaged);
  }
  {
    const PoolFolder folder;
    (void)begin(folder);
    write(folder, pages, UINT64_MAX, 8);  // the first span
    const auto pool = folder.Start();
    EXPECT_EQ(pool->adoption().start, PoolStart::kDamaged);
    EXPECT_THAT(pool->adoption().why, HasSubstr("chunk 0"));
    EXPECT_EQ(pool->stats().pages, 0u);
    EXPECT_TRUE(Put(*pool, 1, kPage));
  }
  struct {
    size_t field, bytes;
    uint64_t value;
  } const headers[] = {{offsetof(SlotHeader, magic), 4, 0},
                       {offsetof(SlotHeader, length), 4, 0},
                       {offsetof(SlotHeader, length), 4, 2 * kPage},
                       {offsetof(SlotHeader, length), 4, 4000},
                       {offsetof(SlotHeader, generation), 8, 0},
                       {offsetof(SlotHeader, generation), 8, UINT64_MAX}};
  for (const auto& header : headers) {
    const PoolFolder folder;
    write(folder, begin(folder) + header.field, header.value, header.bytes);
    const auto pool = folder.Start();
    EXPECT_EQ(pool->adoption().start, PoolStart::kAdopted);
    EXPECT_EQ(Dropped(*pool, AdoptionDrop::kHeader), 1u);
    EXPECT_FALSE(pool->Find(KeyOf(1)));
    EXPECT_EQ(pool->stats().slots.ready, 0u);
  }
}

TEST(AdoptionTest, NotesAreTheLastOnesThatWereWhole) {
  const PoolFolder folder;
  const auto note = [](char c, size_t length) { return std::vector(length, std::byte(c)); };
  {
    const auto pool = folder.Start();
    EXPECT_TRUE(pool->file()->LoadNote().empty());
    pool->file()->SaveNote(note('a', 10));
    pool->file()->SaveNote(note('b', PoolFile::kMostNote));
    EXPECT_EQ(pool->file()->LoadNote(), note('b', PoolFile::kMostNote));
    pool->file()->SaveNote(note('c', 3));
  }
  EXPECT_EQ(folder.Start()->file()->LoadNote(), note('c', 3));
  // As if the process had been killed while it wrote the last one, which is in the first place.
  const UniqueFd fd(open(folder.path().c_str(), O_WRONLY | O_CLOEXEC));
  const auto size = static_cast<off_t>(std::filesystem::file_size(folder.path()));
  ASSERT_EQ(pwrite(fd.get(), "x", 1, size - static_cast<off_t>(PoolFile::kTailBytes) + 4096 + 20),
            1);
  EXPECT_EQ(folder.Start()->file()->LoadNote(), note('b', PoolFile::kMostNote));
}

TEST(AdoptionTest, HugePagesMustBeThoseOfTheFileSystem) {
  const PoolFolder folder;
  PoolOptions options = folder.Options(16 * kMiB);
  options.huge_pages = HugePages::k2Mi;
  const auto pool = Pool::Create(options);
  ASSERT_FALSE(pool.ok());
  EXPECT_THAT(pool.status().message(), AllOf(HasSubstr("huge-pages: 2Mi"), HasSubstr("4Ki")));
}

}  // namespace
}  // namespace peercache
