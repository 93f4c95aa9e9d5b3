#include "node/mapped/readable_pool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstring>

#include "base/memory_file.h"

namespace peercache {

Result<UniqueFd> ReadableMemory(const MappedRegion& pool) {
  UniqueFd fd(open(fmt::format("/proc/self/fd/{}", pool.fd()).c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd || fcntl(pool.fd(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0)
    return FromErrno("making the pool readable for nodes of this machine", errno);
  return fd;
}

Result<UniqueFd> ReadableFile(const MappedRegion& pool, const std::string& path,
                              const std::string& view) {
  const std::string at = FileOrIn(view, path.substr(path.rfind('/') + 1));
  const auto wrong = [&](const std::string& what) {
    return InvalidArgument(
        fmt::format("pool-file-view: {} {}; mount the folder of {} there, read-only (mount --bind "
                    "-o ro; in a pod a second volumeMount with readOnly)",
                    at, what, path));
  };
  UniqueFd fd(open(at.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) return wrong(fmt::format("cannot be opened: {}", std::strerror(errno)));
  struct stat seen {
  }, own{};
  struct statvfs mount {};
  if (fstat(fd.get(), &seen) != 0 || fstat(pool.fd(), &own) != 0 || fstatvfs(fd.get(), &mount) != 0)
    return FromErrno("pool-file-view: " + at, errno);
  if (seen.st_dev != own.st_dev || seen.st_ino != own.st_ino) return wrong("is another file");
  if ((mount.f_flag & ST_RDONLY) == 0) return wrong("is on a mount that can be written to");
  return fd;
}

}  // namespace peercache
