// peercached: the node as a process, for the DaemonSet, the sidecar and bare metal.
//
//   peercached [OPTIONS]                  runs a node
//   peercached doctor [--json] [OPTIONS]  says what such a node would find on this machine
//   peercached status [OPTIONS]           prints what the node that runs here says of itself
//
// Options come from the configuration file, the environment (PEERCACHE_POOL_SIZE for --pool-size)
// and the command line, later ones winning. Everything is validated before anything is bound.
// SIGTERM and SIGINT leave the membership before the process exits; a second one exits at once.

#include <malloc.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdlib>
#include <map>
#include <string>

#include "base/copy.h"
#include "base/crash_mark.h"
#include "base/descriptors.h"
#include "doctor/doctor.h"
#include "node/config/command_line.h"
#include "node/config/config.h"
#include "node/node.h"
#include "version.h"

namespace {

// Within the 30 s that Kubernetes grants by default.
constexpr std::chrono::milliseconds kLeaveLimit{20'000};

// Every rail of every link to a peer takes one, and every connection.
void RaiseDescriptors() {
  const auto before = peercache::RaiseDescriptorLimit();
  if (!before.ok()) {
    spdlog::warn("{}", before.status().message());
  } else {
    spdlog::info("descriptors: the limit was {}, and is {} now", before->soft, before->hard);
  }
}

// What a large call takes goes back to the system when the call ends. By itself glibc moves both
// bounds up to 32 MiB with the first that is freed, and each thread's heap keeps as much.
void KeepHeapsSmall() {
  constexpr int kBytes = 1 << 20;
  mallopt(M_MMAP_THRESHOLD, kBytes);
  mallopt(M_TRIM_THRESHOLD, kBytes);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace peercache;
  KeepHeapsSmall();
  CLI::App app{
      "PeerCache node: a pool of KV pages, a shard of the directory, and the sockets where "
      "engines and peers meet them."};
  app.set_version_flag("--version", std::string("peercached ") + kVersion);
  std::map<std::string, std::string> values;
  AddNodeOptions(&app, &values);
  CLI::App* const doctor =
      app.add_subcommand("doctor",
                         "Check RDMA devices, NUMA, memory limits and peers instead of running a "
                         "node, with the same "
                         "options. Exit code 0: nothing is wrong, 1: warnings, 2: faults.");
  bool json = false;
  doctor->add_flag("--json", json, "For programs");
  doctor->fallthrough();  // a node's options may stand behind the word, too
  CLI::App* const status = app.add_subcommand(
      "status",
      "Print /v1/status of the node that runs on this machine with these options, as JSON: whole, "
      "where other callers see neither engines nor addresses.");
  status->fallthrough();
  CLI11_PARSE(app, argc, argv);

  auto logger = spdlog::stderr_logger_mt("peercached");
  spdlog::set_default_logger(logger);
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
  auto config = ParseConfig(values);
  if (!config.ok()) {
    spdlog::error("{}; see peercached --help", config.status().message());
    return 2;
  }
  spdlog::set_level(spdlog::level::from_str(config->log_level));
  if (doctor->parsed()) return doctor::Run(*config, json);
  if (status->parsed()) return doctor::PrintStatus(*config);
  if (!config->core_files) prctl(PR_SET_DUMPABLE, 0);  // before a secret is read

  // Before any thread exists, so that all of them inherit the mask and only sigwait sees signals.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  CrashMark::Install();
  InstallCopyGuard();
  RaiseDescriptors();

  auto node = Node::Start(*config);
  if (!node.ok()) {
    spdlog::error("{}", node.status().message());
    return 1;
  }
  int received = 0;
  sigwait(&signals, &received);
  spdlog::info("{}: leaving the cluster; once more to stop at once", strsignal(received));
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  signal(SIGTERM, SIG_DFL);
  signal(SIGINT, SIG_DFL);
  (*node)->Leave(kLeaveLimit);
  return 0;
}
