// A node that comes back with its pool's file, and a peer that reads its answer late.
#pragma once

#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "node/integration/node_process_testing.h"
#include "node/integration/node_testing.h"
#include "transport/tcp/tcp_testing.h"
#include "wire/messages.h"
#include "wire/stream.h"

namespace peercache::testing {

constexpr size_t kRestartedPage = 64 << 10;

// A node that is started, ended and started again with the same options.
class Restarted {
 public:
  explicit Restarted(const char* pool_size = "32Mi")
      : options_({"node-id=a", "cluster=test", "bind-addr=127.0.0.1",
                  "peer-port=" + std::to_string(port_), "http=off", "socket=" + socket(),
                  "pool-file=" + memory_.path(), "huge-pages=off", "transport=tcp", "lease-ms=100",
                  "checksums=all", std::string("pool-size=") + pool_size}) {}

  void Start() {
    process_ = std::make_unique<NodeProcess>(options_);
    ASSERT_TRUE(Eventually(kEndsAHang, [&] { return ConnectUnix(socket()).ok(); }));
  }
  // From the next start on.
  void Set(const std::string& option, const std::string& value) {
    std::erase_if(options_, [&](const std::string& o) { return o.starts_with(option + "="); });
    options_.push_back(option + "=" + value);
  }
  void End(int signal) { process_->End(signal); }
  std::string socket() const { return dir_.path() + "/a.sock"; }
  uint16_t port() const { return port_; }

 private:
  const uint16_t port_ = TestCluster::FreePort();
  TempDir dir_, memory_{"/dev/shm"};
  std::vector<std::string> options_;
  std::unique_ptr<NodeProcess> process_;
};

// A peer that asks for pages and comes to the answer late: until then it lies in its queue, by
// reference to the pool's memory.
class SlowReader {
 public:
  explicit SlowReader(uint16_t port) : socket_(RawConnect(port)) {
    Send(MessageType::kHello, [](FrameWriter* w) { Hello{"test", "", 1, 1}.Encode(w); });
    (void)Receive();
  }
  // False: the page is not there any more.
  bool Ask(uint64_t page) {
    const Key key = KeyOf(page);
    Send(MessageType::kLookup, [&](FrameWriter* w) { EncodeLookup(1, {}, {{key}}, w); });
    FrameReader body(Receive());
    std::vector<Record> records;
    std::vector<OtherRecord> others;
    if (!DecodeRecords(&body, &records, &others) || records.at(0).node == 0) return false;
    const Record& r = records[0];
    const ReadItem item{r.offset, r.generation, r.length, 0, key};
    asked_ = Clock::now();
    Send(MessageType::kRead, [&](FrameWriter* w) { EncodeRead(r.incarnation, {{item}}, w); });
    FrameHeader header;
    EXPECT_TRUE(Eventually(kEndsAHang, [&] {
      return recv(socket_.get(), &header, sizeof(header), MSG_PEEK | MSG_DONTWAIT) ==
             ssize_t{sizeof(header)};
    }));
    if (header.payload_length < kRestartedPage) return false;
    const size_t all = sizeof(header) + header.body_length + header.payload_length;
    return Eventually(kEndsAHang, [&] {
      int there = 0;
      return ioctl(socket_.get(), FIONREAD, &there) == 0 && there == static_cast<int>(all);
    });
  }
  TimePoint asked() const { return asked_; }
  // The answer's last bytes are the page.
  std::vector<std::byte> Take() const {
    std::vector<std::byte> answer(2 * kRestartedPage);
    const ssize_t n = recv(socket_.get(), answer.data(), answer.size(), 0);
    if (n < static_cast<ssize_t>(kRestartedPage)) return {};
    return {answer.begin() + n - kRestartedPage, answer.begin() + n};
  }

 private:
  void Send(MessageType type, const std::function<void(FrameWriter*)>& fill) {
    FrameWriter w;
    w.Start(type, 1);
    fill(&w);
    SendAll(socket_.get(), w.Finish());
  }
  std::span<const std::byte> Receive() {
    EXPECT_TRUE(ReceiveFrame(socket_.get(), Clock::now() + kEndsAHang, &frame_).ok());
    return frame_.body;
  }

  UniqueFd socket_;
  ReceivedFrame frame_;
  TimePoint asked_{};
};

}  // namespace peercache::testing
