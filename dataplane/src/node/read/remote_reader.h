// RemoteReader: brings pages from the nodes that hold them straight into their destinations: asks
// its readers in their order, each for what those before it have not brought, and verifies the
// checksums of what has come.
//
// Thread-safe.
#pragma once

#include <span>
#include <vector>

#include "base/crew.h"
#include "node/batch/checksum_policy.h"
#include "node/batch/page_reader.h"
#include "node/count/counters.h"

namespace peercache {

class RemoteReader {
 public:
  // `readers`: the fastest first; the last one reaches every node. `background`: no engine waits
  // for what it brings.
  RemoteReader(std::vector<PageReader*> readers, ChecksumPolicy verify, Counters* counters,
               Crew* crew, bool background = false)
      : readers_(std::move(readers)),
        verify_(verify),
        counters_(counters),
        crew_(crew),
        background_(background) {}

  // Into memory that no processor reaches, only RDMA does: what that does not bring is unreachable.
  // record.length must be the size of the destination. The destination of a page that has not
  // Arrived is undefined. `hurried`: as of ReadBatch.
  void Read(std::span<const RemotePage> pages, const Destinations& to,
            std::span<ReadOutcome> outcomes, TimePoint deadline, bool hurried = false);

 private:
  class Checks;
  void Verify(const ReadBatch& batch, Checks* checks);

  const std::vector<PageReader*> readers_;
  const ChecksumPolicy verify_;
  Counters* const counters_;
  Crew* const crew_;
  const bool background_;
};

}  // namespace peercache
