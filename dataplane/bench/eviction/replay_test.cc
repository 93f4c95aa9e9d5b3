#include "bench/eviction/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>

#include "base/one_thread_testing.h"

namespace peercache::bench {
namespace {

using ::testing::HasSubstr;

[[maybe_unused]] const bool kOneThread = peercache::testing::OneThread::In(__FILE__);

class TraceFile {
 public:
  TraceFile() : path_(::testing::TempDir() + "peercache-trace-" + std::to_string(::getpid())) {}
  ~TraceFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }
  void Write(const std::string& text) { std::ofstream(path_) << text; }

 private:
  const std::string path_;
};

Trace Generate(const std::string& arguments) {
  TraceFile file;
  const std::string command =
      "python3 " PEERCACHE_SESSIONS " " + arguments + " > '" + file.path() + "'";
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  auto trace = ReadTrace(file.path());
  EXPECT_TRUE(trace.ok()) << trace.status().ToString();
  return trace.ok() ? *trace : Trace{};
}

ReplayResult RunTrace(const Trace& trace, double share, EvictionPolicy policy) {
  auto result = Replay(trace, share, policy);
  EXPECT_TRUE(result.ok()) << result.status().ToString();
  return *result;
}

TEST(Trace, ReadsWhatIsWritten) {
  TraceFile file;
  file.Write("# by hand\nc 0:3 10:2 +12:4\nd 20:1\nc\n");
  auto trace = ReadTrace(file.path());
  ASSERT_TRUE(trace.ok()) << trace.status().ToString();
  EXPECT_EQ(trace->origin, "by hand");
  ASSERT_EQ(trace->requests.size(), 3u);
  EXPECT_EQ(trace->requests[0].prompt[1].first, 10u);
  EXPECT_EQ(trace->requests[0].answer.count, 4u);
  EXPECT_EQ(trace->footprint, 10u);
  EXPECT_EQ(trace->page_numbers, 21u);
}

TEST(Trace, NamesTheLineThatIsWrong) {
  for (const char* line : {"x 0:3", "c 0", "c 0:", "c :3", "c 0:3x", "c -1:3", "c 4294967295:1"}) {
    TraceFile file;
    file.Write("c 0:1\n" + std::string(line) + "\n");
    const auto trace = ReadTrace(file.path());
    ASSERT_FALSE(trace.ok()) << line;
    EXPECT_THAT(trace.status().message(), HasSubstr(file.path() + ":2: \"" + line));
  }
  EXPECT_FALSE(ReadTrace("/does/not/exist").ok());
}

TEST(Trace, TheSameSeedGivesTheSameTrace) {
  const Trace a = Generate("--requests 200 --seed 7"), b = Generate("--requests 200 --seed 7"),
              c = Generate("--requests 200 --seed 8");
  EXPECT_EQ(a.requests.size(), 200u);
  EXPECT_EQ(a.footprint, b.footprint);
  EXPECT_NE(a.footprint, c.footprint);
}

TEST(ReplayBest, KeepsWhatIsAskedForNext) {
  TraceFile file;
  file.Write("c 1:1\nc 2:1\nc 3:1\nc 1:1\nc 2:1\nc 4:1 +5:1\nc 1:1\nc 5:1\n");
  const Trace trace = ReadTrace(file.path()).value();
  EXPECT_EQ(ReplayBest(trace, 1).page_hits, 2u);
  EXPECT_EQ(ReplayBest(trace, 2).page_hits, 4u);
  EXPECT_EQ(ReplayBest(trace, 9).page_hits, 4u);
  EXPECT_EQ(ReplayBest(trace, 0).page_hits, 0u);
}

TEST(Replay, APoolThatHoldsAllMissesOnlyTheFirstTime) {
  TraceFile file;
  file.Write("c 0:10 +10:5\nc 0:15\nc 0:12 40:3\nc 40:1 50:1 0:5\n");
  const Trace trace = ReadTrace(file.path()).value();
  const ReplayResult result = RunTrace(trace, 1, EvictionPolicy::kLru);
  EXPECT_EQ(result.pages, 10u + 15 + 15 + 7);
  EXPECT_EQ(result.page_hits, 15u + 12 + 6);
  EXPECT_EQ(result.prefix_hits, 15u + 12 + 1);
  EXPECT_EQ(result.evictions, 0u);
}

// The figures of docs/dev/performance.md in small. The margins hold for each of ten seeds.
TEST(Policies, S3FifoKeepsMoreThanLruWhenDocumentsFloodThePool) {
  const Trace trace = Generate("--requests 2000 --seed 1 --documents 0.12");
  for (const auto& [share, margin] :
       {std::pair(0.02, 0.025), std::pair(0.05, 0.015), std::pair(0.1, 0.01)}) {
    const ReplayResult lru = RunTrace(trace, share, EvictionPolicy::kLru),
                       s3fifo = RunTrace(trace, share, EvictionPolicy::kS3Fifo),
                       best = ReplayBest(trace, lru.capacity);
    std::cout << share << " of the pages fit: prefix hits " << lru.prefix_ratio() << " with lru, "
              << s3fifo.prefix_ratio() << " with s3fifo, at most " << best.page_ratio() << "\n";
    EXPECT_GT(lru.evictions, 100000u) << "nothing was decided here";
    EXPECT_GE(s3fifo.prefix_ratio(), lru.prefix_ratio() + margin) << share;
    EXPECT_LT(s3fifo.page_ratio(), best.page_ratio());
  }
}

TEST(Policies, S3FifoLosesLittleToLruWithoutThem) {
  const Trace trace = Generate("--requests 2000 --seed 1");
  for (double share : {0.02, 0.1}) {
    const ReplayResult lru = RunTrace(trace, share, EvictionPolicy::kLru),
                       s3fifo = RunTrace(trace, share, EvictionPolicy::kS3Fifo);
    std::cout << share << " of the pages fit: prefix hits " << lru.prefix_ratio() << " with lru, "
              << s3fifo.prefix_ratio() << " with s3fifo\n";
    EXPECT_GT(lru.evictions, 10000u) << "nothing was decided here";
    EXPECT_GE(s3fifo.prefix_ratio(), lru.prefix_ratio() - 0.01) << share;
    EXPECT_LT(lru.page_ratio(), ReplayBest(trace, lru.capacity).page_ratio());
  }
}

}  // namespace
}  // namespace peercache::bench
