#include "capi/shared_ranges.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace peercache::capi {
namespace {

using File = std::pair<dev_t, ino_t>;

// The file of a descriptor that can be mapped for reading and writing; {0, 0}: it cannot.
File FileOf(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  struct stat found {};
  if (flags < 0 || (flags & O_PATH) != 0 || (flags & O_ACCMODE) != O_RDWR ||
      fstat(fd, &found) != 0 || !S_ISREG(found.st_mode)) {
    return {};
  }
  return {found.st_dev, found.st_ino};
}

std::map<File, int> Descriptors() {
  std::map<File, int> files;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"), closedir);
  if (!folder) return files;
  while (const dirent* entry = readdir(folder.get())) {
    if (entry->d_name[0] == '.') continue;
    const int fd = atoi(entry->d_name);
    if (const File file = FileOf(fd); file != File{}) files.emplace(file, fd);
  }
  return files;
}

}  // namespace

std::vector<SharedRange> SharedRanges(uint64_t address, uint64_t length) {
  std::vector<SharedRange> found;
  const auto files = Descriptors();
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uint64_t low = 0, high = 0, offset = 0, inode = 0;
    unsigned major_number = 0, minor_number = 0;
    char may[5] = "";
    if (sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64, &low, &high,
               may, &offset, &major_number, &minor_number, &inode) != 7) {
      continue;
    }
    if (may[1] != 'w' || may[3] != 's') continue;
    const uint64_t begin = std::max(low, address), end = std::min(high, address + length);
    const auto file = files.find({makedev(major_number, minor_number), inode});
    if (begin >= end || file == files.end()) continue;
    UniqueFd fd(fcntl(file->second, F_DUPFD_CLOEXEC, 0));
    // Its number may be another file's by now.
    if (!fd || FileOf(fd.get()) != file->first) continue;
    found.push_back({std::move(fd), begin, end - begin, offset + (begin - low)});
  }
  return found;
}

}  // namespace peercache::capi
