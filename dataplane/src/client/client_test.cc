// The client beside a node that stops answering: what it waits for, and what it does not.

#include "client/client.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <list>
#include <mutex>
#include <optional>
#include <thread>

#include "base/memory.h"
#include "base/patience_testing.h"
#include "base/permit.h"
#include "base/temp_dir_testing.h"
#include "wire/messages.h"
#include "wire/stream.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;

using testing::Eventually;
using testing::kEndsAHang;

constexpr milliseconds kTimeout{500};
// What the call that looks whether the node answers again waits, and the pause until the next one.
constexpr milliseconds kLooks{200}, kPause{200};

// Answers every request with success, except while it is stopped: then it takes what comes in, as a
// stopped process does, and answers when it goes on.
class FakeNode {
 public:
  explicit FakeNode(const std::string& socket) : listener_(ListenUnix(socket, 0600).value()) {
    acceptor_ = std::thread([this] { Accept(); });
  }
  ~FakeNode() {
    ending_ = true;
    stopped_ = false;
    acceptor_.join();
    for (Connection& c : connections_) {
      shutdown(c.fd.get(), SHUT_RDWR);
      c.thread.join();
    }
  }

  void Stop() { stopped_ = true; }
  void GoOn() { stopped_ = false; }
  // Stopped in the middle of a write into the pages of the next get.
  void StopWriting() {
    writing_ = true;
    stopped_ = true;
  }
  // Whether the node may still write for the call that it has not answered.
  bool MayWrite() {
    std::lock_guard lock(mutex_);
    const Permit::Use use(&*at_work_);
    return static_cast<bool>(use);
  }
  // That have come in, also those that are not answered yet.
  size_t requests() const { return requests_; }

 private:
  struct Connection {
    UniqueFd fd;
    std::optional<Permit> permit;
    std::thread thread;
  };

  void Accept() {
    while (!ending_) {
      (void)WaitFor(listener_.get(), POLLIN, Clock::now() + 20ms);
      UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!fd) continue;
      Connection& c = connections_.emplace_back();
      c.fd = std::move(fd);
      c.thread = std::thread([this, &c] { Serve(&c); });
    }
  }
  void Serve(Connection* c) {
    ReceivedFrame frame;
    while (ReceiveFrame(c->fd.get(), std::nullopt, &frame).ok()) {
      const MessageType type = frame.header.type;
      if (frame.fd && type == MessageType::kAttach) {
        std::lock_guard lock(mutex_);
        c->permit = Permit::Map(std::move(frame.fd)).value();
        at_work_ = Permit::Map(UniqueFd(dup(c->permit->fd()))).value();
      }
      ++requests_;
      {
        std::optional<Permit::Use> use;
        if (type == MessageType::kGet && writing_.exchange(false)) use.emplace(&*c->permit);
        while (stopped_) std::this_thread::sleep_for(1ms);
      }
      FrameWriter answer;
      answer.Start(static_cast<MessageType>(static_cast<int>(type) + 1), frame.header.request_id);
      FrameReader body(frame.body);
      PagesRequest pages;
      if (type == MessageType::kAttach) {
        AttachOk{7, "fake", "0"}.Encode(&answer);
      } else if (type == MessageType::kDmaBuf) {  // as a release that does not know it
        answer.Start(MessageType::kError, frame.header.request_id);
        ErrorMessage{Corrupt("an engine cannot send message type 76")}.Encode(&answer);
        (void)SendFrame(c->fd.get(), answer.Finish(), -1, Clock::now() + kEndsAHang);
        break;
      } else if (type == MessageType::kExists) {
        answer.Put(uint32_t{1});
      } else if (type == MessageType::kSet || type == MessageType::kGet) {
        ASSERT_TRUE(pages.Decode(&body));
        EncodeFlags(std::vector<uint8_t>(pages.keys.size(), 1), &answer);
      }
      if (!SendFrame(c->fd.get(), answer.Finish(), -1, Clock::now() + kEndsAHang).ok()) break;
    }
    shutdown(c->fd.get(), SHUT_RDWR);
  }

  const UniqueFd listener_;
  std::atomic<bool> ending_{false}, stopped_{false}, writing_{false};
  std::atomic<size_t> requests_{0};
  std::mutex mutex_;
  std::optional<Permit> at_work_;  // of the newest connection
  std::list<Connection> connections_;
  std::thread acceptor_;
};

class StoppedNodeTest : public ::testing::Test {
 protected:
  StoppedNodeTest() {
    auto client = Client::Connect({.socket = socket_, .engine = "test", .timeout = kTimeout});
    EXPECT_TRUE(client.ok()) << client.status().ToString();
    client_ = std::move(*client);
    EXPECT_TRUE(client_->RegisterRegion(host_.fd(), host_.data(), host_.size()).ok());
    EXPECT_EQ(client_->Exists(keys_), 1u);
  }
  bool Get(std::byte* page) {
    const Segment segment{reinterpret_cast<uint64_t>(page), 4096};
    uint8_t ok = 0;
    client_->Get(keys_, {&segment, 1}, 1, {&ok, 1});
    return ok != 0;
  }
  bool Set() {
    const Segment segment{reinterpret_cast<uint64_t>(host_.data()), 4096};
    uint8_t ok = 0;
    client_->Set(keys_, {&segment, 1}, 1, 0, {&ok, 1});
    return ok != 0;
  }
  template <typename Call>
  static Duration Time(const Call& call) {
    const TimePoint start = Clock::now();
    call();
    return Clock::now() - start;
  }

  testing::TempDir dir_;
  const std::string socket_ = dir_.path() + "/node.sock";
  FakeNode node_{socket_};
  const MappedRegion host_ = MappedRegion::Create("host", 8192, HugePages::kOff).value();
  const std::vector<Key> keys_{Key{}};
  std::unique_ptr<Client> client_;
};

