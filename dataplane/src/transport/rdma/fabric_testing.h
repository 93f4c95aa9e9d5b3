// Two ends of RDMA reads in one process, over this machine's devices: for tests that run where
// there are some (hack/lab/soft-rdma). PEERCACHE_TEST_RAILS lists them, as device-name does.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/memory.h"
#include "pool/slot_header.h"
#include "transport/rdma/acceptor.h"
#include "transport/rdma/find_rails.h"
#include "transport/rdma/memory.h"
#include "transport/rdma/rail.h"
#include "transport/rdma/read_channel.h"
#include "transport/rdma/run_reads.h"
#ifdef PEERCACHE_FAKE_DEVICE
#include "transport/rdma/fake/fake_verbs.h"
#endif

namespace peercache::rdma {

inline std::vector<RailSpec> FindTestRails() {
  const char* names = std::getenv("PEERCACHE_TEST_RAILS");
  EXPECT_NE(names, nullptr) << "PEERCACHE_TEST_RAILS names no devices";
  auto rails = FindRails(names == nullptr ? "" : names, "auto");
  EXPECT_TRUE(rails.ok()) << rails.status().ToString();
  return rails.ok() ? std::move(*rails) : std::vector<RailSpec>();
}

// Objects of one kind that the kernel keeps for programs, of which this is the only one.
#ifdef PEERCACHE_FAKE_DEVICE
inline size_t CountOf(const char* kind) { return FakeVerbs::Get().objects(kind); }
#else
inline size_t CountOf(const char* kind) {
  const std::string command = fmt::format("rdma resource show {}", kind);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  size_t count = 0;
  for (char line[512]; fgets(line, sizeof(line), pipe.get()) != nullptr;)
    count += std::string(line).find("comm [ib_core]") == std::string::npos;
  return count;
}
#endif
inline size_t OpenFiles() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

// The network interface that a rail speaks through.
inline std::string InterfaceOf(const RailSpec& rail) {
  const Device device = ReadDevice(SystemSources(), rail.device);
  for (const Port& port : device.ports)
    if (!port.gids.empty()) return port.gids.front().interface;
  ADD_FAILURE() << rail.device << " has no GIDs";
  return "";
}

inline std::unique_ptr<Rails> OpenTestRails() {
  auto rails = Rails::Open(FindTestRails(), {});
  EXPECT_TRUE(rails.ok()) << rails.status().ToString();
  return std::move(*rails);
}

// Rails whose devices report smaller limits than they have, or addresses that nobody looked up.
class RailTesting {
 public:
  static void Limit(const Rails& rails, uint64_t max_mr_size) {
    for (const auto& rail : rails.all()) rail->max_mr_size_ = max_mr_size;
  }
  static void See(Rail* rail, RailAddress address) {
    rail->state_.See({std::move(address), WaitsFor::kNothing});
  }
  static void Down(Rail* rail) { rail->state_.See({Unavailable("a test"), WaitsFor::kPort}); }
  template <typename Change>
  static void Limit(const Rails& rails, const Change& change) {
    for (const auto& rail : rails.all())
      change(&const_cast<DeviceContext&>(*rail->device()).limits);
  }
};

inline std::shared_ptr<MappedRegion> TestMemory(size_t bytes) {
  auto region = MappedRegion::Create("test", bytes, HugePages::kOff);
  EXPECT_TRUE(region.ok()) << region.status().ToString();
  return std::make_shared<MappedRegion>(std::move(*region));
}

// A node that holds pages: a pool with slots one after another, and who may read it.
class TestHolder {
 public:
  TestHolder(const Rails* rails, size_t pool_bytes) : memory_(TestMemory(pool_bytes)) {
    const auto s = registered.Register("pool", memory_->bytes(), *rails,
                                       Registration::For::kRemoteRead, memory_);
    EXPECT_TRUE(s.ok()) << s.status().ToString();
    acceptor_ = std::make_unique<Acceptor>(rails, &registered, memory_->bytes(), 4096);
  }
  // A page of random bytes; `read.to` is left to the caller.
  PageRead Put(uint32_t length) {
    PageRead read;
    random_.seed(seed_++);
    for (auto& byte : read.key.bytes) byte = static_cast<uint8_t>(random_());
    read.offset = used_;
    read.generation = seed_;
    read.length = length;
    SlotHeader header;
    header.length = length;
    header.key = read.key;
    header.generation = read.generation;
    EXPECT_LE(used_ + sizeof(header) + length, memory_->size());
    std::memcpy(memory_->data() + used_, &header, sizeof(header));
    for (uint32_t i = 0; i < length; i += 4) {
      const auto word = static_cast<uint32_t>(random_());
      std::memcpy(memory_->data() + used_ + sizeof(header) + i, &word,
                  std::min<size_t>(4, length - i));
    }
    used_ += (sizeof(header) + length + 63) / 64 * 64;
    return read;
  }
  std::span<const std::byte> Payload(const PageRead& read) const {
    return memory_->bytes().subspan(read.offset + sizeof(SlotHeader), read.length);
  }
  Acceptor& acceptor() { return *acceptor_; }

