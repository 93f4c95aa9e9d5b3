// Pages in dma-bufs, as engines with a GPU have them: real ones, of /dev/udmabuf, over real devices
// (hack/lab/soft-rdma brings both). Those devices register no dma-bufs, so what really happens
// there is the path through the host. What devices do that have it is shown with a driver's part
// that is stood in for: it registers the memory behind the dma-buf instead, under the addresses
// that it was given, and the READs land there.
#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>

#include "base/dma_buf.h"
#include "node/integration/node_fabric_testing.h"
#include "transport/rdma/verbs.h"

namespace {

// An exporter that lets nobody map its memory, as NVIDIA's: while set, mapping a dma-buf fails.
std::atomic<bool> exporter_refuses{false};
// One that hands out descriptors that nobody may write to, which /dev/udmabuf cannot.
std::atomic<bool> exported_read_only{false};

}  // namespace

extern "C" void* mmap(void* address, size_t length, int protection, int flags, int fd,
                      off_t offset) noexcept {
  if (exporter_refuses && fd >= 0 && peercache::DmaBufSize(fd).ok()) {
    errno = 524;  // as NVIDIA's open kernel modules do
    return MAP_FAILED;
  }
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, length, protection, flags, fd, offset));
}

extern "C" int fcntl(int fd, int command, ...) {
  va_list rest;
  va_start(rest, command);
  void* const argument = va_arg(rest, void*);
  va_end(rest);
  const auto answer = static_cast<int>(syscall(SYS_fcntl, fd, command, argument));
  const bool read_only = exported_read_only && command == F_GETFL && peercache::DmaBufSize(fd).ok();
  return read_only ? (answer & ~O_ACCMODE) | O_RDONLY : answer;
}

