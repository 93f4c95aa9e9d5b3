#include "transport/rdma/memlock.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <charconv>
#include <string_view>

#include "base/size.h"
#include "base/small_file.h"

namespace peercache::rdma {
namespace {

// The text behind "Name:" in /proc/PID/status.
std::string_view Field(std::string_view status, std::string_view name) {
  size_t at = status.find(name);
  if (at == status.npos) return {};
  at = status.find_first_not_of(" \t", at + name.size());
  return at == status.npos ? std::string_view() : status.substr(at, status.find('\n', at) - at);
}

bool HasIpcLock(std::string_view capabilities) {
  constexpr unsigned kIpcLock = 14;  // CAP_IPC_LOCK of <linux/capability.h>
  uint64_t mask = 0;
  std::from_chars(capabilities.data(), capabilities.data() + capabilities.size(), mask, 16);
  return (mask >> kIpcLock & 1) != 0;
}

// The first namespace maps all ids to themselves.
bool IsUserNamespace(std::string_view uid_map) {
  return !uid_map.empty() && uid_map.find("4294967295") == uid_map.npos;
}

}  // namespace

Memlock ParseMemlock(const std::string& status, const std::string& uid_map, uint64_t limit) {
  Memlock memlock;
  memlock.limit = limit;
  memlock.locked = ParseLeadingNumber<uint64_t>(Field(status, "VmPin:")).value_or(0) << 10;
  // Real, effective, saved, file system.
  std::string_view uids = Field(status, "Uid:");
  const size_t effective = uids.find('\t');
  if (effective != uids.npos) uids.remove_prefix(effective + 1);
  memlock.uid = ParseLeadingNumber<uint32_t>(uids).value_or(0);
  memlock.user_namespace = IsUserNamespace(uid_map);
  memlock.ipc_lock = HasIpcLock(Field(status, "CapEff:")) && !memlock.user_namespace;
  memlock.ipc_lock_granted = HasIpcLock(Field(status, "CapBnd:"));
  return memlock;
}

Memlock ReadMemlock() {
  rlimit limit{};
  const bool bound = ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return ParseMemlock(ReadSmallFile("/proc/self/status"), ReadSmallFile("/proc/self/uid_map"),
                      bound ? limit.rlim_cur : UINT64_MAX);
}

Status CheckMemlock(const std::string& what, uint64_t bytes, size_t rails, const Memlock& memlock) {
  const uint64_t need = LockedBy(bytes, rails);
  if (!memlock.binds() ||
      (memlock.locked <= memlock.limit && need <= memlock.limit - memlock.locked))
    return {};
  return ResourceExhausted(fmt::format(
      "RLIMIT_MEMLOCK is {}{}, {} locks {} ({} on each of {} rails): {}", FormatSize(memlock.limit),
      memlock.locked > 0 ? fmt::format(" ({} are locked)", FormatSize(memlock.locked)) : "", what,
      FormatSize(need), FormatSize(bytes), rails, MemlockRemedy(memlock)));
}

std::string MemlockRemedy(const Memlock& memlock) {
  std::string text =
      "set it to unlimited (ulimit -l, LimitMEMLOCK=infinity of the service; in Kubernetes, of "
      "containerd or CRI-O)";
  if (memlock.user_namespace)
    return text + "; the capability IPC_LOCK does nothing in a user namespace";
  if (memlock.uid == 0) return text + ", or add the capability IPC_LOCK";
  if (memlock.ipc_lock_granted)
    text += fmt::format(
        "; the capability IPC_LOCK was added, but does nothing for user {}: only "
        "root's processes have it in effect",
        memlock.uid);
  return text;
}

}  // namespace peercache::rdma
