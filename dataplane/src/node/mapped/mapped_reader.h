// MappedReader: pages of nodes on this machine, copied out of their pools, which are mapped here to
// be read (pool_server.h). A copy is what memory can do; through a NIC or the kernel's loopback a
// page crosses the memory bus several times.
//
// The rules are those of READs over RDMA (docs/dev/protocol.md): the header is checked before the
// page is copied and again after it, and the page counts only within its record's lease.
//
// A thread maps the pools of members that say they are on this machine, and unmaps each when its
// connection ends: with the node's process, or its secret. So a call waits for none of this; until
// a pool is mapped, its pages are the next reader's.
//
// Thread-safe.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/memory.h"
#include "node/batch/page_reader.h"
#include "node/peer/peers.h"
#include "node/peer/secret.h"

namespace peercache {

class MappedReader final : public PageReader {
 public:
  // `directory`: where this machine's nodes have their sockets. `self`: this node.
  MappedReader(std::string directory, Hello self, Peers* peers, const Secret* secret);
  ~MappedReader() override;

  std::vector<size_t> Read(const ReadBatch& batch, std::vector<size_t> asked) override;

 private:
  struct Mapping {
    uint64_t node = 0, incarnation = 0;
    UniqueFd connection;
    MappedRegion pool;
  };
  using Mappings = std::vector<std::shared_ptr<const Mapping>>;

  std::shared_ptr<const Mappings> Now() const;
  void Run();
  Result<Mapping> Map(uint64_t node) const;
  static ReadOutcome Copy(const RemotePage& page, const MappedRegion& pool, const Destinations& to);

  const std::string directory_;
  const Hello self_;
  Peers* const peers_;
  const Secret* const secret_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::shared_ptr<const Mappings> mappings_ = std::make_shared<Mappings>();  // replaced as a whole
  std::thread thread_;
};

}  // namespace peercache
