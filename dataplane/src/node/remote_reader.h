// RemoteReader: brings pages from the nodes that hold them straight into their destinations, by
// RDMA where that reaches, else over TCP. One read per holder at a time, all holders in parallel.
// What is large is read over TCP in several parts at once, each by a thread and over connections of
// its own: receiving is copying, and one thread copies less than the memory can take.
//
// A read is one exchange of a bounded size, and its bytes count only when they were complete within
// a lease from when it was sent: the holder admits a read of pages that are in service, and keeps
// their slots as they are for more than a lease from then on, but no longer (tcp/page_pipe.h).
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/crew.h"
#include "node/checksum_policy.h"
#include "node/counters.h"
#include "node/destinations.h"
#include "node/fabric.h"
#include "node/peers.h"
#include "node/remote_page.h"

namespace peercache {

struct RemoteReaderOptions {
  Duration lease{};
  Duration stall{};  // longest without progress of one exchange
  ChecksumPolicy verify = ChecksumPolicy::kSampled;
};

class RemoteReader {
 public:
  // `fabric`: null without RDMA.
  RemoteReader(RemoteReaderOptions options, Peers* peers, Fabric* fabric, Counters* counters,
               Crew* crew)
      : options_(options), peers_(peers), fabric_(fabric), counters_(counters), crew_(crew) {}

  // Into memory that no processor reaches, only RDMA does: what that does not bring is unreachable.
  // record.length must be the size of the destination. The destination of a page whose outcome is
  // has not Arrived is undefined.
  void Read(std::span<const RemotePage> pages, const Destinations& to,
            std::span<ReadOutcome> outcomes, TimePoint deadline);

 private:
  struct Holder;
  void ReadByRdma(std::span<const RemotePage> pages, const Destinations& to,
                  std::span<ReadOutcome> outcomes, TimePoint deadline, std::vector<size_t>* rest);
  std::vector<std::vector<Holder>> Parts(std::span<const Holder> holders,
                                         std::span<const RemotePage> pages) const;
  void Round(std::span<Holder> holders, std::span<const RemotePage> pages, const Destinations& to,
             std::span<ReadOutcome> outcomes, TimePoint deadline);
  bool Verifies(const RemotePage& page) const;
  ReadOutcome Verify(const RemotePage& page, const Destinations& to) const;

  const RemoteReaderOptions options_;
  Peers* const peers_;
  Fabric* const fabric_;
  Counters* const counters_;
  Crew* const crew_;
};

}  // namespace peercache
