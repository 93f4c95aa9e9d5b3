// DiskHoldings: the pages that are on disk and not in the pool, as the directory's upkeep sees them
// (node/owner/holdings.h). A page's sequence in the tier is its generation. Nothing holds a page on
// disk: what goes while it is published is withdrawn afterwards (disk_records.h).
//
// Thread-safe.
#pragma once

#include <functional>
#include <utility>

#include "disk/disk_tier.h"
#include "node/owner/holdings.h"

namespace peercache {

class DiskHoldings final : public Holdings {
 public:
  // `gone` is told of pages whose record was sent though they have left the disk.
  using Gone = std::function<void(std::span<const disk::DiskPage> pages)>;
  DiskHoldings(disk::DiskTier* tier, const Pool* pool, Gone gone)
      : tier_(tier), pool_(pool), gone_(std::move(gone)) {}

  uint64_t pages() const override { return tier_->stats().pages; }
  uint64_t most_held() const override { return UINT64_MAX; }  // nothing is
  bool Next(uint64_t* at, std::vector<NotedPage>* pages) const override;
  Hold Take(const PageAt& at, Record* record) override;
  void Note(std::span<const PageAt> pages, uint16_t peer) override;
  bool Unnote(const PageAt& page, uint16_t peer) override;
  void Published(std::span<const HeldPage> pages) override;
  void Replaced(std::span<const Victim> by) override;
  // Readers ask the holder for a page on disk by its key: who was told of it holds nothing.
  void Told(const PageAt&, TimePoint) override {}

  // The tier's part of the record of a page.
  static Record RecordOf(const disk::DiskPage& page);

 private:
  disk::DiskTier* const tier_;
  const Pool* const pool_;
  const Gone gone_;
};

}  // namespace peercache