namespace peercache {
namespace {

using nlohmann::json;
using std::chrono::seconds;
using testing::Eventually;
using ::testing::HasSubstr;
using testing::RailBytes;
using testing::TestCluster;
using testing::TestEngine;
using testing::UseRails;

constexpr size_t kPage = 128 << 10, kPages = 16, kBytes = kPages * kPage;
constexpr const char* kRefused =
    "its exporter does not let it be mapped: Operation not supported (errno 95)";
// What the engine says the memory's address is: no memory of this process is there.
constexpr uint64_t kDevice = uint64_t{0x7} << 44;

// Memory of a "device": a memfd, and a dma-buf that stands for the same pages.
struct DeviceMemory {
  DeviceMemory() {
    memory = UniqueFd(memfd_create("device", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(ftruncate(memory.get(), kBytes), 0);
    EXPECT_EQ(fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
    bytes = static_cast<std::byte*>(
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0));
    EXPECT_NE(bytes, MAP_FAILED);
    const UniqueFd maker(open("/dev/udmabuf", O_RDWR | O_CLOEXEC));
    EXPECT_TRUE(maker) << "/dev/udmabuf: " << std::strerror(errno);
    const udmabuf_create create{static_cast<__u32>(memory.get()), UDMABUF_FLAGS_CLOEXEC, 0, kBytes};
    fd = UniqueFd(ioctl(maker.get(), UDMABUF_CREATE, &create));
    EXPECT_TRUE(fd) << "UDMABUF_CREATE: " << std::strerror(errno);
  }
  ~DeviceMemory() { munmap(bytes, kBytes); }
  UniqueFd memory, fd;
  std::byte* bytes = nullptr;
};

// The driver's part of ibv_reg_dmabuf_mr, while it lives.
class StandInDriver {
 public:
  explicit StandInDriver(const DeviceMemory* memory) {
    memory_ = memory;
    registered_ = 0;
    auto* table = const_cast<rdma::Verbs*>(*rdma::Verbs::Load());
    before_ = table->reg_dmabuf_mr;
    void* library = dlopen("libibverbs.so.1", RTLD_NOW);
    reg_mr_iova_ = reinterpret_cast<decltype(reg_mr_iova_)>(dlsym(library, "ibv_reg_mr_iova"));
    EXPECT_NE(reg_mr_iova_, nullptr);
    table->reg_dmabuf_mr = [](ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                              int access) -> ibv_mr* {
      EXPECT_TRUE(DmaBufSize(fd).ok());
      EXPECT_EQ(offset % 4096, iova % 4096) << "the kernel wants that";
      EXPECT_EQ(access, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);
      ++registered_;
      return reg_mr_iova_(pd, memory_->bytes + offset, length, iova, access);
    };
  }
  ~StandInDriver() { const_cast<rdma::Verbs*>(*rdma::Verbs::Load())->reg_dmabuf_mr = before_; }
  static int registered() { return registered_; }

 private:
  static inline const DeviceMemory* memory_ = nullptr;
  static inline std::atomic<int> registered_{0};
  static inline ibv_mr* (*reg_mr_iova_)(ibv_pd*, void*, size_t, uint64_t, int) = nullptr;
  decltype(rdma::Verbs::reg_dmabuf_mr) before_;
};

class DmaBufFabricTest : public ::testing::Test {
 protected:
  DmaBufFabricTest()
      : cluster_([](NodeConfig* config) {
          UseRails(config);
          config->checksums = ChecksumPolicy::kAll;
        }) {
    a_ = cluster_.Start("a");
    b_ = cluster_.Start("b");
    auto client = Client::Connect({.socket = b_->socket(), .timeout = milliseconds(15'000)});
    EXPECT_TRUE(client.ok()) << client.status().ToString();
    client_ = std::move(*client);
  }
  ~DmaBufFabricTest() override { exporter_refuses = exported_read_only = false; }

  Result<DmaBufWays> Register(const DeviceMemory& memory) {
    return client_->RegisterDmaBuf(memory.fd.get(), kDevice, kBytes);
  }
  // Pages [first, first + kPages) into the device memory. Returns how many came; compares them with
  // what a host pool gets.
  static bool HasPage(const std::byte* at, uint64_t number) {
    std::vector<std::byte> want(kPage);
    TestEngine::Fill(want, number);
    return HasRightBytes("page " + std::to_string(number), std::span(at, kPage), want);
  }
  size_t Get(const DeviceMemory& memory, uint64_t first) {
    std::memset(memory.bytes, 0xee, kBytes);
    std::vector<Segment> segments;
    for (size_t i = 0; i < kPages; ++i) {
      segments.push_back({kDevice + i * kPage, kPage / 4});
      segments.push_back({kDevice + i * kPage + kPage / 4, kPage - kPage / 4});
    }
    std::vector<uint8_t> ok(kPages);
    client_->Get(TestEngine::Keys(first, kPages), segments, 2, ok);
    size_t hits = 0;
    for (size_t i = 0; i < kPages; ++i) {
      if (!ok[i]) continue;
      ++hits;
      EXPECT_TRUE(HasPage(memory.bytes + i * kPage, first + i)) << "page " << i;
    }
    return hits;
  }
  bool AllCome(const DeviceMemory& memory, uint64_t first) {
    return Eventually(seconds(20), [&] { return Get(memory, first) == kPages; });
  }

  TestCluster cluster_;
  std::unique_ptr<Node> a_, b_;
  std::unique_ptr<Client> client_;
};

TEST_F(DmaBufFabricTest, ADeviceWithoutItIsNamedAndPagesGoThroughTheHost) {
  TestEngine writer(a_->socket(), kPages, kPage), local(b_->socket(), kPages, kPage);
  ASSERT_EQ(writer.Set(0, kPages), kPages);
  ASSERT_EQ(local.Set(100, kPages), kPages);
  DeviceMemory memory;
  const auto ways = Register(memory);
  ASSERT_TRUE(ways.ok()) << ways.status().ToString();
  EXPECT_FALSE(ways->rdma);
  EXPECT_TRUE(ways->copies);
  EXPECT_THAT(ways->missing, HasSubstr("does not register dma-bufs"));
  EXPECT_THAT(ways->missing, HasSubstr("rxe_a")) << "either rail";
  EXPECT_TRUE(AllCome(memory, 0)) << "from the other node";
  EXPECT_TRUE(AllCome(memory, 100)) << "from the own pool";
  EXPECT_EQ(RailBytes(*b_), 0u);
  const json engines = testing::Status(*b_)["engines"];
  for (const json& engine : engines) {
    if (engine["name"] != "engine") continue;
    EXPECT_EQ(engine["region_bytes"], kBytes);
    EXPECT_EQ(engine["registered_bytes"], 0u);
  }
  EXPECT_EQ(engines.size(), 2u);

  std::memcpy(memory.bytes, memory.bytes + kPage, kPage);  // page 101, set from there
  std::vector<uint8_t> ok(1);
  client_->Set(TestEngine::Keys(200, 1), std::vector<Segment>{{kDevice, kPage}}, 1, 1, ok);
  EXPECT_EQ(ok[0], 1);
}

TEST_F(DmaBufFabricTest, WithoutAnyWayItIsRefusedAndHostMemoryServes) {
  exporter_refuses = true;
  DeviceMemory memory;
  const auto ways = Register(memory);
  ASSERT_FALSE(ways.ok());
  EXPECT_THAT(ways.status().message(), HasSubstr("does not register dma-bufs"));
  EXPECT_THAT(ways.status().message(), HasSubstr(kRefused));
  TestEngine writer(a_->socket(), kPages, kPage), reader(b_->socket(), kPages, kPage);
  ASSERT_EQ(writer.Set(0, kPages), kPages);
  EXPECT_TRUE(Eventually(seconds(20), [&] {
    const auto got = reader.Get(0, kPages);
    EXPECT_EQ(got.wrong, 0u);
    return got.hits == kPages;
  }));
  EXPECT_EQ(client_->stats().faults, 0u);
  EXPECT_EQ(client_->Exists(TestEngine::Keys(0, kPages)), kPages) << "the session goes on";
}

TEST_F(DmaBufFabricTest, ReadsLandInMemoryThatNoProcessorReaches) {
  exporter_refuses = true;
  DeviceMemory memory;
  const StandInDriver driver(&memory);
  TestEngine writer(a_->socket(), kPages, kPage), local(b_->socket(), kPages, kPage);
  ASSERT_EQ(writer.Set(0, kPages), kPages);
  ASSERT_EQ(local.Set(100, kPages), kPages);
  const auto ways = Register(memory);
  ASSERT_TRUE(ways.ok()) << ways.status().ToString();
  EXPECT_TRUE(ways->rdma);
  EXPECT_FALSE(ways->copies);
  EXPECT_THAT(ways->missing, HasSubstr(kRefused));
  EXPECT_EQ(StandInDriver::registered(), 2) << "with each rail";
  EXPECT_TRUE(AllCome(memory, 0));
  EXPECT_TRUE(AllCome(memory, 100)) << "from the own pool, by READs of it";
  EXPECT_GE(RailBytes(*b_), 2 * kBytes);

  std::vector<uint8_t> ok(1);
  client_->Set(TestEngine::Keys(200, 1), std::vector<Segment>{{kDevice, kPage}}, 1, 1, ok);
  EXPECT_EQ(ok[0], 0);
  EXPECT_THAT(client_->stats().last_fault, HasSubstr("copy them to host memory first"));
  // A page of which a part lies there is not staged, which would touch it.
  std::vector<std::byte> host(kPage);
  const std::vector<Segment> torn{{kDevice, kPage / 4},
                                  {reinterpret_cast<uint64_t>(host.data()), kPage - kPage / 4}};
  client_->Get(TestEngine::Keys(0, 1), torn, 2, ok);
  EXPECT_EQ(ok[0], 0);
  EXPECT_THAT(client_->stats().last_fault, HasSubstr("in device memory in part"));
  EXPECT_TRUE(AllCome(memory, 0));
  // Nor is one behind a page that is.
  const std::vector<Segment> mixed{{reinterpret_cast<uint64_t>(host.data()), kPage},
                                   {kDevice, kPage}};
  std::vector<uint8_t> both(2);
  ASSERT_TRUE(Eventually(seconds(20), [&] {
    client_->Get(TestEngine::Keys(0, 2), mixed, 1, both);
    return both == std::vector<uint8_t>{1, 1};
  }));
  EXPECT_TRUE(HasPage(host.data(), 0));
  EXPECT_TRUE(HasPage(memory.bytes, 1));
}

TEST_F(DmaBufFabricTest, WhatCanBeMappedTooIsReadAndCopied) {
  DeviceMemory memory;
  const StandInDriver driver(&memory);
  TestEngine writer(a_->socket(), kPages, kPage), local(b_->socket(), kPages, kPage);
  ASSERT_EQ(writer.Set(0, kPages), kPages);
  ASSERT_EQ(local.Set(100, kPages), kPages);
  const auto ways = Register(memory);
  ASSERT_TRUE(ways.ok()) << ways.status().ToString();
  EXPECT_TRUE(ways->rdma && ways->copies) << ways->missing;
  EXPECT_EQ(ways->missing, "");
  EXPECT_TRUE(
      Eventually(seconds(20), [&] { return Get(memory, 0) == kPages && RailBytes(*b_) > 0; }));
  EXPECT_EQ(Get(memory, 100), kPages);
}

// Engine and node are one process here, as where the node is embedded. There is no peer-memory
// driver, and needs to be none for this memory, which is none of a device.
TEST_F(DmaBufFabricTest, AnEmbeddedNodeRegistersAPointer) {
  std::vector<std::byte> device(kPage);
  const auto address = reinterpret_cast<uint64_t>(device.data());
  TestEngine writer(a_->socket(), 1, kPage), local(b_->socket(), 1, kPage);
  ASSERT_EQ(writer.Set(0, 1), 1u);
  ASSERT_EQ(local.Set(100, 1), 1u);
  const auto none = client_->RegisterDevicePointer(4096, kPage);
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.status().message(), HasSubstr("modprobe nvidia-peermem"));
  const auto ways = client_->RegisterDevicePointer(address, kPage);
  ASSERT_TRUE(ways.ok()) << ways.status().ToString();
  EXPECT_TRUE(ways->rdma && !ways->copies);
  std::vector<uint8_t> ok(1);
  for (const uint64_t page : {0, 100}) {
    ASSERT_TRUE(Eventually(seconds(20), [&] {
      client_->Get(TestEngine::Keys(page, 1), std::vector<Segment>{{address, kPage}}, 1, ok);
      return ok[0] == 1;
    })) << page;
    EXPECT_TRUE(HasPage(device.data(), page));
  }

  // Freed, and allocated again at the same address: the first range goes, the second stays.
  const auto again = client_->RegisterDevicePointer(address, kPage);
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  std::fill(device.begin(), device.end(), std::byte{0xee});
  ASSERT_TRUE(Eventually(seconds(20), [&] {
    client_->Get(TestEngine::Keys(0, 1), std::vector<Segment>{{address, kPage}}, 1, ok);
    return ok[0] == 1;
  })) << client_->stats().last_fault;
  EXPECT_TRUE(HasPage(device.data(), 0));
}

// With an offset that is in the middle of a page, as the address is.
TEST_F(DmaBufFabricTest, APartOfItIsWhereItsOffsetSays) {
  exporter_refuses = true;
  DeviceMemory memory;
  const StandInDriver driver(&memory);
  TestEngine writer(a_->socket(), 1, kPage);
  ASSERT_EQ(writer.Set(0, 1), 1u);
  constexpr size_t kOffset = 3 * kPage + 512;
  ASSERT_TRUE(client_->RegisterDmaBuf(memory.fd.get(), kDevice + 4, kPage + 100, kOffset).ok());
  std::vector<uint8_t> ok(1);
  const std::vector<Segment> page{{kDevice + 104, kPage / 4},
                                  {kDevice + 104 + kPage / 4, kPage - kPage / 4}};
  ASSERT_TRUE(Eventually(seconds(20), [&] {
    std::memset(memory.bytes, 0xee, kBytes);
    client_->Get(TestEngine::Keys(0, 1), page, 2, ok);
    return ok[0] == 1;
  }));
  EXPECT_TRUE(HasPage(memory.bytes + kOffset + 100, 0));
  EXPECT_EQ(memory.bytes[kOffset + 99], std::byte{0xee});
  EXPECT_EQ(memory.bytes[kOffset + 100 + kPage], std::byte{0xee});
}

TEST_F(DmaBufFabricTest, BadDescriptorsAndRangesAreRefusedAndTheSessionLives) {
  DeviceMemory memory;
  const UniqueFd file(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const auto refused = [&](int fd, size_t length, uint64_t offset, const std::string& why) {
    const auto ways = client_->RegisterDmaBuf(fd, kDevice, length, offset);
    EXPECT_FALSE(ways.ok()) << why;
    EXPECT_THAT(ways.status().message(), HasSubstr(why));
  };
  refused(file.get(), 4096, 0, "not a dma-buf");
  refused(memory.memory.get(), 4096, 0, "not a dma-buf");
  refused(-1, 4096, 0, "duplicating descriptor -1");
  refused(memory.fd.get(), 0, 0, "no memory");
  refused(memory.fd.get(), kBytes + 1, 0, "not inside the dma-buf");
  refused(memory.fd.get(), 4096, kBytes, "not inside the dma-buf");
  refused(memory.fd.get(), 4096, UINT64_MAX - 100, "not inside the dma-buf");
  {
    const StandInDriver driver(&memory);  // which would take it
    exported_read_only = true;
    refused(memory.fd.get(), 4096, 0, "not open for reading and writing");
    exported_read_only = false;
    EXPECT_EQ(StandInDriver::registered(), 0);
  }
  EXPECT_TRUE(Register(memory).ok());
  TestEngine local(b_->socket(), kPages, kPage);
  ASSERT_EQ(local.Set(0, kPages), kPages);
  EXPECT_EQ(Get(memory, 0), kPages);
}

// A node that starts again has no way there any more: misses, and no touch of the device's memory.
TEST_F(DmaBufFabricTest, ANodeThatCannotReachItAnyMoreMisses) {
  exporter_refuses = true;
  DeviceMemory memory;
  TestEngine writer(a_->socket(), kPages, kPage);
  ASSERT_EQ(writer.Set(0, kPages), kPages);
  {
    const StandInDriver driver(&memory);
    ASSERT_TRUE(Register(memory).ok());
    ASSERT_TRUE(AllCome(memory, 0));
  }
  b_.reset();
  b_ = cluster_.Start("b");
  ASSERT_TRUE(b_);
  ASSERT_TRUE(Eventually(seconds(20), [&] {
    return client_->Exists(TestEngine::Keys(0, kPages)) == kPages;
  })) << client_->stats().last_fault;
  EXPECT_EQ(Get(memory, 0), 0u);
  EXPECT_THAT(client_->stats().last_fault, HasSubstr("not shared"));
}

}  // namespace
}  // namespace peercache
