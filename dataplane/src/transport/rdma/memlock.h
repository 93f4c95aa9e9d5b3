// Memlock: what this process may lock of memory, which registering with a device does, and what it
// needs. The kernel counts every registration by itself: a pool on two rails counts twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace peercache::rdma {

struct Memlock {
  uint64_t limit = UINT64_MAX;  // RLIMIT_MEMLOCK; UINT64_MAX: unlimited
  uint64_t locked = 0;          // already, by registrations
  uint32_t uid = 0;
  bool ipc_lock = false;  // CAP_IPC_LOCK is in effect: the limit does not bind
  bool ipc_lock_granted =
      false;  // but only in the bounding set, as containers of other users have it
  bool user_namespace = false;  // capabilities are not those that the kernel asks for here

  bool binds() const { return !ipc_lock && limit != UINT64_MAX; }
};

// Of this process.
Memlock ReadMemlock();
// The texts of /proc/PID/status and /proc/PID/uid_map.
Memlock ParseMemlock(const std::string& status, const std::string& uid_map, uint64_t limit);

// What registering `bytes` with `rails` that lock it adds.
constexpr uint64_t LockedBy(uint64_t bytes, size_t rails) { return bytes * rails; }
// Ok when that may be locked; else the limit, the need and the remedy. `what`: "pool".
Status CheckMemlock(const std::string& what, uint64_t bytes, size_t rails, const Memlock& memlock);
// "raise it ...", for whoever this process is.
std::string MemlockRemedy(const Memlock& memlock);

}  // namespace peercache::rdma
