// What the disk tier counts: every page that was not written, every read that was no hit, and every
// contents block that was not believed, each by its reason.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace peercache::disk {

// Why a page is not on disk.
enum class Drop : uint8_t {
  kBudget,      // the write budget is spent (write_budget.h)
  kLength,      // longer than max_page_bytes
  kOff,         // no device is on
  kWriteError,  // the device has failed to write it
  kCleared,     // its tag was cleared before it was written
  kIndex,       // the index is full: pages are shorter than mean_page_bytes
  kCount,
};
inline constexpr std::array<std::string_view, static_cast<size_t>(Drop::kCount)> kDropNames = {
    "budget", "length", "off", "write_error", "cleared", "index"};

// How a read has ended.
enum class ReadOutcome : uint8_t {
  kHit,        // all bytes are there and right
  kAbsent,     // not on disk
  kBusy,       // too many reads are under way
  kOff,        // its device is off
  kLate,       // not before the deadline; see DiskRead::landed
  kError,      // the device has failed to read it
  kShort,      // the file ends before it
  kChecksum,   // other bytes than were written
  kOvertaken,  // its region was given up, or its tag cleared, meanwhile
  kMisfit,     // the caller's memory is too short or not aligned
  kCount,
};
inline constexpr std::array<std::string_view, static_cast<size_t>(ReadOutcome::kCount)>
    kReadOutcomeNames = {"hit",   "absent", "busy",     "off",       "late",
                         "error", "short",  "checksum", "overtaken", "misfit"};

// What recovery has found.
enum class Recovered : uint8_t {
  kPage,     // taken into the index
  kCleared,  // a page that was cleared
  kOlder,    // a page of which a newer one is known
  kFull,     // a page for which the index has no room
  kCorruptBlock,
  kForeignBlock,  // of another file, region or format
  kStaleBlock,    // of an earlier epoch of its region
  kUnreadable,    // regions whose contents the device has failed to read
  kCount,
};
inline constexpr std::array<std::string_view, static_cast<size_t>(Recovered::kCount)>
    kRecoveredNames = {"page",          "cleared",       "older",       "full",
                       "corrupt_block", "foreign_block", "stale_block", "unreadable"};

template <typename Reason>
class CountBy {
 public:
  void Add(Reason reason, uint64_t count = 1) {
    counts_[static_cast<size_t>(reason)].fetch_add(count, std::memory_order_relaxed);
  }
  uint64_t Of(Reason reason) const {
    return counts_[static_cast<size_t>(reason)].load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<uint64_t>, static_cast<size_t>(Reason::kCount)> counts_{};
};

// Of a whole tier.
struct Counts {
  CountBy<Drop> dropped;
  CountBy<ReadOutcome> reads;
  CountBy<Recovered> recovered;
  std::atomic<uint64_t> stored{0}, stored_bytes{0};
  std::atomic<uint64_t> already{0};  // pages that were on disk already
  std::atomic<uint64_t> evicted{0};  // with their region
  std::atomic<uint64_t> reinserted{0}, reinserted_bytes{0};
  std::atomic<uint64_t> hit_bytes{0};
};

}  // namespace peercache::disk
