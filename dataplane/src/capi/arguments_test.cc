// Wrong arguments: a code, and a text that names the field.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "capi/capi_testing.h"
#include "version.h"

namespace peercache {
namespace {

using testing::CEngine;
using testing::CKeys;

class ArgumentsTest : public ::testing::Test {
 protected:
  // The call has failed with PC_EINVAL, and the text begins with the field.
  static void Refused(int64_t code, const std::string& field) {
    EXPECT_EQ(code, PC_EINVAL) << field;
    EXPECT_EQ(std::string(pc_error()).rfind(field, 0), 0u) << field << " is not in: " << pc_error();
  }
  void RefusedOp(const std::string& field, const std::function<void(pc_op*)>& spoil,
                 int kind = PC_GET) {
    const std::vector<pc_iov> none;
    pc_op op = CEngine::Op(kind, keys_, kind == PC_PRESENCE ? none : iovs_);
    spoil(&op);
    Refused(pc_submit(engine_.queue(), &op, 1), "ops[0]." + field);
  }

  testing::TempDir dir_;
  const std::string socket_ = dir_.path() + "/none.sock";
  CEngine engine_{socket_};
  const std::vector<pc_key> keys_ = CKeys(0, 2);
  std::vector<pc_iov> iovs_{engine_.Iovs(0)[0], engine_.Iovs(1)[0]};
};

TEST_F(ArgumentsTest, FieldsOfAnOp) {
  RefusedOp("kind: 0", [](pc_op* op) { op->kind = 0; });
  RefusedOp("kind: 4", [](pc_op* op) { op->kind = 4; });
  RefusedOp("reserved", [](pc_op* op) { op->reserved = 1; });
  RefusedOp("flags: 0x2", [](pc_op* op) { op->flags = 2; });
  RefusedOp(
      "flags", [](pc_op* op) { op->flags = PC_UNCOUNTED; }, PC_SET);
  RefusedOp("pages: 0", [](pc_op* op) { op->pages = 0; });
  RefusedOp("pages: 65537", [](pc_op* op) { op->pages = PC_MAX_PAGES + 1; });
  RefusedOp("keys", [](pc_op* op) { op->keys = nullptr; });
  RefusedOp("tag", [](pc_op* op) { op->tag = 1; });
  RefusedOp(
      "page_tokens", [](pc_op* op) { op->page_tokens = 1; }, PC_SET);
  RefusedOp("deadline_us", [](pc_op* op) { op->deadline_us = 1; });
  RefusedOp("iovs", [](pc_op* op) { op->iovs = nullptr; });
  RefusedOp("iovs_per_page: 1025", [](pc_op* op) { op->iovs_per_page = PC_MAX_IOVS + 1; });
  RefusedOp("iov_counts", [](pc_op* op) { op->iovs_per_page = 0; });
  const uint32_t counts[] = {1, 0};
  RefusedOp("iov_counts", [&](pc_op* op) { op->iov_counts = counts; });
  RefusedOp("iov_counts[1]: 0", [&](pc_op* op) {
    op->iovs_per_page = 0;
    op->iov_counts = counts;
  });
  RefusedOp(
      "iovs", [&](pc_op* op) { op->iovs = iovs_.data(); }, PC_PRESENCE);
  RefusedOp(
      "iovs_per_page", [](pc_op* op) { op->iovs_per_page = 1; }, PC_PRESENCE);
  const auto iov = [this](uint64_t address, uint64_t length) {
    iovs_[1] = {address, length};
    RefusedOp("iovs[1]", [](pc_op*) {});
  };
  iov(0, 8);
  iov(4096, 0);
  iov(4096, uint64_t{1} << 32);
  iov(UINT64_MAX - 8, 16);
  const std::vector<pc_iov> large(2, {4096, UINT32_MAX});
  RefusedOp("iovs: page 0", [&](pc_op* op) {
    op->pages = 1;
    op->iovs = large.data();
    op->iovs_per_page = 2;
  });
  EXPECT_FALSE(engine_.readable()) << "none was taken";
}

TEST_F(ArgumentsTest, StructsGrow) {
  pc_op op = CEngine::Op(PC_PRESENCE, keys_, {});
  op.size = sizeof(op) - 1;
  Refused(pc_submit(engine_.queue(), &op, 1), "ops[0].size");
  op.size = 1 << 20;
  Refused(pc_submit(engine_.queue(), &op, 1), "ops[0].size");
  // Of a later release, whose new fields are 0 in the first and not in the second op.
  struct Larger {
    pc_op op;
    uint64_t more;
  };
  std::array<Larger, 2> later{Larger{op, 0}, Larger{op, 1}};
  for (Larger& l : later) l.op.size = sizeof(Larger);
  EXPECT_EQ(pc_submit(engine_.queue(), &later[0].op, 2), 1) << "one after the other";
  EXPECT_EQ(engine_.Await(op).ok.size(), keys_.size());
  Refused(pc_submit(engine_.queue(), &later[1].op, 1), "ops[0].size");
  EXPECT_NE(std::string(pc_error()).find(kVersion), std::string::npos) << pc_error();
  std::array<Larger, 2> mixed{Larger{op, 0}, Larger{op, 0}};
  mixed[0].op.size = sizeof(Larger);
  mixed[1].op.size = sizeof(pc_op);
  EXPECT_EQ(pc_submit(engine_.queue(), &mixed[0].op, 2), 1) << "a size of its own";
  EXPECT_EQ(engine_.Await(op).ok.size(), keys_.size());

  struct {
    pc_state_info info;
    uint64_t more;
  } state{};
  state.more = 1;
  state.info.size = sizeof(state);
  EXPECT_EQ(pc_state(engine_.client(), &state.info), PC_OK) << pc_error();
  EXPECT_EQ(state.more, 0u) << "what the library does not know is 0";
  EXPECT_EQ(state.info.size, sizeof(state));
  state.info.size = 4;
  Refused(pc_state(engine_.client(), &state.info), "size: 4");
}

TEST_F(ArgumentsTest, OfOpen) {
  pc_client* client = nullptr;
  const auto refused = [&](const std::string& field,
                           const std::function<void(pc_open_args*)>& spoil) {
    pc_open_args args{};
    args.size = sizeof(args);
    args.socket = socket_.c_str();
    spoil(&args);
    Refused(pc_open(&args, &client), field);
    EXPECT_EQ(client, nullptr);
  };
  refused("size", [](pc_open_args* args) { args->size = 0; });
  refused("timeout_ms", [](pc_open_args* args) { args->timeout_ms = PC_MAX_TIMEOUT_MS + 1; });
  refused("engine: 0", [](pc_open_args* args) { args->engine = ""; });
  refused("engine", [](pc_open_args* args) { args->engine = "two words"; });
  const std::string long_name(PC_MAX_ENGINE + 1, 'x');
  refused("engine: 129", [&](pc_open_args* args) { args->engine = long_name.c_str(); });
  refused("staging_bytes", [](pc_open_args* args) { args->staging_bytes = UINT64_MAX; });
  refused("socket", [](pc_open_args* args) { args->socket = ""; });
  unsetenv("PEERCACHE_SOCKET");
  refused("socket", [](pc_open_args* args) { args->socket = nullptr; });
  Refused(pc_open(nullptr, &client), "args");
  pc_open_args args{};
  args.size = sizeof(args);
  args.socket = "/dev/null";
  EXPECT_EQ(pc_open(&args, &client), PC_EREFUSED) << "no socket";
  EXPECT_NE(std::string(pc_error()).find("/dev/null"), std::string::npos) << pc_error();
  Refused(pc_open(&args, nullptr), "client");
}

TEST_F(ArgumentsTest, OfMemory) {
  char byte = 0;
  Refused(pc_share_fd(engine_.client(), -1, &byte, 1, 0), "fd: -1");
  Refused(pc_share_fd(engine_.client(), 0, nullptr, 1, 0), "base");
  Refused(pc_share_fd(engine_.client(), 0, &byte, 0, 0), "length: 0");
  Refused(pc_share_fd(engine_.client(), 0, &byte, 1, UINT64_MAX), "fd_offset");
  size_t shared = 1;
  Refused(pc_share_range(engine_.client(), &byte, SIZE_MAX, &shared), "length");
  EXPECT_EQ(shared, 0u);
  Refused(pc_unshare(engine_.client(), nullptr, 1), "base");
}

TEST_F(ArgumentsTest, OfQueuesAndNull) {
  pc_queue* queue = nullptr;
  const auto refused = [&](const std::string& field, pc_queue_args args) {
    Refused(pc_queue_open(engine_.client(), &args, &queue), field);
    EXPECT_EQ(queue, nullptr);
  };
  refused("size", {0, 0, 0, 0});
  refused("window: 33", {sizeof(pc_queue_args), 33, 0, 0});
  refused("depth: 65537", {sizeof(pc_queue_args), 0, 65'537, 0});
  refused("reserved", {sizeof(pc_queue_args), 0, 0, 1});
  Refused(pc_queue_open(nullptr, nullptr, &queue), "client");
  Refused(pc_queue_open(engine_.client(), nullptr, nullptr), "queue");
  Refused(pc_queue_fd(nullptr), "queue");
  Refused(pc_submit(nullptr, nullptr, 0), "queue");
  Refused(pc_submit(engine_.queue(), nullptr, 1), "ops");
  Refused(pc_reap(nullptr, nullptr, 0), "queue");
  Refused(pc_reap(engine_.queue(), nullptr, 1), "completions");
  Refused(pc_wait(nullptr, 0), "queue");
  Refused(pc_cancel(nullptr, 0), "queue");
  Refused(pc_clear(nullptr, 0), "client");
  Refused(pc_set_prefill(nullptr, 1), "client");
  Refused(pc_share_range(nullptr, nullptr, 0, nullptr), "client");
  pc_state_info info{};
  Refused(pc_state(nullptr, &info), "client");
  Refused(pc_state(engine_.client(), nullptr), "info");
  EXPECT_EQ(pc_can(nullptr), 0u);
  pc_queue_close(nullptr);
  pc_close(nullptr);
}

TEST_F(ArgumentsTest, OfNames) {
  pc_namespace space{};
  pc_key key{};
  Refused(pc_namespace_make(nullptr, 1, &space), "identity");
  Refused(pc_namespace_make("", 0, nullptr), "space");
  Refused(pc_key_make(nullptr, "", 0, &key), "prefix");
  Refused(pc_key_make(&space.prefix, nullptr, 1, &key), "name");
  Refused(pc_key_make(&space.prefix, "", 0, nullptr), "key");
  Refused(pc_key_of_digest(nullptr, key.bytes, &key), "prefix");
  Refused(pc_key_of_digest(&space.prefix, nullptr, &key), "digest");
  Refused(pc_key_of_digest(&space.prefix, key.bytes, nullptr), "key");
}

std::string Hex(const pc_key& key) {
  std::string text;
  for (const uint8_t byte : key.bytes) text += fmt::format("{:02x}", byte);
  return text;
}

// Other releases and processes must find the pages: these never change. Made with Python's hashlib.
TEST(Names, AreTheSameInEveryRelease) {
  pc_namespace space{};
  ASSERT_EQ(pc_namespace_make("model", 5, &space), PC_OK);
  EXPECT_EQ(Hex(space.prefix), "24d7ca8a230c2f57898a80520b3760a0963459797e5b554d9e1197a7be8961b4");
  EXPECT_EQ(space.tag, 12763336787379799325u);
  pc_key key{};
  ASSERT_EQ(pc_key_make(&space.prefix, "block-7", 7, &key), PC_OK);
  EXPECT_EQ(Hex(key), "45e9e2251151a7f92c0194467b7c9084445e1d87e729734a62b4ba917e02d329");
  const pc_key none{};
  ASSERT_EQ(pc_key_of_digest(&space.prefix, none.bytes, &key), PC_OK);
  EXPECT_EQ(Hex(key), Hex(space.prefix));
  pc_namespace other{};
  ASSERT_EQ(pc_namespace_make("model2", 6, &other), PC_OK);
  EXPECT_NE(Hex(other.prefix), Hex(space.prefix));
  EXPECT_NE(other.tag, space.tag);
}

TEST(Names, TheErrorIsOfTheThread) {
  EXPECT_EQ(pc_clear(nullptr, 0), PC_EINVAL);
  std::thread([] { EXPECT_EQ(std::string(pc_error()), ""); }).join();
  EXPECT_EQ(std::string(pc_error()), "client: NULL");
  EXPECT_EQ(std::string(pc_version()), kVersion);
}

std::string logged;

TEST(Names, TheLogGoesToTheCaller) {
  testing::TestCluster cluster;
  pc_log(
      [](void* context, int level, const char* line) {
        if (level == 2) static_cast<std::string*>(context)->append(line).append("\n");
      },
      &logged);
  { CEngine engine(cluster.dir() + "/nobody.sock"); }
  pc_log(nullptr, nullptr);
  EXPECT_NE(logged.find("nobody.sock"), std::string::npos) << logged;
}

}  // namespace
}  // namespace peercache