  RegisteredMemory registered;

 private:
  std::shared_ptr<MappedRegion> memory_;
  std::unique_ptr<Acceptor> acceptor_;
  std::mt19937 random_;
  uint32_t seed_ = 1;
  size_t used_ = 0;
};

// Memory that pages are read into, and headers.
struct TestReader {
  TestReader(const Rails* rails, size_t bytes) : memory(TestMemory(bytes + kHeaderBytes)) {
    const auto s = registered.Register("reader", memory->bytes(), *rails,
                                       Registration::For::kLocalWrite, memory);
    EXPECT_TRUE(s.ok()) << s.status().ToString();
  }
  static constexpr size_t kHeaderBytes = 1024 * sizeof(SlotHeader);
  std::span<SlotHeader> headers() const {
    return {reinterpret_cast<SlotHeader*>(memory->data()), 1024};
  }
  Bytes bytes() const { return memory->bytes().subspan(kHeaderBytes); }

  std::shared_ptr<MappedRegion> memory;
  RegisteredMemory registered;
};

// Asks until the acceptor has an answer.
inline Result<Acceptor::Queues> AcceptNow(Acceptor* acceptor, const ConnectRequest& request,
                                          ConnectOk* answer) {
  auto queues = acceptor->Accept(request, answer);
  while (queues.ok() && answer->later) {
    std::this_thread::yield();
    queues = acceptor->Accept(request, answer);
  }
  return queues;
}

struct TestConnection {
  Acceptor::Queues queues;  // the holder's
  std::unique_ptr<ReadChannel> channel;
};

// Connects; `tamper` may change what the holder answers.
template <typename Tamper>
Result<TestConnection> Connect(const Rails& rails, Acceptor* acceptor, const TestReader& reader,
                               const Tamper& tamper) {
  auto channel = ReadChannel::Make(rails, ~0u);
  if (!channel.ok()) return channel.status();
  ConnectOk answer;
  auto queues = AcceptNow(acceptor, (*channel)->request(), &answer);
  if (!queues.ok()) return queues.status();
  tamper(&answer);
  if (Status s = (*channel)->Establish(answer, Clock::now() + std::chrono::seconds(5)); !s.ok())
    return s;
  const Status probed =
      (*channel)->Probe(std::as_writable_bytes(reader.headers()), *reader.registered.ranges(),
                        Clock::now() + std::chrono::seconds(5));
  if (!probed.ok()) return probed;
  return TestConnection{std::move(*queues), std::move(*channel)};
}
template <typename Tamper>
Result<TestConnection> Connect(const Rails& rails, TestHolder* holder, const TestReader& reader,
                               const Tamper& tamper) {
  return Connect(rails, &holder->acceptor(), reader, tamper);
}
inline Result<TestConnection> Connect(const Rails& rails, TestHolder* holder,
                                      const TestReader& reader) {
  return Connect(rails, holder, reader, [](ConnectOk*) {});
}

inline std::vector<PageState> ReadAll(ReadChannel* channel, const TestReader& reader,
                                      std::span<const PageRead> pages,
                                      Duration stall = std::chrono::seconds(2)) {
  std::vector<PageState> states(pages.size());
  const auto ranges = reader.registered.ranges();
  channel->Begin(pages, *ranges, reader.headers().first(2 * pages.size()), states, stall,
                 Clock::now());
  const RunningRead running{channel, -1};
  RunReads(std::span(&running, 1), {Clock::now() + std::chrono::seconds(20), {}});
  return states;
}

}  // namespace peercache::rdma
