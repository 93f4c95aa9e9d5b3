// An engine that uses libpeercache.h alone, for tests.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/memory.h"
#include "base/patience_testing.h"
#include "base/wrong_bytes.h"
#include "node/integration/node_testing.h"
#include "peercache/libpeercache.h"

namespace peercache::testing {

inline pc_key CKeyOf(uint64_t n) {
  pc_key key;
  static_assert(sizeof(key) == sizeof(Key));
  std::memcpy(&key, KeyOf(n).bytes.data(), sizeof(key));
  return key;
}

inline std::vector<pc_key> CKeys(uint64_t first, size_t count) {
  std::vector<pc_key> keys;
  for (size_t i = 0; i < count; ++i) keys.push_back(CKeyOf(first + i));
  return keys;
}

// All completions of an op, together.
struct Completed {
  std::vector<bool> ok;
  int32_t result = PC_OK;
  size_t hits() const { return static_cast<size_t>(std::count(ok.begin(), ok.end(), true)); }
};

class CEngine {
 public:
  static constexpr size_t kPage = 16 << 10;

  // A time-out of 0 is longer than anything that a node here waits for.
  explicit CEngine(const std::string& socket, pc_queue_args queue = {}, uint32_t timeout_ms = 0)
      : memory_(MappedRegion::Create("c-engine", kPages * kPage, HugePages::kOff).value()) {
    pc_open_args args{};
    args.size = sizeof(args);
    args.socket = socket.c_str();
    args.engine = "c";
    args.timeout_ms = timeout_ms == 0 ? 15'000 : timeout_ms;
    EXPECT_EQ(pc_open(&args, &client_), PC_OK) << pc_error();
    queue.size = sizeof(queue);
    EXPECT_EQ(pc_queue_open(client_, &queue, &queue_), PC_OK) << pc_error();
  }
  ~CEngine() {
    pc_queue_close(queue_);
    pc_close(client_);
  }
  CEngine(const CEngine&) = delete;
  CEngine& operator=(const CEngine&) = delete;

  static constexpr size_t kPages = 192;

  pc_client* client() { return client_; }
  pc_queue* queue() { return queue_; }
  std::span<std::byte> page(size_t i) { return memory_.bytes().subspan(i * kPage, kPage); }
  std::span<std::byte> memory() { return memory_.bytes(); }

  void Share() {
    size_t shared = 0;
    EXPECT_EQ(pc_share_range(client_, memory_.data(), memory_.size(), &shared), PC_OK)
        << pc_error();
    EXPECT_EQ(shared, memory_.size());
  }

  // `cuts`: the lengths of the iovs of a page; what they leave is one more.
  std::vector<pc_iov> Iovs(size_t at, const std::vector<size_t>& cuts = {}) {
    std::vector<pc_iov> iovs;
    auto address = reinterpret_cast<uint64_t>(page(at).data());
    size_t left = kPage;
    for (const size_t cut : cuts) {
      iovs.push_back({address, cut});
      address += cut;
      left -= cut;
    }
    iovs.push_back({address, left});
    return iovs;
  }

  static pc_op Op(int kind, const std::vector<pc_key>& keys, const std::vector<pc_iov>& iovs) {
    pc_op op{};
    op.size = sizeof(op);
    op.kind = static_cast<uint8_t>(kind);
    op.keys = keys.data();
    op.pages = static_cast<uint32_t>(keys.size());
    if (!iovs.empty()) {
      op.iovs = iovs.data();
      op.iovs_per_page = static_cast<uint32_t>(iovs.size() / keys.size());
    }
    return op;
  }

  Completed Run(const pc_op& op) {
    EXPECT_EQ(pc_submit(queue_, &op, 1), 1) << pc_error();
    return Await(op);
  }
  // Pages 0 to `count` of the memory, one iov each, as pages `first` and so on.
  Completed Set(uint64_t first, size_t count) {
    for (size_t i = 0; i < count; ++i) TestEngine::Fill(page(i), first + i);
    return Move(PC_SET, first, count);
  }
  Completed Get(uint64_t first, size_t count) {
    for (size_t i = 0; i < count; ++i) std::ranges::fill(page(i), std::byte{0xee});
    const Completed got = Move(PC_GET, first, count);
    for (size_t i = 0; i < count && i < got.ok.size(); ++i) {
      EXPECT_TRUE(!got.ok[i] || Holds(i, first + i));
    }
    return got;
  }
  Completed Presence(uint64_t first, size_t count) {
    return Run(Op(PC_PRESENCE, CKeys(first, count), {}));
  }
  bool Holds(size_t at, uint64_t n) {
    std::vector<std::byte> want(kPage);
    TestEngine::Fill(want, n);
    return HasRightBytes("page " + std::to_string(n), page(at), want);
  }
  pc_state_info state() {
    pc_state_info info{};
    info.size = sizeof(info);
    EXPECT_EQ(pc_state(client_, &info), PC_OK) << pc_error();
    return info;
  }
  bool readable() {
    pollfd event{pc_queue_fd(queue_), POLLIN, 0};
    return poll(&event, 1, 0) == 1;
  }

  // The completions of an op, which is the only one of its user_data.
  Completed Await(const pc_op& op) {
    Completed all;
    for (bool more = true; more;) {
      EXPECT_EQ(pc_wait(queue_, 60'000), PC_OK) << pc_error();
      pc_completion completion{};
      EXPECT_EQ(pc_reap(queue_, &completion, 1), 1);
      EXPECT_EQ(completion.user_data, op.user_data);
      EXPECT_EQ(completion.first, all.ok.size());
      EXPECT_LE(completion.count, 64);
      for (int i = 0; i < completion.count; ++i) all.ok.push_back((completion.ok >> i & 1) != 0);
      all.result = completion.result;
      more = (completion.flags & PC_MORE) != 0;
      if (::testing::Test::HasFailure()) break;
    }
    EXPECT_EQ(all.ok.size(), op.pages);
    return all;
  }

 private:
  Completed Move(int kind, uint64_t first, size_t count) {
    const auto keys = CKeys(first, count);
    std::vector<pc_iov> iovs;
    for (size_t i = 0; i < count; ++i) iovs.push_back(Iovs(i).front());
    return Run(Op(kind, keys, iovs));
  }

  MappedRegion memory_;
  pc_client* client_ = nullptr;
  pc_queue* queue_ = nullptr;
};

}  // namespace peercache::testing
