// OrderForDevices: what this thread has written comes before all that it writes, or asks for, from
// here on. Also for who is no thread: another process that has the memory mapped, and a device that
// reads it by itself.
//
// A release store does not do that. It comes after what was before, and what follows may still
// overtake it: on arm64 without atomic instructions also after an exchange with
// memory_order_seq_cst.
#pragma once

#include <atomic>

namespace peercache {

inline void OrderForDevices() {
#if defined(__aarch64__)
  // The fence of C++ is for processors alone (ish); a device may be in the outer domain.
  asm volatile("dmb osh" ::: "memory");
#endif
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace peercache
