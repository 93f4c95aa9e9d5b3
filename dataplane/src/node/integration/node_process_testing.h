// A node that is a process of its own, which tests can stop and kill.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace peercache::testing {

// How often a test kills one: PEERCACHE_KILL_ROUNDS, or a few times.
inline int KillRounds() {
  const char* given = getenv("PEERCACHE_KILL_ROUNDS");
  return given == nullptr ? 4 : atoi(given);
}

// peercached, as it lies beside this program. Ends with this object.
class NodeProcess {
 public:
  // `options`: "name=value". `within`: a command that runs another one.
  explicit NodeProcess(const std::vector<std::string>& options,
                       std::vector<std::string> within = {}) {
    std::vector<std::string> words = std::move(within);
    // Most tests are about what nodes send each other. An option overrides this.
    setenv("PEERCACHE_MAP_POOLS", "off", 1);
    words.push_back(std::filesystem::read_symlink("/proc/self/exe").parent_path() / "peercached");
    for (const std::string& option : options) words.push_back("--" + option);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    EXPECT_EQ(posix_spawnp(&pid_, arguments[0], nullptr, nullptr, arguments.data(), environ), 0)
        << words[0];
  }
  ~NodeProcess() { End(SIGKILL); }
  NodeProcess(const NodeProcess&) = delete;
  NodeProcess& operator=(const NodeProcess&) = delete;

  // After SIGSTOP no thread of it runs, which a busy machine takes time for.
  void Signal(int signal) const {
    if (pid_ <= 0) return;
    kill(pid_, signal);
    siginfo_t stopped;
    if (signal == SIGSTOP) waitid(P_PID, pid_, &stopped, WSTOPPED | WEXITED | WNOWAIT);
  }
  // Waits until the signal has ended it.
  void End(int signal) {
    Signal(signal);
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
};

}  // namespace peercache::testing