TEST_F(StoppedNodeTest, ANodeOfAnOlderReleaseIsAskedForNothingThatWouldEndTheSession) {
  const size_t before = node_.requests();
  const auto ways = client_->RegisterDmaBuf(host_.fd(), uint64_t{7} << 44, 4096);
  EXPECT_EQ(ways.status().code(), Code::kUnavailable);
  EXPECT_NE(ways.status().message().find("the node fake (release 0) does not know device memory"),
            std::string::npos)
      << ways.status().message();
  EXPECT_EQ(node_.requests(), before);
  EXPECT_TRUE(Get(host_.data())) << "the session lives";
}

TEST_F(StoppedNodeTest, ANodeOfAnOlderReleaseIsNotAskedForPresence) {
  const size_t before = node_.requests();
  std::vector<uint8_t> there(1, 1);
  EXPECT_FALSE(client_->Presence(keys_, there)) << "the caller asks for leading runs instead";
  EXPECT_EQ(there[0], 0);
  EXPECT_EQ(node_.requests(), before);
  EXPECT_EQ(client_->stats().faults, 0u);
  EXPECT_EQ(client_->Exists(keys_), 1u) << "the session lives";
}

TEST_F(StoppedNodeTest, CostsOneTimeoutAndThenCallsMissAtOnceUntilItGoesOn) {
  node_.Stop();
  const size_t before = node_.requests();
  EXPECT_GE(Time([&] { EXPECT_EQ(client_->Exists(keys_), 0u); }), kTimeout);
  ASSERT_TRUE(Eventually([&] { return node_.requests() > before; }));
  EXPECT_EQ(node_.requests(), before + 1) << "it asked once";
  constexpr int kCalls = 60;
  const Duration others = Time([&] {
    for (int i = 0; i < kCalls / 3; ++i) {
      EXPECT_EQ(client_->Exists(keys_), 0u);
      EXPECT_FALSE(Get(host_.data()));
      EXPECT_FALSE(Set());
    }
  });
  EXPECT_LT(others, kCalls * kLooks) << "each of them waited";
  EXPECT_LE(static_cast<int64_t>(node_.requests() - before), 2 + others / (kLooks + kPause))
      << "one now and then looks whether it answers again";
  // Such a call waits less than the first one: the quickest, on a machine with other work.
  EXPECT_TRUE(Eventually([&] {
    const Duration took = Time([&] { EXPECT_EQ(client_->Exists(keys_), 0u); });
    return took >= kLooks && took < kTimeout;
  }));
  EXPECT_GT(node_.requests(), before + 1);
  node_.GoOn();
  EXPECT_TRUE(Eventually([&] { return client_->Exists(keys_) != 0; }));
  EXPECT_TRUE(Get(host_.data()));
  EXPECT_TRUE(Set());
}

TEST_F(StoppedNodeTest, NobodyWaitsForTheCallThatLooks) {
  node_.Stop();
  EXPECT_EQ(client_->Exists(keys_), 0u);
  // A busy machine may run this thread only when the other one has looked: then once more.
  EXPECT_TRUE(Eventually([&] {
    const size_t before = node_.requests();
    std::atomic<bool> over{false};
    std::thread looking([&] {
      EXPECT_EQ(client_->Exists(keys_), 0u);
      over = true;
    });
    while (!over && node_.requests() == before) std::this_thread::yield();
    const bool looks = node_.requests() > before;
    EXPECT_EQ(client_->Exists(keys_), 0u);
    const bool meanwhile = looks && !over;
    looking.join();
    return meanwhile;
  })) << "no call returned while another one looked";
}

TEST_F(StoppedNodeTest, PagesAreTakenBackFromACallThatHasNotBegunToWrite) {
  node_.Stop();
  EXPECT_FALSE(Get(host_.data()));  // or it would wait for ever
  EXPECT_FALSE(node_.MayWrite()) << "it would write into a page that is somebody else's by now";
}

TEST_F(StoppedNodeTest, ASetEndsAndWhatIsReadLaterDoesNotCount) {
  node_.Stop();
  EXPECT_FALSE(Set());  // or it would wait for ever
  EXPECT_FALSE(node_.MayWrite());
}

TEST_F(StoppedNodeTest, AGetWaitsForTheEndOfAWriteThatHasBegun) {
  node_.StopWriting();
  std::atomic<bool> over{false};
  std::thread getting([&] {
    EXPECT_FALSE(Get(host_.data()));
    over = true;
  });
  std::this_thread::sleep_for(kTimeout + 400ms);
  EXPECT_FALSE(over) << "the node writes into the page when it goes on";
  EXPECT_EQ(client_->Exists(keys_), 0u);  // or it would wait for ever, as the get does
  EXPECT_FALSE(over);
  node_.GoOn();
  getting.join();
}

TEST_F(StoppedNodeTest, MemoryOfItsOwnIsGivenUpInstead) {
  std::vector<std::byte> unshared(4096);
  ASSERT_TRUE(Get(unshared.data()));
  node_.StopWriting();
  EXPECT_FALSE(Get(unshared.data()));  // or it would wait for ever
  node_.GoOn();
  EXPECT_TRUE(Eventually([&] { return Get(unshared.data()); }));
}

TEST_F(StoppedNodeTest, MemoryThatItMustBeToldOfFirstIsNoReasonToWaitLonger) {
  std::vector<std::byte> unshared(4096);
  node_.Stop();
  EXPECT_LT(Time([&] { EXPECT_FALSE(Get(unshared.data())); }), 6s) << "sharing waits twice as long";
}

}  // namespace
}  // namespace peercache
