// DiskPages: the disk tier of a node, with all that connects it to the pool and the directory.
//
//   DiskPages(options)    opens the drives; the pool takes its generations from here
//   Serve(...)            from then on pages are written, read and told of
//
// Without `disk-path` a node has none of it. A node whose drives all fail serves from memory: then
// nothing is found here, and report() says why.
//
// Thread-safe once it serves.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/sequence.h"
#include "base/tag.h"
#include "disk/disk_tier.h"
#include "node/disk/disk_holdings.h"
#include "node/disk/disk_records.h"
#include "node/disk/loader.h"
#include "node/disk/spiller.h"
#include "node/owner/room.h"
#include "wire/clears.h"

namespace peercache {

// For /v1/status and /metrics.
struct DiskReport {
  disk::DiskStats tier = {};
  uint64_t waiting_pages = 0;    // to be written
  uint64_t overtaken_pages = 0;  // evicted before they were
  uint64_t loaded_pages = 0;     // into the pool
  uint64_t budget_a_day = 0;     // bytes; 0: unlimited
  std::array<uint64_t, static_cast<size_t>(disk::Drop::kCount)> dropped = {};
  std::array<uint64_t, static_cast<size_t>(disk::ReadOutcome::kCount)> reads = {};
  uint64_t stored_pages = 0, stored_bytes = 0;
};

class DiskPages {
 public:
  // Fails for options that can never work.
  static Result<std::unique_ptr<DiskPages>> Open(disk::DiskOptions options, Duration peer_timeout);

  Sequence* generations() { return tier_ ? tier_->sequence() : nullptr; }
  // Some drive may have pages of processes before.
  bool has_past() const;
  // A drive that could not be opened may have, and may be opened later.
  bool may_have_past() const;
  // The clears that those processes knew.
  ClearState KnownClears() const;

  // The pool is there: loads into it, and writes what it has from the process before.
  void Start(Pool* pool, Room* room);
  // Null where nothing is on disk.
  Holdings* holdings() { return holdings_ ? &*holdings_ : nullptr; }
  TierBehind* behind() { return tier_ ? &records_ : nullptr; }
  // Of a drive that is opened later: what it has missed, or knows alone; nothing: not known yet.
  using Missed =
      std::function<std::optional<std::vector<disk::MissedClear>>(const ClearState& known)>;
  // The directory can be told.
  void Serve(Publisher* publisher, Missed missed);
  // What Serve was given is not used any more.
  void Stop();

  // ---- for engines of this node
  // Pages of one set are in the pool: Spiller::Add.
  void Keep(std::span<const PageAt> pages, bool continues_hit, TenantNumber tenant) {
    if (spiller_) spiller_->Add(pages, continues_hit, tenant);
  }
  // Fills the empty pins of keys that are on disk, which count for `tenant`.
  void Load(std::span<const Key> keys, std::span<PagePin> pins, TimePoint deadline,
            TenantNumber tenant) {
    if (loader_) loader_->Load(keys, pins, deadline, tenant);
  }
  // Sets there[i] where keys[i] is on disk, and leaves the others.
  void ContainsMany(std::span<const Key> keys, std::span<uint8_t> there) const;

  // ---- for peers, and for what is about to be asked for: Loader::Want
  void Want(std::span<const Key> keys, std::optional<TenantNumber> tenant,
            std::span<uint8_t> coming = {}) {
    if (loader_) loader_->Want(keys, tenant, coming);
  }

  // Drops the pages of the tags; waits for no drive. The pool has none of them any more, and
  // may have some again afterwards. `forgotten`: DiskTier::Clear.
  void Clear(TagRange tags, uint64_t epoch, std::span<const ForgottenClears> forgotten);
  // Waits until the drives have the clears of before, and the directory has heard: for a thread
  // that may wait as long as a drive takes.
  void RecordClears();
  // The pages of from now on, on drives that have none, have seen these.
  void Know(const ClearState& clears);
  // Some drive missed the last ones, and may have pages: they would be back when it is used again,
  // unless another drive or another member tells of the clear then.
  bool unrecorded() const { return unrecorded_.load(std::memory_order_relaxed); }

  DiskReport report() const;

 private:
  explicit DiskPages(Duration peer_timeout) : records_(peer_timeout) {}

  std::vector<disk::DeviceHealth> off_;  // when no drive can be used
  uint64_t budget_a_day_ = 0;
  std::atomic<bool> unrecorded_{false};
  DiskRecords records_;
  std::mutex missed_mutex_;
  Missed missed_;
  std::unique_ptr<disk::DiskTier> tier_;
  std::optional<DiskHoldings> holdings_;
  std::optional<Loader> loader_;
  std::optional<Spiller> spiller_;
};

}  // namespace peercache
