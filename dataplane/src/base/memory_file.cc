#include "base/memory_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "base/memory_limit.h"
#include "base/size.h"

namespace peercache {
namespace {

constexpr mode_t kOwnerOnly = 0600;
constexpr milliseconds kLookAgain{50};

const char* FixOf(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return "its folder has to exist: mount a tmpfs or hugetlbfs there, or write another path";
    case ELOOP: return "a symbolic link is not followed: write the path that it leads to";
    case EROFS: return "mount its file system for writing";
    case EACCES:
    case EPERM: return "give the file and its folder to this process's user (chown, chmod 0700)";
    case ENOSPC: return "its file system is full: enlarge it or remove what is not needed";
    default: return "check the path and its file system";
  }
}

}  // namespace

std::string FileOrIn(const std::string& path, const std::string& name) {
  struct stat info {};
  const bool folder = ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  return folder ? path + (path.ends_with('/') ? "" : "/") + name : path;
}

Status MemoryFile::Wrong(std::string_view what) const {
  return InvalidArgument(fmt::format("{}: {} {}", option_, path_, what));
}

Result<MemoryFile> MemoryFile::Open(std::string_view option, const std::string& path,
                                    const std::string& name, Duration patience) {
  MemoryFile file;
  file.option_ = option;
  file.path_ = FileOrIn(path, name);
  constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;
  file.fd_ = UniqueFd(::open(file.path_.c_str(), kFlags | O_CREAT | O_EXCL, kOwnerOnly));
  const bool made = static_cast<bool>(file.fd_);
  if (!made && errno == EEXIST) {
    // What is no file, as a FIFO, must not keep this waiting.
    file.fd_ = UniqueFd(::open(file.path_.c_str(), kFlags | O_NONBLOCK));
  }
  if (!file.fd_) {
    const int error = errno;
    return file.Wrong(fmt::format("cannot be opened: {}; {}", std::strerror(error), FixOf(error)));
  }
  struct stat info {};
  struct statfs system {};
  if (::fstat(file.fd_.get(), &info) != 0 || ::fstatfs(file.fd_.get(), &system) != 0)
    return FromErrno(file.path_, errno);
  if (!S_ISREG(info.st_mode) ||
      (system.f_type != TMPFS_MAGIC && system.f_type != HUGETLBFS_MAGIC)) {
    if (made) ::unlink(file.path_.c_str());
    return file.Wrong(fmt::format(
        "is not memory (file system {:#x}); write a path on a tmpfs, as /dev/shm, or on "
        "a hugetlbfs: a page fault on any other may wait for a disk",
        system.f_type));
  }
  if (info.st_uid != ::geteuid()) {
    return file.Wrong(
        fmt::format("belongs to user {}, and this process is user {}; run as that user, or remove "
                    "the file: its pages are lost with it",
                    info.st_uid, ::geteuid()));
  }
  if ((info.st_mode & 0077) != 0) {
    return file.Wrong(fmt::format(
        "may be opened by others (mode {:o}), who could write into pages; chmod 0600 it, or remove "
        "it if another process may have written there",
        info.st_mode & 07777));
  }
  const TimePoint deadline = Clock::now() + patience;
  while (::flock(file.fd_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return FromErrno(file.path_ + ": flock", errno);
    if (Clock::now() >= deadline) {
      return file.Wrong(
          "is in use by another process (fuser -v names it); end that one, or give this one a file "
          "of its own");
    }
    std::this_thread::sleep_for(kLookAgain);
  }
  // Whoever had the lock before may have removed the file.
  struct stat now {};
  if (::fstat(file.fd_.get(), &info) != 0 || ::lstat(file.path_.c_str(), &now) != 0 ||
      now.st_ino != info.st_ino || now.st_dev != info.st_dev)
    return file.Wrong("was replaced while it was opened; start again");
  file.size_ = static_cast<size_t>(info.st_size);
  file.page_size_ =
      system.f_type == HUGETLBFS_MAGIC ? static_cast<size_t>(system.f_bsize) : SmallPageSize();
  return file;
}

bool MemoryFile::Read(uint64_t offset, std::span<std::byte> to) const {
  return ::pread(fd_.get(), to.data(), to.size(), static_cast<off_t>(offset)) ==
         static_cast<ssize_t>(to.size());
}

Status MemoryFile::CheckRoom(size_t size) const {
  if (page_size_ != SmallPageSize()) {
    if (Status s = CheckHugePages(path_, size, page_size_, ReadHugePageCounts(page_size_)); !s.ok())
      return s.Annotate(option_);
  } else if (Status s = CheckFits(path_, size, ReadMemoryLimit()); !s.ok()) {
    return s.Annotate(option_);
  }
  struct statvfs system {};
  // No blocks at all: the file system has no limit of its own.
  if (::fstatvfs(fd_.get(), &system) != 0 || system.f_blocks == 0) return {};
  const uint64_t free = uint64_t{system.f_bavail} * system.f_frsize;
  if (size <= free) return {};
  return {Code::kResourceExhausted,
          fmt::format("{}: {} needs {}, and its file system has {} free; enlarge that (mount -o "
                      "remount,size=..., or sizeLimit of the volume), or lower pool-size",
                      option_, path_, FormatSize(size), FormatSize(free))};
}

Status MemoryFile::Renew(size_t size) {
  if (size == 0 || size % page_size_ != 0)
    return InvalidArgument(
        fmt::format("{}: {} cannot be {}, which is not a multiple of its pages of "
                    "{}",
                    option_, path_, FormatSize(size), FormatSize(page_size_)));
  if (::ftruncate(fd_.get(), 0) != 0) return FromErrno(path_ + ": emptying it", errno);
  size_ = 0;
  if (Status s = CheckRoom(size); !s.ok()) return s;
  if (::ftruncate(fd_.get(), static_cast<off_t>(size)) != 0)
    return FromErrno(path_ + ": making it " + FormatSize(size), errno);
  size_ = size;
  return {};
}

Result<MappedRegion> MemoryFile::Map(uint64_t offset, size_t size, int numa_node) const {
  UniqueFd fd(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));  // of the same open file: keeps the lock
  if (!fd) return FromErrno(path_ + ": duplicating its descriptor", errno);
  return MappedRegion::Map(std::move(fd), size, MapAccess::kReadWrite, offset, numa_node);
}

Status MemoryFile::Take(uint64_t offset, size_t size) const {
  if (::fallocate(fd_.get(), 0, static_cast<off_t>(offset), static_cast<off_t>(size)) == 0)
    return {};
  const int error = errno;
  return {Code::kResourceExhausted,
          fmt::format("{}: {} cannot have {} of memory: {}; {}", option_, path_, FormatSize(size),
                      std::strerror(error), FixOf(error))};
}

}  // namespace peercache
