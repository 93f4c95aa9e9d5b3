// The engine socket against malformed, dying and lying engines.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <nlohmann/json.hpp>

#include "base/copy.h"
#include "base/holes.h"
#include "base/permit.h"
#include "node/engine/session.h"
#include "node/integration/node_testing.h"
#include "wire/messages.h"
#include "wire/stream.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;
using testing::Eventually;
using testing::KeyOf;
using testing::TestCluster;
using testing::TestEngine;

constexpr size_t kPage = 64 << 10;

UniqueFd Connected(const std::string& socket) {
  auto fd = ConnectUnix(socket);
  EXPECT_TRUE(fd.ok()) << fd.status().ToString();
  return fd.ok() ? std::move(fd).value() : UniqueFd();
}

class HostileEngineTest : public ::testing::Test {
 protected:
  HostileEngineTest() {
    InstallCopyGuard();
    node_ = cluster_.Start("a");
    fd_ = Connected(node_->socket());
  }
  // Sends the started frame and returns the answer's type, or nothing when the node has closed.
  std::optional<MessageType> Ask(FrameWriter* w, int fd = -1) {
    if (!SendFrame(fd_.get(), w->Finish(), fd, Clock::now() + testing::kEndsAHang).ok())
      return std::nullopt;
    if (!ReceiveFrame(fd_.get(), Clock::now() + testing::kEndsAHang, &frame_).ok())
      return std::nullopt;
    return frame_.header.type;
  }
  std::optional<MessageType> Attach(int permit_fd) {
    FrameWriter w;
    w.Start(MessageType::kAttach, 1);
    AttachRequest{0, "hostile", "0"}.Encode(&w);
    return Ask(&w, permit_fd);
  }
  void Attach() { ASSERT_EQ(Attach(-1), MessageType::kAttachOk); }
  std::string ErrorText() {
    ErrorMessage error;
    FrameReader reader(frame_.body);
    return error.Decode(&reader) ? error.status.message() : "(no error)";
  }
  std::optional<MessageType> ShareRegion(uint32_t id, int fd, uint64_t offset, uint64_t length) {
    (void)FillHoles(fd, offset + length);  // where there is a file; some of these are none
    return ShareAsIs(id, fd, offset, length);
  }
  std::optional<MessageType> ShareAsIs(uint32_t id, int fd, uint64_t offset, uint64_t length) {
    FrameWriter w;
    w.Start(MessageType::kRegion, 2);
    RegionRequest{id, offset, length}.Encode(&w);
    return Ask(&w, fd);
  }
  std::optional<MessageType> SetOne(uint64_t n, WireSegment segment) {
    return One(MessageType::kSet, n, segment);
  }
  std::optional<MessageType> One(MessageType type, uint64_t n, WireSegment segment) {
    FrameWriter w;
    w.Start(type, 3);
    const Key keys[] = {KeyOf(5000 + n)};
    const WireSegment segments[] = {segment};
    EncodePages(1, 1, keys, segments, &w);
    return Ask(&w);
  }
  std::vector<uint8_t> Flags() {
    std::vector<uint8_t> flags;
    FrameReader reader(frame_.body);
    EXPECT_TRUE(DecodeFlags(&reader, &flags));
    return flags;
  }
  void ExpectNodeWorks() {
    TestEngine engine(node_->socket(), 8, kPage);
    EXPECT_EQ(engine.Set(0, 8), 8u);
    EXPECT_EQ(engine.Get(0, 8).hits, 8u);
  }

  TestCluster cluster_;
  std::unique_ptr<Node> node_;
  UniqueFd fd_;
  ReceivedFrame frame_;
};

