// InFlight: the pins of an answer's pages from when their bytes go into a TCP socket until the
// peer's kernel has acknowledged all of them.
//
//   in_flight.Take(&answer.pages);
//   ... send them; then in_flight.Sent(written);
//   if (in_flight.Settle(socket, written)) ... no pin is left
//
// The socket has the pages by reference (page_pipe.h), and sends them again as long as they are not
// acknowledged. A reader whose clock stood still would take those bytes, whatever they are by then.
// So pins end with the last acknowledgement, or with a reset: a connection that is closed in any
// other way goes on sending. model: pin_till_acked
//
// `written` counts all bytes that the socket has taken since it was connected. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "base/give_back.h"
#include "pool/pool.h"

namespace peercache {

class InFlight {
 public:
  // Of one answer at a time. Leaves an empty vector behind, with the memory of an earlier one.
  void Take(std::vector<PagePin>* pages) { pages_.swap(*pages); }
  // All bytes of the pages are in the socket.
  void Sent(uint64_t written) { end_ = written; }
  // The pins that are held; none: nothing is in flight.
  const std::vector<PagePin>& pages() const { return pages_; }
  // Unpins when all bytes were acknowledged. True: nothing is in flight. One system call.
  bool Settle(int socket, uint64_t written);
  // When `socket` is connected. A process that is killed resets its connections from then on: what
  // it was sending may be written again by the process after it (pool/pool_file.h).
  static void ResetAtKill(int socket);
  // Before `socket` is closed. Resets the connection if bytes may still be sent again.
  void BeforeClose(int socket, uint64_t written);
  // What was sent was copied: nothing refers to the pages.
  void Copied() { pages_.clear(); }
  // Of a connection that rests: nothing is in flight.
  void Rest() { GiveBack(kKeptBytes, &pages_); }

 private:
  std::vector<PagePin> pages_;
  uint64_t end_ = UINT64_MAX;  // `written` after the last byte; the maximum while they are sent
};

}  // namespace peercache
