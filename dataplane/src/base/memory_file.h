// MemoryFile: a file on tmpfs or hugetlbfs whose contents outlive the process that uses them. One
// process has it at a time.
//
//   auto file = MemoryFile::Open("pool-file", "/dev/shm/peercache", "default.pool");
//   if (file->size() == 0) { ... file->Renew(size) ... }
//   auto region = file->Map(0, size, numa_node);
//
// The lock is of the open file, so it lasts until the file and all its regions are gone, or the
// process. A process that ends keeps it until none of its threads runs any more: whoever has the
// lock is the only writer.
//
// A region cannot be sealed as a memfd can. Whoever may open the file may write to it and cut it
// short, so it is for its user alone (mode 0600), and its descriptor is handed to nobody. Others
// may be given one to read, of a read-only mount (node/mapped/readable_pool.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/fd.h"
#include "base/memory.h"
#include "base/status.h"

namespace peercache {

// The file `path`; where that is a folder, `name` in it.
std::string FileOrIn(const std::string& path, const std::string& name);

class MemoryFile {
 public:
  // `path` is the file, which is made where there is none, or a folder that it is in as `name`.
  // Waits `patience` for a process that is about to end. Errors begin with `option` and the path,
  // and say what is needed and what to do.
  static Result<MemoryFile> Open(std::string_view option, const std::string& path,
                                 const std::string& name, Duration patience);

  const std::string& path() const { return path_; }
  size_t size() const { return size_; }
  // Of the file system.
  size_t page_size() const { return page_size_; }
  // Reads at `offset`; false: the file is shorter.
  bool Read(uint64_t offset, std::span<std::byte> to) const;
  // Drops all contents: the file is `size` bytes of zeros, a multiple of page_size(). Refuses what
  // its file system, the memory limits or the reserved huge pages do not have. Memory that the
  // kernel still sends from stays as it is and belongs to the file no more.
  Status Renew(size_t size);
  // `numa_node`: where pages that are not there yet should be; -1: anywhere.
  Result<MappedRegion> Map(uint64_t offset, size_t size, int numa_node) const;
  // Takes the memory of a part now, so that writing to it cannot fail later.
  Status Take(uint64_t offset, size_t size) const;

 private:
  MemoryFile() = default;
  Status CheckRoom(size_t size) const;
  Status Wrong(std::string_view what) const;

  std::string option_, path_;
  UniqueFd fd_;
  size_t size_ = 0, page_size_ = 0;
};

}  // namespace peercache
