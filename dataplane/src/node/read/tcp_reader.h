// TcpReader: pages that their holders send. One exchange per holder at a time, all holders in
// parallel. What is large is read in several parts at once, each by a thread and over connections
// of its own: receiving is copying, and one thread copies less than the memory can take.
//
// A read is one exchange of a bounded size, and its bytes count only when they were complete within
// a lease from when it was sent: the holder admits a read of pages that are in service. It keeps
// their slots as they are for more than a lease from then on, and until they were acknowledged, but
// no longer (transport/tcp/in_flight.h).
//
// Thread-safe.
#pragma once

#include <span>
#include <vector>

#include "base/clock.h"
#include "node/batch/page_reader.h"
#include "node/peer/peers.h"

namespace peercache {

struct TcpReaderOptions {
  Duration lease{};
  Duration stall{};  // longest without progress of one exchange
};

class TcpReader final : public PageReader {
 public:
  TcpReader(TcpReaderOptions options, Peers* peers) : options_(options), peers_(peers) {}

  std::vector<size_t> Read(const ReadBatch& batch, std::vector<size_t> asked) override;

 private:
  struct Holder;
  static std::vector<std::vector<Holder>> Parts(std::span<const Holder> holders,
                                                const ReadBatch& batch);
  void Round(std::span<Holder> holders, const ReadBatch& batch);

  const TcpReaderOptions options_;
  Peers* const peers_;
};

}  // namespace peercache
