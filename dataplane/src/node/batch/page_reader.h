// PageReader: one way by which pages come from the nodes that hold them. RemoteReader
// (node/read/remote_reader.h) asks its readers one after another; a new transport is one more.
//
//   RDMA       node/rails/fabric.h          READs of the holder's pool
//   TCP        node/read/tcp_reader.h       the holder sends
//   mapped     node/mapped/mapped_reader.h  the holder's pool is mapped: it runs on this machine
//
// The contract, of each page that a reader is asked for:
//
// - It delivers the whole page, or reports why not. The bytes count only if all of them came within
//   the lease (directory/lease.h), by a clock that was read after the last one (time_last), and if
//   the slot still was the record's then (check_slot). kRead, kReadByRdma and kReadMapped say so.
// - Pages and segments may be delivered in any order.
// - What it cannot reach, or has failed to bring while there is time for another reader, it hands
//   back, with the outcome as it was. Any other outcome is final.
// - It writes into a destination only inside of a Permit::Use of `to.permit`, and never after it
//   has returned. A destination whose page has not arrived is undefined. When the engine has taken
//   its memory back it may hand back nothing.
// - It times out by itself: it returns by `deadline`, but for a device that does not give up what
//   it has under way (transport/rdma/run_reads.h). When `hurried` it begins nothing past the
//   deadline, and a device may finish what it has under way, as giving that up costs its queues.
// - It tells the holder's ReadCost what came and when, but for what is read in the background.
// - It verifies no checksums: RemoteReader does. While it waits it may have pages that are whole
//   looked at (ReadBatch::checks).
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/crew.h"
#include "node/batch/destinations.h"
#include "node/batch/page_checks.h"
#include "node/batch/remote_page.h"

namespace peercache {

struct ReadBatch {
  std::span<const RemotePage> pages;  // record.length is the size of the destination
  const Destinations& to;
  std::span<ReadOutcome> outcomes;  // of each page; kUnreachable before
  TimePoint deadline;
  Crew* crew;                    // threads that help
  bool background = false;       // no engine waits for it
  bool hurried = false;          // the deadline is what the pages are worth (GroupLimits)
  PageChecks* checks = nullptr;  // null: no page is looked at
};

class PageReader {
 public:
  virtual ~PageReader() = default;
  // Reads batch.pages[i] for each i in `asked`; returns those that another reader may bring.
  virtual std::vector<size_t> Read(const ReadBatch& batch, std::vector<size_t> asked) = 0;
};

}  // namespace peercache
