// Whom the kernel says a connection is of, where names of processes mean nothing.

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <optional>

#include "base/temp_dir_testing.h"
#include "wire/stream.h"

namespace peercache {
namespace {

// What `body` returns, in a process of its own.
int InChild(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::optional<PeerCredentials> AcceptOne(int listener) {
  const auto ready = WaitFor(listener, POLLIN, Clock::now() + std::chrono::seconds(20));
  if (!ready.ok() || !*ready) return std::nullopt;
  const UniqueFd fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  const auto peer = CredentialsOf(fd.get());
  return peer.ok() ? std::optional(*peer) : std::nullopt;
}

// As a node in a container of its own sees engines in others: the pids of all are 0.
TEST(PeerCredentialsTest, ProcessesOfOtherPidNamespacesAreToldApart) {
  if (geteuid() != 0) GTEST_SKIP() << "a PID namespace needs root: run this test as root";
  const testing::TempDir folder;
  const auto listener = ListenUnix(folder.path() + "/socket", 0600);
  ASSERT_TRUE(listener.ok()) << listener.status().ToString();
  const auto connect = [&] { return ConnectUnix(folder.path() + "/socket"); };
  const auto first = connect(), second = connect();
  ASSERT_TRUE(first.ok() && second.ok());
  const pid_t another = fork();
  if (another == 0) {
    const auto third = connect();
    if (third.ok()) pause();
    _exit(1);
  }
  const int outcome = InChild([&] {
    if (unshare(CLONE_NEWPID) != 0) return 1;
    return InChild([&] {
      const auto one = AcceptOne(listener->get()), again = AcceptOne(listener->get()),
                 other = AcceptOne(listener->get());
      if (!one || !again || !other) return 2;
      if (one->pid != 0 || other->pid != 0) return 3;
      if (one->process == 0 || one->process != again->process) return 4;
      return other->process == 0 || other->process == one->process ? 5 : 0;
    });
  });
  kill(another, SIGKILL);
  waitpid(another, nullptr, 0);
  EXPECT_EQ(outcome, 0) << "1: no namespace; 2: no connection; 3: pids are seen; 4: a process is "
                           "not known again (Linux before 6.9); 5: two are taken for one";
}

}  // namespace
}  // namespace peercache
