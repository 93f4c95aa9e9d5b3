#include "disk/device_file.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/size.h"
#include "disk/aligned.h"

namespace peercache::disk {
namespace {

constexpr milliseconds kLookAgain{50};

std::string Reason(int error) { return std::generic_category().message(error); }

Status CheckFolder(const std::string& folder) {
  struct stat found {};
  if (stat(folder.c_str(), &found) != 0)
    return InvalidArgument(
        fmt::format("disk-path {}: {}; name a folder on a drive of its own that is mounted", folder,
                    Reason(errno)));
  if (!S_ISDIR(found.st_mode))
    return InvalidArgument(fmt::format(
        "disk-path {} is not a folder; name the folder that the drive's file system is mounted at",
        folder));
  struct statfs system {};
  if (statfs(folder.c_str(), &system) == 0 &&
      (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC))
    return InvalidArgument(
        fmt::format("disk-path {} is memory (tmpfs), not a disk; name a folder on ext4 or xfs, or "
                    "give that memory to the pool",
                    folder));
  return {};
}

// From statx; where the kernel does not say (before Linux 6.1) a read decides.
Result<uint32_t> MemoryAlignment(int fd, const std::string& path, bool readable) {
#ifdef STATX_DIOALIGN
  struct statx found {};
  if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &found) == 0 &&
      (found.stx_mask & STATX_DIOALIGN)) {
    if (found.stx_dio_mem_align == 0 || found.stx_dio_offset_align == 0)
      return InvalidArgument(fmt::format(
          "disk-path: {} does not support direct I/O; use a file system that does, e.g. ext4 or "
          "xfs",
          path));
    if (found.stx_dio_mem_align > kBlock || found.stx_dio_offset_align > kBlock)
      return InvalidArgument(
          fmt::format("disk-path: {} needs direct I/O aligned to {} bytes, more than {}; use "
                      "another file system",
                      path, std::max(found.stx_dio_mem_align, found.stx_dio_offset_align), kBlock));
    return found.stx_dio_mem_align;
  }
#endif
  constexpr uint32_t kUsual = 512;
  const AlignedBuffer buffer(2 * kBlock);
  if (readable && buffer && pread(fd, buffer.data() + kUsual, kBlock, 0) == kBlock) return kUsual;
  return kBlock;
}

bool IsOwnGroup(gid_t group) {
  if (group == getegid()) return true;
  const int count = getgroups(0, nullptr);
  std::vector<gid_t> groups(static_cast<size_t>(std::max(count, 0)));
  const int got = getgroups(static_cast<int>(groups.size()), groups.data());
  return got > 0 && std::find(groups.begin(), groups.begin() + got, group) != groups.begin() + got;
}

// Whoever may write to the file may forge pages: a checksum tells damage, not intent.
Status CheckOwner(const struct stat& found, const std::string& path) {
  if (found.st_uid != geteuid())
    return InvalidArgument(fmt::format(
        "disk-path: {} belongs to user {}, and this process is user {}; run as that user, chown it "
        "if no other user has written there, or remove it: its pages are lost with it",
        path, found.st_uid, geteuid()));
  // A group of this process may: the kubelet gives the files of a volume to the pod's fsGroup.
  const mode_t others = S_IWOTH | (IsOwnGroup(found.st_gid) ? 0 : S_IWGRP);
  if ((found.st_mode & others) != 0)
    return InvalidArgument(fmt::format(
        "disk-path: {} may be written by others (mode {:o}, group {}), who could forge pages; "
        "chmod 0600 it, or remove it if another process may have written there: its pages are lost "
        "with "
        "it",
        path, found.st_mode & 07777, found.st_gid));
  return {};
}

// The process before of the same node may take seconds to end after an update in place.
Status Lock(const DeviceFile& file, TimePoint give_up) {
  bool told = false;
  while (flock(file.fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return FromErrno(file.path + ": flock", errno);
    const TimePoint now = Clock::now();
    if (now >= give_up)
      return InvalidArgument(
          fmt::format("disk-path: {} is in use by another process (fuser -v names it); end that "
                      "one, or give each node a folder of its own",
                      file.path));
    if (!std::exchange(told, true))
      spdlog::info("disk-path: {} is in use by another process; waiting up to {} ms for its end",
                   file.path, std::chrono::ceil<milliseconds>(give_up - now).count());
    std::this_thread::sleep_for(kLookAgain);
  }
  return {};
}

}  // namespace

