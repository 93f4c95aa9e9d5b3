#include "disk/io_engines.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/patience_testing.h"
#include "base/refused_syscall_testing.h"
#include "base/temp_dir_testing.h"
#include "disk/aligned.h"

namespace peercache::disk {
namespace {

constexpr unsigned kDepth = 64;

// On a real file under direct I/O: the folder of tests is on the machine's disk.
class IoEngineTest : public ::testing::TestWithParam<IoKind> {
 protected:
  IoEngineTest() {
    const std::string path = folder_.path() + "/file";
    fd_.Reset(open(path.c_str(), O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600));
  }
  bool Make() {
    if (!fd_) return false;  // no direct I/O there
    Result<ChosenIo> io = ChooseIo(GetParam(), fd_.get(), kDepth);
    if (!io.ok()) return false;
    engine_ = std::move(io->engine);
    return true;
  }
  // Ends all of them.
  void Run(std::vector<IoRequest*> requests) {
    engine_->Submit(requests);
    std::array<IoRequest*, 8> ended;
    for (size_t left = requests.size(); left != 0;) {
      const size_t count = engine_->Wait(ended, peercache::testing::kEndsAHang);
      ASSERT_NE(count, 0u) << left << " have not ended";
      left -= count;
    }
  }

  peercache::testing::TempDir folder_{"/var/tmp"};
  UniqueFd fd_;
  std::unique_ptr<IoEngine> engine_;
};

TEST_P(IoEngineTest, WritesSyncsAndReadsManyAtOnce) {
  if (!Make()) GTEST_SKIP() << "not on this machine";
  EXPECT_EQ(engine_->name(), IoKindName(GetParam()));
  std::array<AlignedBuffer, kDepth> buffers;
  std::array<IoRequest, kDepth> requests;
  std::vector<IoRequest*> all;
  for (size_t i = 0; i < kDepth; ++i) {
    buffers[i] = AlignedBuffer(2 * kBlock);
    std::memset(buffers[i].data(), static_cast<int>(i + 1), 2 * kBlock);
    requests[i].Set(IoRequest::Op::kWrite, buffers[i].data(), 2 * kBlock, i * 2 * kBlock);
    all.push_back(&requests[i]);
  }
  Run(all);
  for (const IoRequest& request : requests) EXPECT_EQ(request.result, 2 * kBlock);
  IoRequest sync;
  sync.Set(IoRequest::Op::kSync, nullptr, 0, 0);
  Run({&sync});
  EXPECT_EQ(sync.result, 0);
  // Into two parts each, the second one first.
  for (size_t i = 0; i < kDepth; ++i) {
    std::memset(buffers[i].data(), 0, 2 * kBlock);
    requests[i].Set(IoRequest::Op::kRead, buffers[i].data() + kBlock, kBlock, i * 2 * kBlock);
    requests[i].part[1] = {buffers[i].data(), kBlock};
    requests[i].parts = 2;
  }
  Run(all);
  for (size_t i = 0; i < kDepth; ++i) {
    EXPECT_EQ(requests[i].result, 2 * kBlock);
    EXPECT_EQ(buffers[i].data()[0], std::byte(i + 1));
    EXPECT_EQ(buffers[i].data()[2 * kBlock - 1], std::byte(i + 1));
  }
}

TEST_P(IoEngineTest, SaysWhatTheKernelRefuses) {
  if (!Make()) GTEST_SKIP() << "not on this machine";
  AlignedBuffer buffer(2 * kBlock);
  IoRequest written, unaligned, behind;
  written.Set(IoRequest::Op::kWrite, buffer.data(), 2 * kBlock, 0);
  Run({&written});
  unaligned.Set(IoRequest::Op::kRead, buffer.data() + 1, kBlock, 1);
  behind.Set(IoRequest::Op::kRead, buffer.data(), kBlock, 1 << 20);
  Run({&unaligned, &behind});
  EXPECT_EQ(unaligned.result, -EINVAL);
  EXPECT_EQ(behind.result, 0) << "behind the end of the file";
}

TEST_P(IoEngineTest, WaitsNoLongerThanItMay) {
  if (!Make()) GTEST_SKIP() << "not on this machine";
  std::array<IoRequest*, 1> ended;
  const TimePoint before = Clock::now();
  EXPECT_EQ(engine_->Wait(ended, milliseconds(20)), 0u);
  EXPECT_GE(Clock::now() - before, milliseconds(5));
  EXPECT_LT(Clock::now() - before, peercache::testing::kEndsAHang);
}

INSTANTIATE_TEST_SUITE_P(Kinds, IoEngineTest,
                         ::testing::Values(IoKind::kUring, IoKind::kAio, IoKind::kThreads),
                         [](const auto& kind) { return std::string(IoKindName(kind.param)); });

// A pipe that is full: a write may wait in io_submit for as long as it likes.
TEST(AioTest, AWriteThatWaitsKeepsNobodyFromReading) {
  constexpr size_t kBytes = 1 << 20, kRead = 16 << 10;
  peercache::testing::TempDir folder{"/var/tmp"};
  const std::string path = folder.path() + "/pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  Result<ChosenIo> io = ChooseIo(IoKind::kAio, fd.get(), kDepth);
  if (!io.ok()) GTEST_SKIP() << io.status().message();
  AlignedBuffer written(kBytes), back(kRead);
  IoRequest write, read;
  write.Set(IoRequest::Op::kWrite, written.data(), kBytes, 0);
  std::atomic<bool> submitted{false};
  std::thread submitter([&] {
    IoRequest* const requests[] = {&write};
    io->engine->Submit(requests);
    submitted = true;
  });
  EXPECT_TRUE(peercache::testing::Eventually([&] { return submitted.load(); }));
  std::array<IoRequest*, 8> ended;
  bool write_ended = false;
  for (size_t sum = 0; sum < kBytes || !write_ended;) {
    bool reading = sum < kBytes;
    if (reading) {
      read.Set(IoRequest::Op::kRead, back.data(), kRead, 0);
      IoRequest* const requests[] = {&read};
      io->engine->Submit(requests);
    }
    do {
      const size_t count = io->engine->Wait(ended, peercache::testing::kEndsAHang);
      ASSERT_NE(count, 0u);
      for (size_t i = 0; i < count; ++i) {
        write_ended |= ended[i] == &write;
        if (ended[i] != &read) continue;
        ASSERT_GT(read.result, 0);
        sum += static_cast<size_t>(read.result);
        reading = false;
      }
    } while (reading);
  }
  EXPECT_EQ(write.result, static_cast<int64_t>(kBytes));
  submitter.join();
}

// As in a pod under containerd's profile.
TEST(ChooseIoTest, SaysWhyItTookAnother) {
  peercache::testing::TempDir folder{"/var/tmp"};
  const std::string path = folder.Write("file", "x");
  const UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  std::thread([&] {
    ASSERT_TRUE(peercache::testing::RefuseInThisThread(SYS_io_uring_setup));
    Result<ChosenIo> io = ChooseIo(IoKind::kAuto, fd.get(), kDepth);
    ASSERT_TRUE(io.ok());
    EXPECT_EQ(io->engine->name(), "aio");
    EXPECT_NE(io->reason.find("aio, because io_uring is not allowed here"), std::string::npos)
        << io->reason;
    Result<ChosenIo> uring = ChooseIo(IoKind::kUring, fd.get(), kDepth);
    ASSERT_FALSE(uring.ok());
    EXPECT_NE(uring.status().message().find("write disk-io auto"), std::string::npos);

    ASSERT_TRUE(peercache::testing::RefuseInThisThread(SYS_io_setup));
    io = ChooseIo(IoKind::kAuto, fd.get(), kDepth);
    ASSERT_TRUE(io.ok());
    EXPECT_EQ(io->engine->name(), "threads");
  }).join();
}

TEST(ChooseIoTest, NamesWhatItKnows) {
  EXPECT_EQ(ParseIoKind("aio").value(), IoKind::kAio);
  const Result<IoKind> wrong = ParseIoKind("spdk");
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.status().message(), "disk-io \"spdk\": write auto, io_uring, aio or threads");
}

}  // namespace
}  // namespace peercache::disk
