// DiskTier: pages on local drives, behind the pool. They outlive the pool's memory, the process and
// the machine's reboot. docs/dev/disk-tier.md has the format and what is lost when.
//
//   auto tier = DiskTier::Open(options, &observer);   // serves at once, recovers meanwhile
//   tier->Put({.key = k, .tag = t, .batch = b}, bytes);   // copies; never waits for a drive
//   tier->Read(reads, deadline);                          // waits; verified bytes or a reason
//   tier->Clear(tag, epoch);                              // nobody finds them any more
//   tier->RecordClears();                                 // waits; nor does anybody after a crash
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
// Thread-safe. Threads: two for each device, and up to 16 more where its engine is threads, or one
// where it is AIO.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/key.h"
#include "base/sequence.h"
#include "base/status.h"
#include "base/tag.h"
#include "disk/clear_list.h"
#include "disk/counts.h"
#include "disk/device_counts.h"
#include "disk/disk_options.h"
#include "disk/disk_page.h"
#include "disk/disk_read.h"
#include "disk/format.h"
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
  std::string why = {};        // it is off, its writes fail, or its file began empty
  bool has_past = false;       // its file did not
  bool writes_paused = false;  // one has failed, and none has worked since
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
  // Fails when no device can be used, with the reason of each, unless one may be later
  // (DiskOptions::missed). A device that cannot be used is off in stats(). `observer` may be null;
  // it outlives the tier.
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

  // From when it is called on nobody finds a page that was put under the tags before.
  // Waits for no drive: they may be back after a crash until RecordClears has returned.
  // `forgotten`: what the members had forgotten before this clear; kept beside it.
  void Clear(TagRange tags, uint64_t epoch, std::span<const ForgottenClears> forgotten = {});
  // Waits until each device that is on has the clears of before the call; as long as a device may
  // take. False: some device is off. If it is used again without the others, pages are back.
  bool RecordClears();
  // Until what was cleared before is out of the index and the observer has heard of it.
  void AwaitSwept(TimePoint deadline);
  // What was recorded, for a node that has just started.
  ClearList clears() const;

  // All pages, in steps: fills `pages` with a few, and moves `at`, 0 at first, behind them. False:
  // no more. Those that come or go meanwhile may or may not be seen.
  bool Next(uint64_t* at, std::vector<DiskPage>* pages) const;
  bool UpdateNote(const Key& key, uint64_t sequence,
                  const std::function<uint32_t(uint32_t)>& change);

  const Counts& counts() const { return counts_; }
  // Gives pages theirs. A pool that takes its generations from it (PoolOptions::generations) never
  // has one that a page on disk has, too, and of two with one key the younger has the higher.
  Sequence* sequence() { return &sequence_; }
  DiskStats stats() const;
  bool on() const;
  // Nothing is written or found from now on, for a reason that is not the drives'. Once.
  void TurnOff(const std::string& why);
  bool recovered() const;
  // How often a device was used that was off before. What was put meanwhile it may have missed.
  uint64_t rejoins() const { return rejoins_.load(std::memory_order_relaxed); }

 private:
  struct Part;  // a device and what works on it

  explicit DiskTier(DiskOptions options);
  Status Start(PageObserver* observer);
  // Opens and judges the device's file.
  Status OpenPart(Part* part, TimePoint give_up);
  // Sizes the file, and writes its superblock.
  Status ClaimPart(Part* part);
  Status StartPart(uint16_t number, Part* part);
  bool MayReinsert(uint64_t bytes);
  void ClosePart(Part* part, const Status& why);
  // Tries to open those that could not be, now and then.
  void JoinLate();
  Status Join(uint16_t number);
  // Sequences from now on are behind that range (sequence.h): its process may have begun after this
  // one's clock, as each process begins behind the range of the one before.
  void BeginBehind(uint64_t range);
  void StopJoining();
  // Turns a device that was off on, when its superblocks have the clears of meanwhile.
  Status Rejoin(Part* part);

  const DiskOptions options_;
  const Geometry geometry_;  // of all devices
  Counts counts_;
  Sequence sequence_;
  std::vector<Part> parts_;
  std::unique_ptr<Catalog> catalog_;
  std::unique_ptr<Reads> reads_;
  std::mutex recording_;                     // superblocks, by one thread at a time
  std::atomic<uint64_t> first_sequence_{0};  // changes under recording_
  std::atomic<uint64_t> rejoins_{0};
  mutable std::mutex joining_;  // guards what stats() says of parts that are not there
  std::condition_variable stop_joining_;
  bool joining_ends_ = false;
  std::thread joiner_;
  mutable std::mutex budget_mutex_;
  mutable WriteBudget budget_;
};

}  // namespace peercache::disk
