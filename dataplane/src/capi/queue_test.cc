// What a queue does with ops that wait, are late, are too many or are cancelled.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <list>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/no_thread_testing.h"
#include "capi/capi_testing.h"
#include "node/integration/node_process_testing.h"
#include "wire/messages.h"
#include "wire/stream.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;

using testing::CEngine;
using testing::CKeys;
using testing::Completed;
using testing::Eventually;

// Without a member: ops end at once.
class QueueTest : public ::testing::Test {
 protected:
  testing::TempDir dir_;
  const std::string socket_ = dir_.path() + "/none.sock";
  const std::vector<pc_key> keys_ = CKeys(0, 100);
};

TEST_F(QueueTest, TheDescriptorIsReadableWhileCompletionsWait) {
  CEngine engine(socket_);
  EXPECT_FALSE(engine.readable());
  EXPECT_EQ(pc_wait(engine.queue(), 0), PC_ETIME);
  const auto op = CEngine::Op(PC_PRESENCE, keys_, {});
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(pc_submit(engine.queue(), &op, 1), 1);
    pollfd event{pc_queue_fd(engine.queue()), POLLIN, 0};
    ASSERT_EQ(poll(&event, 1, 60'000), 1);
    pc_completion completions[3];
    ASSERT_EQ(pc_reap(engine.queue(), completions, 0), 0);
    ASSERT_EQ(pc_reap(engine.queue(), completions, 1), 1);
    EXPECT_EQ(completions[0].count, 64);
    EXPECT_EQ(completions[0].flags, PC_MORE);
    EXPECT_TRUE(engine.readable()) << "the op has another one";
    ASSERT_EQ(pc_reap(engine.queue(), completions, 3), 1);
    EXPECT_EQ(completions[0].first, 64u);
    EXPECT_EQ(completions[0].count, 36);
    EXPECT_EQ(completions[0].flags, 0);
    EXPECT_FALSE(engine.readable());
    EXPECT_EQ(pc_reap(engine.queue(), completions, 3), 0);
  }
}

TEST_F(QueueTest, TakesNoMoreThanItsDepth) {
  CEngine engine(socket_, {.size = 0, .window = 1, .depth = 2, .reserved = 0});
  const std::vector<pc_op> ops(3, CEngine::Op(PC_PRESENCE, keys_, {}));
  EXPECT_EQ(pc_submit(engine.queue(), ops.data(), 3), 2) << "those that there was room for";
  EXPECT_EQ(pc_submit(engine.queue(), ops.data(), 1), PC_EFULL);
  EXPECT_NE(std::string(pc_error()).find("reap their completions"), std::string::npos)
      << pc_error();
  pc_completion completion;
  ASSERT_EQ(pc_wait(engine.queue(), 60'000), PC_OK);
  ASSERT_EQ(pc_reap(engine.queue(), &completion, 1), 1);
  EXPECT_EQ(pc_submit(engine.queue(), ops.data(), 1), PC_EFULL) << "half of it is reaped";
  ASSERT_EQ(pc_reap(engine.queue(), &completion, 1), 1);
  EXPECT_EQ(pc_submit(engine.queue(), ops.data(), 1), 1);
}

TEST_F(QueueTest, WithoutAThreadOpsAreRefusedUntilThereIsOne) {
  std::optional<testing::NoMoreThreads> none;
  CEngine engine(socket_);
  none.emplace();
  pc_queue* queue = nullptr;
  ASSERT_EQ(pc_queue_open(engine.client(), nullptr, &queue), PC_OK) << pc_error();
  auto op = CEngine::Op(PC_PRESENCE, keys_, {});
  EXPECT_EQ(pc_submit(queue, &op, 1), PC_EFULL);
  EXPECT_NE(std::string(pc_error()).find("no thread"), std::string::npos) << pc_error();
  op.deadline_us = 1'000'000;
  EXPECT_EQ(pc_submit(queue, &op, 1), PC_EFULL) << "nor one for deadlines";
  pc_client* refused = nullptr;
  pc_open_args args{};
  args.size = sizeof(args);
  args.socket = socket_.c_str();
  EXPECT_EQ(pc_open(&args, &refused), PC_EREFUSED);
  EXPECT_EQ(refused, nullptr);
  none.reset();
  EXPECT_EQ(pc_submit(queue, &op, 1), 1) << pc_error();
  EXPECT_EQ(pc_wait(queue, 60'000), PC_OK);
  pc_queue_close(queue);
}

// A member that can be stopped.
class StoppedMemberTest : public ::testing::Test {
 protected:
  StoppedMemberTest() {
    EXPECT_TRUE(Eventually([&] { return engine_.state().attached == 1; }));
    EXPECT_TRUE(Eventually([&] { return engine_.Set(0, 4).hits() == 4; }));
  }
  pc_op Presence(const std::vector<pc_key>& keys, uint64_t user_data, uint32_t deadline_us = 0) {
    auto op = CEngine::Op(PC_PRESENCE, keys, {});
    op.user_data = user_data;
    op.deadline_us = deadline_us;
    return op;
  }

  testing::TempDir dir_;
  const std::string socket_ = dir_.path() + "/node.sock";
  testing::NodeProcess node_{{"node-id=stopped", "bind-addr=127.0.0.1", "advertise-addr=127.0.0.1",
                              "peer-port=0", "http=off", "huge-pages=off", "pool-size=16Mi",
                              "log-level=error", "socket=" + socket_}};
  CEngine engine_{socket_, {.size = 0, .window = 1, .depth = 0, .reserved = 0}, 60'000};
  const std::vector<pc_key> keys_ = CKeys(0, 4);
};

TEST_F(StoppedMemberTest, AnOpThatHasNotBegunIsCancelled) {
  node_.Signal(SIGSTOP);
  const pc_op ops[] = {Presence(keys_, 1), Presence(keys_, 2), Presence(keys_, 2)};
  ASSERT_EQ(pc_submit(engine_.queue(), ops, 3), 3);
  EXPECT_EQ(pc_cancel(engine_.queue(), 2), 2);
  EXPECT_EQ(pc_cancel(engine_.queue(), 2), 0) << "they have ended";
  EXPECT_EQ(pc_cancel(engine_.queue(), 3), 0);
  for (int i = 0; i < 2; ++i) {
    const Completed cancelled = engine_.Await(ops[1]);
    EXPECT_EQ(cancelled.result, PC_ECANCELED);
    EXPECT_EQ(cancelled.hits(), 0u);
  }
  node_.Signal(SIGCONT);
  const Completed first = engine_.Await(ops[0]);
  EXPECT_EQ(first.result, PC_OK);
  EXPECT_EQ(first.hits(), 4u);
}

TEST_F(StoppedMemberTest, APresenceEndsAtItsDeadlineAndTheConnectionLives) {
  node_.Signal(SIGSTOP);
  // The first one is asked; the second one waits for its turn.
  const pc_op ops[] = {Presence(keys_, 1, 20'000), Presence(keys_, 1, 300)};
  ASSERT_EQ(pc_submit(engine_.queue(), ops, 2), 2);
  for (int i = 0; i < 2; ++i) {
    const Completed late = engine_.Await(ops[0]);
    EXPECT_EQ(late.result, PC_ETIME);
    EXPECT_EQ(late.hits(), 0u);
  }
  EXPECT_EQ(engine_.state().presence_pages, 0u) << "the first one has no answer yet";
  node_.Signal(SIGCONT);
  const Completed answered = engine_.Run(Presence(keys_, 2, 60'000'000));
  EXPECT_EQ(answered.result, PC_OK);
  EXPECT_EQ(answered.hits(), 4u);
  const pc_state_info state = engine_.state();
  EXPECT_EQ(state.presence_pages, 8u) << "the second one was not asked";
  EXPECT_EQ(state.faults, 0u) << state.last_fault;
  EXPECT_EQ(state.reconnects, 0u);
}

// Answers as a member of a release before Presence.
class OldMember {
 public:
  explicit OldMember(const std::string& socket) : listener_(ListenUnix(socket, 0600).value()) {
    thread_ = std::thread([this] { Serve(); });
  }
  ~OldMember() {
    shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }

 private:
  void Serve() {
    std::list<UniqueFd> engines;
    for (;;) {
      std::vector<pollfd> events{{listener_.get(), POLLIN, 0}};
      for (const UniqueFd& engine : engines) events.push_back({engine.get(), POLLIN, 0});
      poll(events.data(), events.size(), -1);
      for (auto& engine : engines) {
        pollfd event{engine.get(), POLLIN, 0};
        ReceivedFrame frame;
        if (poll(&event, 1, 0) != 1) continue;
        if (!ReceiveFrame(engine.get(), std::nullopt, &frame).ok()) return;
        FrameWriter answer;
        answer.Start(AnswerTo(frame.header.type), frame.header.request_id);
        AttachOk{7, "old", "0"}.Encode(&answer);
        if (!SendFrame(engine.get(), answer.Finish(), -1, Clock::now() + 60s).ok()) return;
      }
      if ((events[0].revents & POLLHUP) != 0) return;
      if (UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)); fd)
        engines.push_back(std::move(fd));
    }
  }

  const UniqueFd listener_;
  std::thread thread_;
};

TEST(OldMemberTest, DoesNotKnowPresence) {
  testing::TempDir dir;
  const std::string socket = dir.path() + "/old.sock";
  OldMember old(socket);
  CEngine engine(socket);
  ASSERT_EQ(engine.state().attached, 1u) << engine.state().detached;
  EXPECT_EQ(pc_can(engine.client()), 0u);
  const Completed answer = engine.Presence(0, 4);
  EXPECT_EQ(answer.result, PC_EOLD);
  EXPECT_EQ(answer.hits(), 0u);
}

}  // namespace
}  // namespace peercache
