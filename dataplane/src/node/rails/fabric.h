// Fabric: all of a node that is RDMA: its rails, the memory that is registered with them, the
// readers it answers and the links it reads over. A node without rails has none.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/memory.h"
#include "base/status.h"
#include "node/batch/destinations.h"
#include "node/batch/page_reader.h"
#include "node/batch/remote_page.h"
#include "node/peer/peers.h"
#include "node/rails/header_memory.h"
#include "node/rails/links.h"
#include "node/rails/pool_keys.h"
#include "transport/rdma/acceptor.h"
#include "transport/rdma/link_options.h"
#include "transport/rdma/memory.h"
#include "transport/rdma/rail.h"
#include "transport/rdma/run_reads.h"

namespace peercache {

struct RailInfo {
  std::string name;
  bool up = false;
  std::string address;  // that it speaks with; empty: it had none yet
  rdma::RailState::Waits waits;
  int numa_node = -1;
  std::string memory;    // Rail::memory
  std::string ordering;  // Rail::ordering
  rdma::Rail::Stats stats;
};

// Memory of a peer beside its pool's slots, to be READ as it is.
struct BareRead {
  uint64_t node = 0;
  uint64_t incarnation = 0;
  uint64_t offset = 0;  // in what is registered with the pool
  std::span<std::byte> to{};
  bool done = false;
};

struct FabricStats {
  std::vector<RailInfo> rails;
  LinkStats links;
  rdma::Acceptor::Stats acceptor;
  rdma::PeerClasses::Stats classes;
};

// Of a node's own memory, what is registered with each rail: the pool, and the first headers.
inline constexpr char kLocked[] = "pool with headers";
constexpr uint64_t LockedOfEachRail(uint64_t pool_bytes) {
  return pool_bytes + HeaderMemory::kBytesAtOnce;
}

struct FabricOptions {
  // A call posts READs for two fifths of it, so that TCP has the rest.
  Duration peer_timeout{};
  // A queue without progress for so long has lost its path; the others take over.
  Duration queue_stall{};
  Duration spin{};  // waits busily for completions before it sleeps
  uint32_t max_queues = 0;
  rdma::LinkOptions link;
};

class Fabric final : public PageReader {
 public:
  // Opens the rails and registers the pool, so that peers can read it.
  static Result<std::unique_ptr<Fabric>> Open(const FabricOptions& options,
                                              std::span<const rdma::RailSpec> rails,
                                              std::span<std::byte> pool);
  ~Fabric() override;

  // Before the first Read.
  void Start(const Peers* peers, const Secret* secret);

  // A reader wants to connect: the queue pairs for it, for as long as its connection lasts.
  Result<rdma::Acceptor::Queues> Accept(const ConnectRequest& request, ConnectOk* answer) {
    return acceptor_->Accept(request, answer);
  }

  // Memory of an engine that is registered in the background, for as long as this lives. Until that
  // is done, and when it fails, pages there are read over TCP.
  class Shared {
   public:
    virtual ~Shared() = default;
    virtual bool registered() const = 0;
    // For a small region, once: until it is registered, or that has failed. The caller registers it
    // where no thread can be had. Returns at once for one that takes long.
    virtual void AwaitIfShort() const = 0;
  };
  // `thread` goes when the thread that registers it does; not ok: why none may be started.
  std::shared_ptr<const Shared> Share(const std::string& what, std::shared_ptr<MappedRegion> memory,
                                      Result<std::shared_ptr<const void>> thread);

  // Memory of a device that is registered, for as long as this lives; or why it cannot be. Without
  // a dma-buf, `bytes` are its addresses in this process, which a kernel with a peer-memory driver
  // takes as it takes any.
  Result<std::shared_ptr<const Shared>> ShareDevice(const std::string& what, Bytes bytes,
                                                    rdma::Registration::DmaBuf dma_buf,
                                                    std::shared_ptr<const void> keeper);

  // Begins READs for two fifths of peer-timeout, so that TCP has the rest. Hands back: no link to
  // their holder, a destination that is not registered, too little left of the lease, or a failure.
  std::vector<size_t> Read(const ReadBatch& batch, std::vector<size_t> asked) override;

  // Whether the pages of this peer are likely to be read by RDMA.
  bool Reaches(uint64_t node, TimePoint now) const { return links_->Reaches(node, now); }

  // READs what it can, at most kBareBytes each.
  static constexpr size_t kBareBytes = 256;
  void ReadBare(std::span<BareRead> reads, TimePoint deadline);

  FabricStats stats() const;

 private:
  struct Work;
  class SharedRegion;
  class SharedDevice;
  explicit Fabric(const FabricOptions& options);
  // A link to this node itself, for memory that only its rails reach; null: none can be had now.
  std::unique_ptr<Link> TakeOwn(TimePoint deadline);
  Result<std::unique_ptr<Link>> OpenOwn(TimePoint deadline);
  void Return(std::unique_ptr<Link> link);
  void Round(std::span<Work> works, const ReadBatch& batch, const rdma::ReadLimits& limits,
             std::vector<size_t>* rest);

  // For how long a call posts READs, and that a queue may make no progress.
  const Duration stall_, queue_stall_, spin_;
  const uint32_t max_queues_;
  std::unique_ptr<rdma::Rails> rails_;
  rdma::RegisteredMemory registered_;
  std::unique_ptr<rdma::Acceptor> acceptor_;
  std::unique_ptr<HeaderMemory> headers_;
  uint64_t pool_ = 0;  // the range's id
  std::unique_ptr<PoolKeys> keys_;
  const Peers* peers_ = nullptr;
  std::unique_ptr<Links> links_;
  std::mutex own_mutex_;
  std::vector<std::unique_ptr<Link>> own_;  // idle ones; the one that was used last is the last
  PeerHealth own_health_;                   // of setting them up
};

}  // namespace peercache
