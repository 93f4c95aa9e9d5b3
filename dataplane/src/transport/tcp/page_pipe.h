// PagePipe: hands pages of the pool to a socket without copying them. The kernel takes references
// to the memory itself (vmsplice into a pipe, splice from there to the socket), so the only copy of
// a page's bytes on their way over TCP is the one that the receiver makes.
//
//   std::vector<iovec> pages = ...; size_t next = 0;
//   while (pipe.Send(socket, pages, &next, &sent) == PagePipe::Progress::kBlocked)
//     ... wait until the socket is writable
//
// After kDone the bytes may still be on their way: in the socket's queue or, on one machine, in the
// receiver's. They are read where they lie when they are sent, sent again or received. Two rules
// protect the reader:
//   - Pins are kept until all bytes were acknowledged (in_flight.h). So they are right however long
//     the reader's machine stood still, and its clock with it.
//   - On one machine acknowledged bytes still lie in the page. No slot is written before more than
//     a lease has passed since a read of it was admitted. The reader drops what was not complete
//     within a lease from when it asked (node/read/tcp_reader.cc). Both go by the same clock.
//
// Not thread-safe. A pipe that failed has bytes left in it: destroy it.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/fd.h"

namespace peercache {

class PagePipe {
 public:
  enum class Progress : uint8_t {
    kDone,
    kBlocked,      // the socket takes no more now
    kFailed,       // the connection is broken
    kUnsupported,  // nothing was taken: this system keeps memory out of pipes; copy instead
  };

  // !valid() when descriptors or the user's pipe memory have run out.
  static PagePipe Create();
  bool valid() const { return static_cast<bool>(read_); }

  // Sends pages[*next...]. Advances *next and the iovecs over what the kernel has taken, and *sent
  // by what went into the socket, which must be non-blocking.
  Progress Send(int socket, std::span<iovec> pages, size_t* next, uint64_t* sent);

 private:
  UniqueFd read_, write_;
  size_t held_ = 0;  // bytes in the pipe
};

}  // namespace peercache
