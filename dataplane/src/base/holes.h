// Holes: what of a file of shared memory has no memory yet. Whoever touches a hole first takes
// memory for it, and it is that process's cgroup that the kernel charges, for as long as the file
// lives. A node that copied from, wrote to or registered the holes of an engine's file would run
// into its own limit over memory that is not its own.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace peercache {

// Bytes of the file that have no memory. Of files on tmpfs alone, memfds among them: huge pages are
// not charged as memory. Where they lie cannot be told: SEEK_HOLE takes memory that fallocate()
// took and nobody has touched for a hole.
uint64_t HoleBytes(int fd);

// Takes memory for the holes within [0, size), and for nothing behind the end of the file. The
// kernel zeroes it when it is touched.
Status FillHoles(int fd, uint64_t size);

}  // namespace peercache
