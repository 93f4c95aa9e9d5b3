// Session: what a node knows of one engine: the regions of its memory that it has shared.
// Connections hold it by shared_ptr; a call holds the regions it works on, so that dropping a
// region never pulls memory from under a copy.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/copy.h"
#include "base/memory.h"
#include "base/prefault.h"
#include "base/status.h"
#include "node/count/lookups.h"
#include "node/engine/call_gate.h"
#include "node/rails/fabric.h"
#include "node/tenant/tenants.h"
#include "wire/messages.h"
#include "wire/stream.h"

namespace peercache {

class Session {
 public:
  // It is of `tenant`, while it has the seat.
  Session(uint64_t id, std::string engine, std::string version, PeerCredentials owner,
          uint32_t max_calls, std::shared_ptr<Tenant> tenant, Admission::Seat seat)
      : id_(id),
        engine_(std::move(engine)),
        version_(std::move(version)),
        owner_(owner),
        tenant_(std::move(tenant)),
        seat_(std::move(seat)),
        gate_(max_calls) {}

  uint64_t id() const { return id_; }
  const std::string& engine() const { return engine_; }
  const std::string& version() const { return version_; }
  // The process that made the session.
  const PeerCredentials& owner() const { return owner_; }

  // What its calls pass through.
  CallGate& gate() { return gate_; }
  // What is counted of them.
  Lookups& lookups() { return lookups_; }

  // How many tokens' KV the engine computes in a second; 0: it has not said.
  void SetPrefill(uint32_t tokens_per_second) { prefill_ = tokens_per_second; }
  uint32_t prefill() const { return prefill_; }
  // What computing one page of so many tokens costs it; zero: not known.
  Duration RecomputeOf(uint32_t page_tokens) const {
    const uint32_t rate = prefill_;
    return rate == 0 ? Duration{} : Duration(std::chrono::seconds(1)) * page_tokens / rate;
  }

  struct Limits {
    size_t regions = 0;
    uint64_t bytes = 0;  // of all regions together
  };
  // Maps the descriptor under the id, unless another region has mapped as much of its file; length
  // 0 without a descriptor drops the region. With `fabric` what is mapped is registered with its
  // rails, before this returns when it is small. The threads that do so in the background count as
  // the tenant's, of `tenants`.
  Status SetRegion(const RegionRequest& request, UniqueFd fd, const Limits& limits, Fabric* fabric,
                   Tenants* tenants);

  // The same with memory of a device (base/dma_buf.h). Without a descriptor the offset is its
  // address, and the engine is this process. Fails when no way leads there. With `fabric` null
  // there are no rails.
  Result<DmaBufOk> SetDevice(const RegionRequest& request, std::optional<UniqueFd> fd,
                             const Limits& limits, Fabric* fabric);

  // The regions of one call, kept mapped while this lives, and the segments in them.
  struct Resolved {
    std::vector<std::shared_ptr<MappedRegion>> regions;
    std::vector<Bytes> segments;
    bool unmapped = false;  // some lie in device memory that only READs of the rails reach
  };
  // Fails when a segment names an unknown region or lies outside of it.
  Status Resolve(std::span<const WireSegment> segments, Resolved* resolved) const;

  size_t region_count() const;
  uint64_t region_bytes() const;
  // Of these, what is registered with the rails.
  uint64_t registered_bytes() const;
  // And what is in pages of which kind, as far as that is known: not of device memory, nor before
  // all pages of a region have been brought in.
  struct PageKinds {
    uint64_t small = 0, huge = 0;
  };
  PageKinds page_kinds() const;

 private:
  // Which file, by device and inode.
  using File = std::pair<uint64_t, uint64_t>;
  // A file of an engine, or memory of a device. It is mapped, brought in, registered and counted
  // once, however many regions lie in it: a mapping of small pages takes 1/512 of its size for page
  // tables, which count as the node's memory.
  struct Memory {
    std::shared_ptr<MappedRegion> mapped;  // null: device memory by its addresses in this process
    std::optional<File> file = {};
    uint64_t bytes = 0;         // for the limit: with what lies before its regions
    Tenant::Memory taken = {};  // the same, of the tenant's
    bool unmapped = false;      // nobody may touch it but the rails
    // Bytes that are in huge pages; negative: not known. Told by `prefault`.
    std::atomic<int64_t> huge = -1;
    std::unique_ptr<Prefault> prefault = {};            // destroyed before the above
    std::shared_ptr<const Fabric::Shared> shared = {};  // null without rails
  };
  struct Region {
    std::shared_ptr<Memory> memory;
    uint64_t offset = 0;  // in the file
    Bytes bytes = {};     // the region
  };
  // What is mapped of the file; null: nothing. The lock is held, here and below.
  std::shared_ptr<Memory> MemoryOf(const File& file) const;
  // The file's mapping in place of `former`, for its regions too.
  Result<std::shared_ptr<Memory>> Adopt(uint32_t region, const File& file,
                                        std::shared_ptr<MappedRegion> mapped, const Memory* former,
                                        const Limits& limits, Fabric* fabric, Tenants* tenants);
  // The memory and the region that a request for device memory means, not yet registered.
  Result<Region> DeviceRegion(const RegionRequest& request, std::optional<UniqueFd> fd) const;
  // With `bytes` more for the region, in place of what it has alone, and of `former`. Returns how
  // many bytes that leaves of what is there.
  Result<uint64_t> CheckLimits(uint32_t region, uint64_t bytes, const Memory* former,
                               const Limits& limits) const;
  // The same, and takes the bytes from what the tenant may share.
  Result<Tenant::Memory> Take(uint32_t region, uint64_t bytes, const Memory* former,
                              const Limits& limits) const;
  std::set<const Memory*> Memories() const;
  // The right to one more thread, while it lives.
  Result<std::shared_ptr<const void>> AdmitThread(Tenants* tenants) const;
  // Returns what was there: to be destroyed without the lock.
  std::map<uint32_t, Region>::node_type Replace(uint32_t id, Region region);
  const uint64_t id_;
  const std::string engine_, version_;
  const PeerCredentials owner_;
  const std::shared_ptr<Tenant> tenant_;
  const Admission::Seat seat_;
  CallGate gate_;
  Lookups lookups_;
  std::atomic<uint32_t> prefill_{0};
  mutable std::mutex mutex_;
  std::map<uint32_t, Region> regions_;
};

}  // namespace peercache