Result<DeviceFile> OpenDeviceFile(const std::string& folder, TimePoint give_up) {
  if (Status checked = CheckFolder(folder); !checked.ok()) return checked;
  DeviceFile file;
  file.path = folder + "/" + kFileName;
  constexpr int kFlags = O_RDWR | O_CREAT | O_CLOEXEC | O_DIRECT | O_NOFOLLOW;
  file.fd.Reset(open(file.path.c_str(), kFlags, 0600));
  if (!file.fd) {
    if (errno == EINVAL)
      return InvalidArgument(fmt::format(
          "disk-path: {} is on a file system without direct I/O; use ext4 or xfs", file.path));
    if (errno == ELOOP)
      return InvalidArgument(
          fmt::format("disk-path: {} is a symbolic link, which is not followed; name the folder "
                      "that the file is in",
                      file.path));
    return InvalidArgument(
        fmt::format("disk-path: {} cannot be opened for reading and writing: {}; let the node's "
                    "user ({}) write to the folder",
                    file.path, Reason(errno), geteuid()));
  }
  struct stat found {};
  if (fstat(file.fd.get(), &found) != 0) return FromErrno(file.path, errno);
  if (!S_ISREG(found.st_mode))
    return InvalidArgument(fmt::format("disk-path: {} is not a file; remove it", file.path));
  if (Status owner = CheckOwner(found, file.path); !owner.ok()) return owner;
  if (Status locked = Lock(file, give_up); !locked.ok()) return locked;
  // Whoever had the lock before may have made it longer, and anybody may have removed it.
  struct stat now {};
  if (fstat(file.fd.get(), &found) != 0 || lstat(file.path.c_str(), &now) != 0 ||
      now.st_ino != found.st_ino || now.st_dev != found.st_dev)
    return InvalidArgument(fmt::format(
        "disk-path: {} was removed or replaced while it was opened; start again", file.path));
  file.bytes = static_cast<uint64_t>(found.st_size);
  Result<uint32_t> alignment = MemoryAlignment(file.fd.get(), file.path, file.bytes >= kBlock);
  if (!alignment.ok()) return alignment.status();
  file.memory_alignment = *alignment;
  return file;
}

Status ReserveSpace(const DeviceFile& file, uint64_t bytes) {
  if (file.bytes > bytes && ftruncate(file.fd.get(), static_cast<off_t>(bytes)) != 0)
    return FromErrno("shortening " + file.path, errno);
  struct stat now {};
  struct statvfs system {};
  if (fstat(file.fd.get(), &now) != 0 || fstatvfs(file.fd.get(), &system) != 0)
    return FromErrno(file.path, errno);
  const uint64_t there =
      uint64_t{system.f_bavail} * system.f_frsize + static_cast<uint64_t>(now.st_blocks) * 512;
  const auto too_little = [&] {
    return ResourceExhausted(
        fmt::format("disk-size: {} needs {} bytes, but only {} are free there; free space or write "
                    "a smaller disk-size",
                    file.path, bytes, there));
  };
  // Asked before: a call that fails takes all that is free first, and others find a full drive.
  if (bytes > there) return too_little();
  int error = 0;
  do {
    error = fallocate(file.fd.get(), 0, 0, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  } while (error == EINTR);
  if (error == 0) return {};
  if (error == EOPNOTSUPP)
    return InvalidArgument(fmt::format(
        "disk-path: {} is on a file system that cannot reserve space; use ext4 or xfs", file.path));
  // What was reserved before it failed would keep others from that space.
  if (ftruncate(file.fd.get(), static_cast<off_t>(file.bytes)) != 0)
    return FromErrno("shortening " + file.path, errno);
  if (error == ENOSPC || error == EFBIG || error == EDQUOT) return too_little();
  return FromErrno("reserving " + FormatSize(bytes) + " for " + file.path, error);
}

}  // namespace peercache::disk
