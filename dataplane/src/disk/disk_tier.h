// DiskTier: pages on local drives, behind the pool. They outlive the pool's memory, the process and
// the machine's reboot. docs/disk.md has the format and what is lost when.
//
//   auto tier = DiskTier::Open(options, &observer);   // serves at once, recovers meanwhile
//   tier->Put({.key = k, .tag = t, .batch = b}, bytes);   // copies; never waits for a drive
//   tier->Read(reads, deadline);                          // waits; verified bytes or a reason
//   tier->Clear(tag, epoch);                              // ok: also after a crash they are gone
//
// What always holds: a read gives exactly the bytes that were put under its key and not cleared
// since, or says why not. A drive that fails costs its own pages. Nothing waits for a drive longer
// than its deadline.
//
// For the node: the observer hears which pages come and go, so that their records are published and
// withdrawn; a page's sequence, which no other page ever has, serves as its generation, and its
// note keeps what the directory knows of it. Pages of one Set batch lie on one device while that
// keeps up: a drive that is lost then cuts few prefixes. What it does not take at once goes to the
// next device: a page that waits may be evicted unwritten, which cuts its prefix as well.
//
// Costs: 76 bytes of memory a page (index.h) and 32.5 MiB for each device. Put copies the page and
// computes its checksum. Read passes through two threads and verifies every byte. A start takes
// 0.2 us a page, while the tier serves (recovery.h). Worse: the index is made for pages of
// `mean_page_bytes`, so it is full before the disk is when pages are shorter, and drops pages then.
// A device that has as many reads under way as it may refuses further ones, which are misses.
//
// Thread-safe. Threads: two for each device, and up to 16 more where its engine is threads.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/key.h"
#include "base/sequence.h"
#include "base/status.h"
#include "disk/clear_list.h"
#include "disk/counts.h"
#include "disk/device_counts.h"
#include "disk/disk_options.h"
#include "disk/disk_page.h"
#include "disk/disk_read.h"
#include "disk/page_observer.h"
#include "disk/write_budget.h"

namespace peercache::disk {

class Catalog;
class Reads;

struct PageToPut {
  Key key;
  uint64_t tag = 0;
  uint64_t checksum = 0;  // base/checksum.h; 0: Put computes it
  uint64_t batch = 0;     // of the Set that brought it
  bool continues_hit = false;
  uint8_t owner = 0;  // DiskPage::owner
};

struct PutResult {
  // kLater: no drive keeps up, or they are giving up regions. Nothing is counted.
  enum class What : uint8_t { kTaken, kAlready, kLater, kDropped };
  What what = What::kTaken;
  Drop why = Drop::kCount;  // when it is dropped
};

struct DeviceHealth {
  std::string path = {};
  std::string io = {};  // which engine, and why not another one
  bool on = false;
  std::string why = {};   // it is off, or its file began empty
  bool has_past = false;  // its file did not
  uint64_t bytes = 0;
  uint32_t regions = 0, regions_free = 0;
  uint32_t regions_found = 0, regions_read = 0;  // by recovery
  bool recovered = false;
  uint64_t queued_bytes = 0;
  DeviceCounts counts = {};

  uint64_t used_bytes() const {
    return regions == 0 ? 0 : bytes / regions * (regions - regions_free);
  }
};

struct DiskStats {
  uint64_t pages = 0, capacity_pages = 0;
  double budget_left = 0;  // bytes; 0 when unlimited
  std::vector<DeviceHealth> devices = {};
};

class DiskTier {
 public:
  // Fails when no device can be used, with the reason of each. A device that cannot be used beside
  // one that can is off in stats(). `observer` may be null; it outlives the tier.
  static Result<std::unique_ptr<DiskTier>> Open(DiskOptions options, PageObserver* observer);
  // Writes what was put, for two seconds at most, and waits for the I/O under way.
  ~DiskTier();

  // pages[i]: that of keys[i]; length 0: not there.
  void Find(std::span<const Key> keys, std::span<DiskPage> pages) const;
  bool Contains(const Key& key, uint64_t sequence) const;
  size_t Read(std::span<DiskRead* const> reads, TimePoint deadline);
  uint32_t memory_alignment() const;
  // The bytes are the caller's again when it returns.
  PutResult Put(const PageToPut& page, std::span<const std::byte> bytes);
  // Until all that was put before is safe from a crash of the process.
  Status Flush(TimePoint deadline);

  // From when it is called on nobody finds a page that was put under the tag (nullopt: any) before.
  // Waits for a write and a sync, on all devices at once.
  // ok: none comes back after a crash either. kDeadlineExceeded: not yet; ask again, until then
  // nothing is put under the tag. kUnavailable: no device could record it; the pages are gone now,
  // and would be back when the process starts again.
  // `forgotten`: what the members had forgotten before this clear; kept beside it.
  Status Clear(std::optional<uint64_t> tag, uint64_t epoch, const ForgottenClears& forgotten = {},
               Duration patience = std::chrono::seconds(30));
  // As Clear, but they may be back after a crash.
  void DropTag(uint64_t tag);
  // Until what was cleared before is out of the index and the observer has heard of it.
  void AwaitSwept(TimePoint deadline);
  // What was recorded, for a node that has just started.
  ClearList clears() const;

  void ForEach(const std::function<void(const DiskPage&)>& fn) const;
  bool UpdateNote(const Key& key, uint64_t sequence,
                  const std::function<uint32_t(uint32_t)>& change);

  const Counts& counts() const { return counts_; }
  // Gives pages theirs. A pool that takes its generations from it (PoolOptions::generations) never
  // has one that a page on disk has, too, and of two with one key the younger has the higher.
  Sequence* sequence() { return &sequence_; }
  DiskStats stats() const;
  bool on() const;
  // Nothing is written or found from now on, for a reason that is not the drives'.
  void TurnOff(const std::string& why);
  bool recovered() const;

 private:
  struct Part;  // a device and what works on it
  // A clear that is not on all devices yet.
  struct Unrecorded {
    uint64_t number = 0;
    uint64_t epoch = 0;
  };

  explicit DiskTier(DiskOptions options);
  Status Start(PageObserver* observer);
  // Opens and judges the device's file.
  Status OpenPart(Part* part, TimePoint give_up);
  // Sizes the file, and writes its superblock.
  Status ClaimPart(Part* part);
  Status StartPart(uint16_t number, Part* part);
  bool MayReinsert(uint64_t bytes);
  void ClosePart(Part* part, const Status& why);
  void WakeKeepers();
  // The clears up to this number. Under `clearing_`.
  Status Record(uint64_t number, TimePoint deadline);
  // A round of it: begins what has to be written, and waits for what is. False: it has not ended.
  bool RecordRound(uint64_t number, TimePoint deadline);
  bool IsUnrecorded(uint64_t tag);

  const DiskOptions options_;
  Counts counts_;
  Sequence sequence_;
  std::vector<Part> parts_;
  std::unique_ptr<Catalog> catalog_;
  std::unique_ptr<Reads> reads_;
  std::mutex clearing_;  // one clear is recorded at a time
  uint64_t clears_ = 0;  // so far
  std::mutex unrecorded_mutex_;
  std::map<std::optional<uint64_t>, Unrecorded> unrecorded_;  // by tag
  std::atomic<size_t> unrecorded_count_{0};
  mutable std::mutex budget_mutex_;
  mutable WriteBudget budget_;
};

}  // namespace peercache::disk
