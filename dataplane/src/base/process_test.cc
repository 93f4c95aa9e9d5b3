#include "base/process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace peercache {
namespace {

// What a process that has inherited `process` sees: a byte for each look at it.
void Watch(int process, int report) {
  pollfd event{process, POLLIN, 0};
  const char early = poll(&event, 1, 50) == 0 ? 'r' : '?';  // it runs
  const bool told = write(report, &early, 1) == 1;
  const char late = poll(&event, 1, 10'000) == 1 && (event.revents & POLLIN) != 0 ? 'e' : '?';
  _exit(told && write(report, &late, 1) == 1 ? 0 : 1);
}

TEST(ThisProcess, IsReadableToOthersWhenItHasEnded) {
  int report[2];
  ASSERT_EQ(pipe(report), 0);
  const UniqueFd from(report[0]);
  UniqueFd to(report[1]);
  const pid_t child = fork();
  if (child == 0) {
    const auto process = OpenThisProcess();
    if (!process.ok()) _exit(1);
    if (fork() == 0) Watch(process->get(), to.get());
    to.Reset();
    for (;;) pause();
  }
  to.Reset();
  char seen = 0;
  ASSERT_EQ(read(from.get(), &seen, 1), 1);
  EXPECT_EQ(seen, 'r');
  EXPECT_EQ(kill(child, SIGKILL), 0);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  ASSERT_EQ(read(from.get(), &seen, 1), 1);
  EXPECT_EQ(seen, 'e');
}

}  // namespace
}  // namespace peercache
