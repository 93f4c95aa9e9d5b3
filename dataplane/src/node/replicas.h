// Replicas: this node's own copies of other nodes' pages that several of its engines read, or one
// read again and again. They save wire reads and nothing depends on them: they have no records in
// the directory, so a slot is free for reuse as soon as its last local copy is done, and there is
// room for a new replica at once.
//
// A page is kept when
//   - engines of this node are reading the same pages anyway (tensor-parallel ranks of MLA models):
//     then every page that is fetched is kept for those who come a little later; or
//   - it was fetched before, lately.
// The memory is a bounded part of the pool's; the oldest go first.
//
// Pages never change under their key, so a replica is never outdated; a clear drops all of them.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "node/destinations.h"
#include "pool/ghost.h"
#include "pool/pool.h"

namespace peercache {

class Replicas {
 public:
  // Null pool: keeps nothing.
  explicit Replicas(std::unique_ptr<Pool> pool);

  // The part of a pool of `pool_bytes` that replicas get; 0 when it would hold too little.
  static size_t ShareOf(size_t pool_bytes, uint32_t percent);

  // pins[i] is empty when there is no replica of keys[which[i]].
  void Find(std::span<const Key> keys, std::span<const size_t> which, std::span<PagePin> pins);
  bool Contains(const Key& key) const { return pool_ != nullptr && pool_->Contains(key); }

  // To be passed to Keep: what was read before a clear is not kept after it.
  uint64_t epoch() const { return epoch_.load(std::memory_order_acquire); }
  // The pages which[i] have been fetched into `from` where ok says so; keeps those that are worth
  // it.
  void Keep(std::span<const Key> keys, std::span<const size_t> which, std::span<const uint8_t> ok,
            const Destinations& from, uint64_t epoch);
  // How many of the pages that engines wanted others wanted too; decides what Keep keeps.
  void Observe(size_t shared, size_t alone);
  void Clear();

  PoolStats stats() const { return pool_ != nullptr ? pool_->stats() : PoolStats{}; }

 private:
  bool Sharing() const { return sharing_.load(std::memory_order_relaxed) > kSharing; }
  Result<Reservation> Reserve(size_t length);

  // Share of the wanted pages, in percent, from which on everything that is fetched is kept.
  static constexpr uint32_t kSharing = 25;

  const std::unique_ptr<Pool> pool_;
  std::atomic<uint64_t> epoch_{0};
  std::atomic<uint32_t> sharing_{0};  // percent, a moving average
  std::mutex mutex_;                  // of fetched_
  Ghost fetched_;
};

}  // namespace peercache
