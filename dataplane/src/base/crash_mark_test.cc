#include "base/crash_mark.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <new>

namespace peercache {
namespace {

using Word = std::atomic<uint32_t>;

// What is marked by a process of which `end` is the end.
template <typename End>
uint32_t MarkOf(const End& end, bool registered = true) {
  void* shared = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* word = new (shared) Word(0);
  if (const pid_t pid = fork(); pid == 0) {
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    // Not the sanitizer's, which would say much of each.
    for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) signal(fault, SIG_DFL);
    CrashMark::Install();
    {
      CrashMark mark(word);
      if (registered) end();
    }
    end();
    _exit(0);
  } else {
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "it did not end by it";
  }
  const uint32_t marked = *word;
  munmap(shared, 4096);
  return marked;
}

TEST(CrashMark, SaysWhichFaultEndedTheProcess) {
  EXPECT_EQ(MarkOf([] { abort(); }), static_cast<uint32_t>(SIGABRT));
  EXPECT_EQ(MarkOf([] {
              auto* nowhere = static_cast<volatile char*>(
                  mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
              *nowhere = 1;
            }),
            static_cast<uint32_t>(SIGSEGV));
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE})
    EXPECT_EQ(MarkOf([signal] { raise(signal); }), static_cast<uint32_t>(signal));
}

TEST(CrashMark, SaysNothingOfWhoWasKilledOrHasNoMark) {
  EXPECT_EQ(MarkOf([] { raise(SIGKILL); }), 0u);
  EXPECT_EQ(MarkOf([] { raise(SIGTERM); }), 0u);
  EXPECT_EQ(MarkOf([] { raise(SIGSEGV); }, false), 0u);
}

}  // namespace
}  // namespace peercache
