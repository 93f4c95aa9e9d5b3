#include "base/holes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/size.h"

namespace peercache {
namespace {

constexpr uint64_t kBlock = 512;  // the unit of st_blocks, whatever the page size
// A signal ends a call of fallocate, and what it has taken is given back.
constexpr uint64_t kStep = 256 << 20;

}  // namespace

uint64_t HoleBytes(int fd) {
  struct stat file {};
  struct statfs system {};
  if (::fstat(fd, &file) != 0 || ::fstatfs(fd, &system) != 0) return 0;
  if (system.f_type != TMPFS_MAGIC) return 0;
  const auto size = static_cast<uint64_t>(file.st_size);
  const uint64_t taken = static_cast<uint64_t>(file.st_blocks) * kBlock;  // swapped pages, too
  return taken < size ? size - taken : 0;
}

Status FillHoles(int fd, uint64_t size) {
  if (HoleBytes(fd) == 0) return {};
  struct stat file {};
  if (::fstat(fd, &file) != 0) return FromErrno("reading the shared memory's file", errno);
  const uint64_t end = std::min(size, static_cast<uint64_t>(file.st_size));
  for (uint64_t at = 0; at < end;) {
    const uint64_t length = std::min(kStep, end - at);
    if (::fallocate(fd, 0, static_cast<off_t>(at), static_cast<off_t>(length)) == 0) {
      at += length;
    } else if (errno != EINTR) {
      return FromErrno(fmt::format("taking {} of shared memory at byte {} of {}",
                                   FormatSize(length), at, FormatSize(end)),
                       errno);
    }
  }
  return {};
}

}  // namespace peercache
