#include "base/copy.h"

#include <algorithm>
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <mutex>

#include "base/checksum.h"

namespace peercache {
namespace {

// Where a fault of this thread's guarded copy continues. Initial-exec, so that the signal handler
// never allocates thread-local storage.
[[gnu::tls_model("initial-exec")]] thread_local sigjmp_buf* volatile active_guard = nullptr;

struct sigaction previous_action;
std::atomic<bool> installed{false};

void OnSigbus(int signal, siginfo_t* info, void* context) {
  // si_code > 0: raised by the kernel for an access of this thread, not sent with kill().
  if (active_guard != nullptr && info->si_code > 0) {
    sigjmp_buf* guard = active_guard;
    active_guard = nullptr;
    siglongjmp(*guard, 1);
  }
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    previous_action.sa_sigaction(signal, info, context);
  } else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
    previous_action.sa_handler(signal);
  } else {
    // Returning repeats the access, which then kills the process with a core at the right place; a
    // signal that was sent has no access to repeat.
    std::signal(signal, SIG_DFL);
    if (info->si_code <= 0) std::raise(signal);
  }
}

// SA_NODEFER leaves SIGBUS unblocked in the handler, so the signal mask need not be saved and no
// system call is made. ThreadSanitizer runs handlers with everything blocked; there it is saved.
#ifdef __SANITIZE_THREAD__
constexpr int kSaveMask = 1;
#else
constexpr int kSaveMask = 0;
#endif

// Runs `copy` under the guard; false when it faulted. `copy` must not own anything: a fault skips
// destructors.
template <typename Copy>
bool Guarded(const Copy& copy) {
  sigjmp_buf guard;
  if (sigsetjmp(guard, kSaveMask) != 0) return false;
  active_guard = &guard;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  copy();
  std::atomic_signal_fence(std::memory_order_seq_cst);
  active_guard = nullptr;
  return true;
}

template <typename Segment>
size_t Total(std::span<const Segment> segments) {
  size_t total = 0;
  for (const auto& segment : segments) total += segment.size();
  return total;
}

// memcpy of nothing from nowhere is undefined; an empty segment may well have no address.
void Copy(std::byte* to, const std::byte* from, size_t size) {
  if (size != 0) std::memcpy(to, from, size);
}

void GatherAll(std::byte* to, std::span<const ConstBytes> from) {
  for (const ConstBytes& segment : from) {
    Copy(to, segment.data(), segment.size());
    to += segment.size();
  }
}

void ScatterAll(std::span<const Bytes> to, const std::byte* from) {
  for (const Bytes& segment : to) {
    Copy(segment.data(), from, segment.size());
    from += segment.size();
  }
}

void MoveAll(std::span<const Bytes> to, std::span<const Bytes> from) {
  size_t in = 0, in_at = 0;
  for (const Bytes& out : to) {
    for (size_t at = 0; at < out.size();) {
      while (in_at == from[in].size()) {
        ++in;
        in_at = 0;
      }
      const size_t part = std::min(out.size() - at, from[in].size() - in_at);
      std::memcpy(out.data() + at, from[in].data() + in_at, part);
      at += part;
      in_at += part;
    }
  }
}

}  // namespace

size_t TotalSize(std::span<const Bytes> segments) { return Total(segments); }
size_t TotalSize(std::span<const ConstBytes> segments) { return Total(segments); }

bool Gather(Bytes to, std::span<const ConstBytes> from) {
  if (Total(from) != to.size()) return false;
  GatherAll(to.data(), from);
  return true;
}

bool Scatter(std::span<const Bytes> to, ConstBytes from) {
  if (Total(to) != from.size()) return false;
  ScatterAll(to, from.data());
  return true;
}

void InstallCopyGuard() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = OnSigbus;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, nullptr, &previous_action);
    installed = sigaction(SIGBUS, &action, nullptr) == 0;
  });
}

bool CopyGuardInstalled() { return installed.load(std::memory_order_acquire); }

bool GuardedGather(Bytes to, std::span<const ConstBytes> from) {
  if (Total(from) != to.size()) return false;
  return Guarded([&] { GatherAll(to.data(), from); });
}

bool GuardedScatter(std::span<const Bytes> to, ConstBytes from) {
  if (Total(to) != from.size()) return false;
  return Guarded([&] { ScatterAll(to, from.data()); });
}

bool GuardedMove(std::span<const Bytes> to, std::span<const Bytes> from) {
  if (Total(to) != Total(from)) return false;
  return Guarded([&] { MoveAll(to, from); });
}

bool GuardedLoad(const std::byte* from, uint64_t* word) {
  auto& there = *reinterpret_cast<uint64_t*>(const_cast<std::byte*>(from));
  return Guarded([&] { *word = std::atomic_ref(there).load(std::memory_order_acquire); });
}

bool GuardedChecksum(std::span<const ConstBytes> bytes, uint64_t* checksum) {
  return Guarded([&] { *checksum = Checksum(bytes); });
}

}  // namespace peercache
