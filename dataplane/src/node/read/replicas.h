// Replicas: this node's own copies of other nodes' pages. They save wire reads, and nothing depends
// on them. There are two kinds:
//
//   private   While engines of this node read the same pages anyway (tensor-parallel ranks of MLA
//             models), every page that is fetched is kept for those who come a little later. These
//             copies have no records in the directory, so a slot is free for reuse as soon as its
//             last local copy is done: at the speed of the network, slots that rest for a lease
//             would take gigabytes. They have a small memory of their own, in which the oldest go.
//   promoted  A page that is fetched again lately is put into the node's pool and gets a record, so
//             that other nodes read it here, too. It lives by the rules of every page (set,
//             publish, withdraw, rest), goes before all others when room is needed, and takes only
//             memory that nothing else uses: a share of the pool that is bounded, and of a pool
//             with spare room. When there is none, it is kept as a private one.
//
// Pages never change under their key, so a replica is never outdated. What it was set under (its
// tag) is not known here: a clear of any tag drops all replicas.
//
//   replicas.Keep(keys, fetched, ok, to, epoch, checksums);  // of a get, before it is answered
//   for (PagePin& pin : replicas.TakePromoted()) ...         // upkeep: to be published
//   size_t bytes = replicas.Surplus(now);                    // upkeep: so much of the oldest goes
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <vector>

#include "node/batch/destinations.h"
#include "pool/ghost.h"
#include "pool/pool.h"

namespace peercache {

class Replicas {
 public:
  // Promoted replicas take at most `bytes` of `pool`, and only while `spare` bytes of it are free.
  struct Promotion {
    Pool* pool = nullptr;  // none: nothing is promoted
    size_t bytes = 0;
    size_t spare = 0;
  };
  // `pool`: for private replicas; none: there are none.
  Replicas(std::unique_ptr<Pool> pool, Promotion promotion);

  // Less would not even hold the batches that a node's engines have in flight.
  static constexpr size_t kSmallestShare = size_t{64} << 20;
  // The part of a pool of `pool_bytes` that private replicas get; 0 when it would be less than
  // that.
  static size_t ShareOf(size_t pool_bytes, uint32_t percent);

  // Of the private ones; as the Pool's methods of these names. Without any, pins and there stay.
  void Find(std::span<const Key> keys, std::span<PagePin> pins);
  void ContainsMany(std::span<const Key> keys, std::span<uint8_t> there) const;

  // To be passed to Keep: what was read before a clear is not kept after it.
  uint64_t epoch() const { return epoch_.load(std::memory_order_acquire); }
  // The pages which[i] have been fetched into `from` where ok says so; keeps those that are worth
  // it. checksums[page]: by the record it was read with, 0: unknown.
  void Keep(std::span<const Key> keys, std::span<const size_t> which, std::span<const uint8_t> ok,
            const Destinations& from, uint64_t epoch, std::span<const uint64_t> checksums);
  // Promoted since the last call, to be published.
  std::vector<PagePin> TakePromoted();
  // Bytes of promoted replicas that should go, because newer ones found their share taken. For one
  // thread.
  size_t Surplus(TimePoint now);
  // Grows when pages have been kept.
  uint64_t kept() const { return kept_.load(std::memory_order_acquire); }
  // How many of the pages that engines wanted others wanted too; decides what Keep keeps.
  void Observe(size_t shared, size_t alone);
  // Drops the private ones. The promoted ones are the pool's: Pool::TakeTagged.
  void Clear();

  // Of the private ones.
  PoolStats stats() const { return pool_ != nullptr ? pool_->stats() : PoolStats{}; }

 private:
  bool Sharing() const { return sharing_.load(std::memory_order_relaxed) > kSharing; }
  void KeepPrivate(const Key& key, const Destinations& from, size_t page, uint64_t epoch);
  // False: there is no room.
  bool Promote(const Key& key, const Destinations& from, size_t page, uint64_t epoch,
               uint64_t checksum);
  Result<Reservation> Reserve(size_t length);

  // Share of the wanted pages, in percent, from which on everything that is fetched is kept.
  static constexpr uint32_t kSharing = 25;

  const std::unique_ptr<Pool> pool_;
  const Promotion promotion_;
  // Held shared while a replica that was read in an epoch is committed, so that none is committed
  // after a clear has ended that epoch and looked for them. model clears: end_flights
  std::shared_mutex committing_;
  std::atomic<uint64_t> epoch_{0}, kept_{0};
  std::atomic<uint32_t> sharing_{0};  // percent, a moving average
  std::atomic<size_t> refused_{0};    // bytes, for want of room in their share
  TimePoint next_surplus_{};
  std::mutex mutex_;  // of the next two
  Ghost fetched_;
  std::vector<PagePin> promoted_;
};

}  // namespace peercache