TEST_F(HostileEngineTest, GarbageClosesTheConnectionOnly) {
  const std::string garbage(4096, 'x');
  (void)send(fd_.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
  ASSERT_TRUE(ReceiveFrame(fd_.get(), Clock::now() + testing::kEndsAHang, &frame_).ok());
  EXPECT_EQ(frame_.header.type, MessageType::kError);
  EXPECT_NE(ErrorText().find("does not speak PeerCache"), std::string::npos);
  EXPECT_FALSE(ReceiveFrame(fd_.get(), Clock::now() + testing::kEndsAHang, &frame_).ok());
  ExpectNodeWorks();
}

TEST_F(HostileEngineTest, NothingIsDoneBeforeAttach) {
  EXPECT_EQ(SetOne(1, {0, 1, 64}), MessageType::kError);
  EXPECT_NE(ErrorText().find("Attach"), std::string::npos);
  ExpectNodeWorks();
}

TEST_F(HostileEngineTest, SegmentsOutsideTheRegionAreRefusedAndTheConnectionLives) {
  Attach();
  auto region = MappedRegion::Create("hostile", 1 << 20, HugePages::kOff);
  ASSERT_EQ(ShareRegion(1, region->fd(), 0, 1 << 20), MessageType::kRegionOk);
  const WireSegment bad[] = {{1 << 20, 1, 1},    {(1 << 20) - 1, 1, 2},
                             {UINT64_MAX, 1, 1}, {UINT64_MAX - 4, 1, 64},
                             {0, 2, 64},         {0, 1, UINT32_MAX}};
  for (const WireSegment& segment : bad) {
    EXPECT_EQ(SetOne(1, segment), MessageType::kError) << segment.offset << " " << segment.length;
    EXPECT_NE(ErrorText().find("region"), std::string::npos) << ErrorText();
  }
  EXPECT_EQ(SetOne(1, {0, 1, 4096}), MessageType::kSetOk);
}

TEST_F(HostileEngineTest, RegionsLargerThanTheirFileAreRefused) {
  Attach();
  auto region = MappedRegion::Create("hostile", 1 << 20, HugePages::kOff);
  EXPECT_EQ(ShareRegion(1, region->fd(), 0, 2 << 20), MessageType::kError);
  EXPECT_EQ(ShareRegion(1, region->fd(), UINT64_MAX, 2), MessageType::kError);
  EXPECT_EQ(ShareRegion(1, -1, 0, 4096), MessageType::kError);
  EXPECT_NE(ErrorText().find("descriptor"), std::string::npos);
}

// Real dma-bufs: dma_buf_fabric_test.cc.
TEST_F(HostileEngineTest, WhatIsNoDmaBufIsRefusedAndTheConnectionLives) {
  Attach();
  const auto refused = [&](int fd, uint64_t offset, uint64_t length, const std::string& why,
                           MessageType type = MessageType::kDmaBuf) {
    FrameWriter w;
    w.Start(type, 2);
    RegionRequest{1, offset, length}.Encode(&w);
    EXPECT_EQ(Ask(&w, fd), MessageType::kError);
    EXPECT_NE(ErrorText().find(why), std::string::npos) << ErrorText();
  };
  auto region = MappedRegion::Create("hostile", 1 << 20, HugePages::kOff);
  const UniqueFd file(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  // An address of this process, where the node is.
  constexpr auto kPointer = MessageType::kDevicePointer;
  refused(-1, 0, 4096, "4096 bytes at address 0x0 are no memory", kPointer);
  refused(-1, 4096, 0, "no memory", kPointer);
  refused(-1, UINT64_MAX - 4095, 8192, "no memory", kPointer);
  refused(-1, 4096, 4096, "this node has no RDMA rails", kPointer);
  refused(-1, 4096, 4096, "no file descriptor came with it; pass a dma-buf");
  refused(region->fd(), 0, 1 << 20, "region 1: the descriptor is not a dma-buf");
  refused(region->fd(), UINT64_MAX, UINT64_MAX, "not a dma-buf");
  refused(file.get(), 0, 4096, "not a dma-buf");
  refused(null.get(), 0, 0, "not a dma-buf");
  refused(fd_.get(), 0, 4096, "not a dma-buf");
  EXPECT_EQ(SetOne(1, {0, 1, 4096}), MessageType::kError) << "nothing was shared";
  ASSERT_EQ(ShareRegion(1, region->fd(), 0, 1 << 20), MessageType::kRegionOk);
  EXPECT_EQ(SetOne(1, {0, 1, 4096}), MessageType::kSetOk);
  FrameWriter torn;
  torn.Start(MessageType::kDmaBuf, 2);
  torn.Put(uint32_t{1});
  EXPECT_EQ(Ask(&torn, region->fd()), MessageType::kError);
  EXPECT_NE(ErrorText().find("malformed DmaBuf or DevicePointer"), std::string::npos)
      << ErrorText();
}

TEST(SessionTest, AddressesOfAnotherProcessAreRefused) {
  const auto tenants = Tenants::Create({}, nullptr);
  Session session(1, "engine", "0", {getuid(), getpid() + 1}, 1, *(*tenants)->Enter(""), {});
  const auto ways = session.SetDevice({1, 4096, 4096}, std::nullopt, {8, UINT64_MAX}, nullptr);
  ASSERT_FALSE(ways.ok());
  EXPECT_NE(ways.status().message().find("only from the process that the node runs in"),
            std::string::npos);
  EXPECT_EQ(session.region_count(), 0u);
}

TEST_F(HostileEngineTest, MemoryThatTheEngineTakesAwayIsAMissNotACrash) {
  Attach();
  const int memfd = memfd_create("shrinking", MFD_CLOEXEC);
  UniqueFd owned(memfd);
  ASSERT_EQ(ftruncate(memfd, 1 << 20), 0);
  ASSERT_EQ(ShareRegion(1, memfd, 0, 1 << 20), MessageType::kRegionOk);
  ASSERT_EQ(SetOne(1, {0, 1, 4096}), MessageType::kSetOk);
  ASSERT_EQ(ftruncate(memfd, 0), 0);
  ASSERT_EQ(SetOne(2, {0, 1, 4096}), MessageType::kSetOk);
  EXPECT_EQ(Flags(), std::vector<uint8_t>{0});
  ExpectNodeWorks();
}

// An engine that got no answer in time has given its pages to others by now.
TEST_F(HostileEngineTest, PagesThatAreTakenBackAreNeitherStoredNorWritten) {
  Permit permit = Permit::Create().value();
  ASSERT_EQ(Attach(permit.fd()), MessageType::kAttachOk);
  auto region = MappedRegion::Create("engine", 1 << 20, HugePages::kOff);
  ASSERT_EQ(ShareRegion(1, region->fd(), 0, 1 << 20), MessageType::kRegionOk);
  ASSERT_EQ(SetOne(1, {0, 1, 4096}), MessageType::kSetOk);
  EXPECT_EQ(Flags(), std::vector<uint8_t>{1});
  region->data()[4096] = std::byte{77};
  permit.Revoke();
  ASSERT_EQ(SetOne(2, {0, 1, 4096}), MessageType::kSetOk);
  EXPECT_EQ(Flags(), std::vector<uint8_t>{0});
  ASSERT_EQ(One(MessageType::kGet, 1, {4096, 1, 4096}), MessageType::kGetOk);
  EXPECT_EQ(Flags(), std::vector<uint8_t>{0});
  EXPECT_EQ(region->data()[4096], std::byte{77});
  EXPECT_FALSE(permit.InUse());
  // Another connection of the engine has a permit of its own.
  fd_ = Connected(node_->socket());
  ASSERT_EQ(Attach(Permit::Create().value().fd()), MessageType::kAttachOk);
  ASSERT_EQ(ShareRegion(1, region->fd(), 0, 1 << 20), MessageType::kRegionOk);
  ASSERT_EQ(One(MessageType::kGet, 1, {4096, 1, 4096}), MessageType::kGetOk);
  EXPECT_EQ(Flags(), std::vector<uint8_t>{1});
  ASSERT_EQ(One(MessageType::kGet, 2, {4096, 1, 4096}), MessageType::kGetOk);
  EXPECT_EQ(Flags(), std::vector<uint8_t>{0}) << "the set that was given up";
}

TEST_F(HostileEngineTest, APermitThatCouldVanishIsRefused) {
  const UniqueFd unsealed(memfd_create("permit", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(unsealed.get(), 4096), 0);
  EXPECT_EQ(Attach(unsealed.get()), MessageType::kError);
  EXPECT_NE(ErrorText().find("F_SEAL_SHRINK"), std::string::npos) << ErrorText();
  ExpectNodeWorks();
}

TEST_F(HostileEngineTest, AnEngineThatDiesInTheMiddleOfASetLeavesNothingBehind) {
  Attach();
  auto region = MappedRegion::Create("hostile", 8 << 20, HugePages::kOff);
  ASSERT_EQ(ShareRegion(1, region->fd(), 0, 8 << 20), MessageType::kRegionOk);
  for (int i = 0; i < 20; ++i) {
    FrameWriter w;
    w.Start(MessageType::kSet, 3);
    std::vector<Key> keys;
    std::vector<WireSegment> segments;
    for (uint32_t p = 0; p < 64; ++p) {
      keys.push_back(KeyOf(10000 + 64u * i + p));
      segments.push_back({p * kPage, 1, kPage});
    }
    EncodePages(1, 1, keys, segments, &w);
    const auto frame = w.Finish();
    UniqueFd other = Connected(node_->socket());
    // Attach, then a whole or half request, then gone without reading any answer.
    FrameWriter attach;
    attach.Start(MessageType::kAttach, 1);
    AttachRequest{0, "dying", "0"}.Encode(&attach);
    (void)SendFrame(other.get(), attach.Finish(), -1, Clock::now() + testing::kEndsAHang);
    FrameWriter share;
    share.Start(MessageType::kRegion, 2);
    RegionRequest{1, 0, 8 << 20}.Encode(&share);
    (void)SendFrame(other.get(), share.Finish(), region->fd(), Clock::now() + testing::kEndsAHang);
    (void)SendFrame(other.get(), i % 2 == 0 ? frame : frame.first(frame.size() / 2), -1,
                    Clock::now() + testing::kEndsAHang);
  }
  fd_.Reset();
  EXPECT_TRUE(testing::Eventually([&] {
    return node_->StatusJson().find("\"engines\": []") != std::string::npos;
  })) << node_->StatusJson();
  ExpectNodeWorks();
}

TEST_F(HostileEngineTest, NamesDoNotBreakTheStatus) {
  FrameWriter w;
  w.Start(MessageType::kAttach, 1);
  AttachRequest{0, "\xff\xfe\n\"", "\x01"}.Encode(&w);
  ASSERT_EQ(Ask(&w), MessageType::kAttachOk);
  const auto status = nlohmann::json::parse(node_->StatusJson(), nullptr, false);
  ASSERT_FALSE(status.is_discarded());
  EXPECT_EQ(status["engines"][0]["name"], "???\"");
}

TEST_F(HostileEngineTest, MemoryThatNobodyHasTakenYetIsRefusedAndStaysUntouched) {
  Attach();
  const UniqueFd file(::memfd_create("sparse", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(file.get(), 8 << 20), 0);
  ASSERT_EQ(::fallocate(file.get(), 0, 0, 4 << 20), 0);
  EXPECT_EQ(ShareAsIs(1, file.get(), 0, 8 << 20), MessageType::kError);
  EXPECT_THAT(ErrorText(), ::testing::HasSubstr("4194304 bytes of its file have no memory yet"));
  EXPECT_EQ(SetOne(0, {5 << 20, 1, kPage}), MessageType::kError) << "there is no such region";
  EXPECT_EQ(HoleBytes(file.get()), 4u << 20);
  EXPECT_EQ(ShareRegion(1, file.get(), 0, 8 << 20), MessageType::kRegionOk) << "once it is taken";
  ExpectNodeWorks();
}

TEST_F(HostileEngineTest, MoreMemoryThanAllowedIsRefused) {
  TestCluster small([](NodeConfig* c) { c->max_engine_memory = 3 << 20; });
  auto node = small.Start("b");
  fd_ = Connected(node->socket());
  Attach();
  auto region = MappedRegion::Create("hostile", 2 << 20, HugePages::kOff);
  auto other = MappedRegion::Create("other", 2 << 20, HugePages::kOff);
  ASSERT_TRUE(FillHoles(region->fd(), 2 << 20).ok());
  ASSERT_EQ(ShareRegion(1, region->fd(), 0, 1 << 20), MessageType::kRegionOk);
  ASSERT_EQ(ShareRegion(1, region->fd(), 0, 2 << 20), MessageType::kRegionOk) << "a replacement";
  EXPECT_EQ(ShareRegion(2, other->fd(), 0, 2 << 20), MessageType::kError);
  EXPECT_NE(ErrorText().find("--max-engine-memory"), std::string::npos) << ErrorText();
  EXPECT_EQ(ShareRegion(2, other->fd(), 0, 1 << 20), MessageType::kRegionOk);
  EXPECT_EQ(ShareRegion(3, region->fd(), 1 << 20, 1 << 20), MessageType::kRegionOk)
      << "memory that is shared counts once";
  EXPECT_EQ(ShareRegion(1, -1, 0, 0), MessageType::kRegionOk) << "dropped";
  EXPECT_EQ(ShareRegion(4, other->fd(), 0, 2 << 20), MessageType::kError)
      << "region 3 has it still";
  EXPECT_EQ(ShareRegion(3, -1, 0, 0), MessageType::kRegionOk);
  EXPECT_EQ(ShareRegion(4, other->fd(), 0, 2 << 20), MessageType::kRegionOk);
}

TEST_F(HostileEngineTest, DescriptorsThatAreNoMemoryAreRefused) {
  Attach();
  UniqueFd file(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(ShareRegion(1, file.get(), 0, 4096), MessageType::kError);
  EXPECT_NE(ErrorText().find("not shared memory"), std::string::npos) << ErrorText();
  UniqueFd device(open("/dev/zero", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(ShareRegion(1, device.get(), 0, 4096), MessageType::kError);
  EXPECT_EQ(ShareRegion(1, fd_.get(), 0, 4096), MessageType::kError);
  ExpectNodeWorks();
}

TEST_F(HostileEngineTest, EnginesBeyondTheLimitAreToldSo) {
  TestCluster small([](NodeConfig* c) { c->max_engines = 1; });
  auto node = small.Start("b");
  auto first = Client::Connect({.socket = node->socket(), .engine = "one"});
  ASSERT_TRUE(first.ok());
  auto second = Client::Connect({.socket = node->socket(), .engine = "two"});
  ASSERT_TRUE(second.ok()) << "it waits for its turn: " << second.status().ToString();
  EXPECT_FALSE((*second)->attached());
  EXPECT_NE((*second)->state().message().find("--max-engines"), std::string::npos);
  first->reset();
  EXPECT_TRUE(Eventually([&] { return (*second)->attached(); }));
}

}  // namespace
}  // namespace peercache
