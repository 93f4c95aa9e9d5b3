#include "base/crash_mark.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <mutex>

namespace peercache {
namespace {

constexpr std::array<int, 5> kFaults = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
// Nodes in one process: tests have some.
constexpr size_t kMostMarks = 16;

std::array<std::atomic<std::atomic<uint32_t>*>, kMostMarks> marks;
std::array<struct sigaction, kFaults.size()> previous;

// Async-signal-safe. What follows is as if this handler had never been: the access is repeated, a
// signal that was sent is sent again.
void OnFault(int signal, siginfo_t* info, void*) {
  for (auto& mark : marks)
    if (std::atomic<uint32_t>* word = mark.load(std::memory_order_acquire); word != nullptr)
      word->store(static_cast<uint32_t>(signal), std::memory_order_release);
  const auto which = std::find(kFaults.begin(), kFaults.end(), signal) - kFaults.begin();
  sigaction(signal, &previous[static_cast<size_t>(which)], nullptr);
  if (info->si_code <= 0) raise(signal);
}

}  // namespace

void CrashMark::Install() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = OnFault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < kFaults.size(); ++i) sigaction(kFaults[i], &action, &previous[i]);
  });
}

CrashMark::CrashMark(std::atomic<uint32_t>* word) : word_(word) {
  for (auto& mark : marks) {
    std::atomic<uint32_t>* none = nullptr;
    if (mark.compare_exchange_strong(none, word, std::memory_order_acq_rel)) return;
  }
}

CrashMark::~CrashMark() {
  for (auto& mark : marks) {
    std::atomic<uint32_t>* own = word_;
    if (mark.compare_exchange_strong(own, nullptr, std::memory_order_acq_rel)) return;
  }
}

}  // namespace peercache
