// Without memory a call fails or does what it should: it throws nothing and loses nothing.
// NOT-IN-A-GROUP: it replaces operator new.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "capi/capi_testing.h"

namespace {

// Of this thread: allocations until one fails. Negative: none does.
thread_local int64_t until_none = -1;

}  // namespace

// Every form that is not for aligned memory, not inlined: base/allocations_testing.h says why.
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  if (until_none >= 0 && until_none-- == 0) return nullptr;
  return std::malloc(size);
}
[[gnu::noinline]] void* operator new(size_t size) {
  if (void* memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}

namespace peercache {
namespace {

using testing::CEngine;

// Calls until no allocation of it fails any more, each time with a later one that does. Returns
// how often that was.
int WithoutMemory(const std::function<int64_t()>& call) {
  for (int64_t at = 0;; ++at) {
    until_none = at;
    const int64_t code = call();
    const bool all = until_none >= 0;
    until_none = -1;
    if (all) {
      EXPECT_GE(code, 0) << pc_error();
      return static_cast<int>(at);
    }
    // What can do without that memory has gone on.
    EXPECT_TRUE(code >= 0 || code == PC_ENOMEM || code == PC_EFULL || code == PC_EREFUSED) << code;
    if (code == PC_ENOMEM) {
      EXPECT_EQ(std::string(pc_error()), "this process has no memory left");
    }
  }
}

TEST(NoMemoryTest, CallsFailOrDoWhatTheyShould) {
  testing::TempDir dir;
  const std::string socket = dir.path() + "/none.sock";
  pc_open_args args{};
  args.size = sizeof(args);
  args.socket = socket.c_str();
  EXPECT_GT(WithoutMemory([&] {
              pc_client* client = nullptr;
              const int code = pc_open(&args, &client);
              pc_close(client);
              return code;
            }),
            0);
  CEngine engine(socket);
  EXPECT_GT(WithoutMemory([&] {
              pc_queue* queue = nullptr;
              const int code = pc_queue_open(engine.client(), nullptr, &queue);
              pc_queue_close(queue);
              return code;
            }),
            0);
  EXPECT_GT(WithoutMemory([&] {
              return pc_share_range(engine.client(), engine.memory().data(), engine.memory().size(),
                                    nullptr);
            }),
            0);
}

TEST(NoMemoryTest, AnOpIsTakenWholeOrNotAtAll) {
  testing::TempDir dir;
  CEngine engine(dir.path() + "/none.sock", {.size = 0, .window = 1, .depth = 2, .reserved = 0});
  const auto keys = testing::CKeys(0, 3);
  std::vector<pc_iov> iovs = engine.Iovs(0, {100});
  for (size_t page : {1, 2}) iovs.push_back(engine.Iovs(page)[0]);
  const std::vector<uint32_t> counts{2, 1, 1};  // two calls
  auto op = CEngine::Op(PC_GET, keys, iovs);
  op.iovs_per_page = 0;
  op.iov_counts = counts.data();
  const int failures = WithoutMemory([&] {
    const int64_t taken = pc_submit(engine.queue(), &op, 1);
    const int64_t left = until_none;
    until_none = -1;
    // Each op that was taken ends; of depth 2 none is lost.
    if (taken == 1) {
      EXPECT_EQ(engine.Await(op).hits(), 0u);
    }
    until_none = left;
    return taken;
  });
  EXPECT_GT(failures, 5);
  EXPECT_FALSE(engine.readable());
}

}  // namespace
}  // namespace peercache
