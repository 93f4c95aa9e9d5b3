#include "node/disk/disk_pages.h"

#include <errno.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>

#include "disk/device_file.h"

namespace peercache {
namespace {

// For the records of what a clear has dropped.
constexpr milliseconds kWithdrawals{50};
// Threads that serve peers wait for a clear to be recorded, so not for long; they are asked again.
constexpr milliseconds kRecording{300};

// Whether a drive that cannot be used may have pages all the same.
bool MayHavePages(const std::string& folder) {
  struct stat found {};
  if (stat(folder.c_str(), &found) != 0) return true;  // it may be mounted later
  return stat((folder + "/" + disk::kFileName).c_str(), &found) == 0 || errno != ENOENT;
}

}  // namespace

Result<std::unique_ptr<DiskPages>> DiskPages::Open(const disk::DiskOptions& options,
                                                   Duration peer_timeout) {
  if (Status s = disk::CheckOptions(options); !s.ok()) return s;
  std::unique_ptr<DiskPages> pages(new DiskPages(peer_timeout));
  pages->budget_a_day_ = options.bytes_a_day;
  auto tier = disk::DiskTier::Open(options, &pages->records_);
  if (tier.ok()) {
    pages->tier_ = std::move(*tier);
    for (const disk::DeviceHealth& device : pages->tier_->stats().devices)
      spdlog::info("disk {}: {}{}", device.path, device.io,
                   device.why.empty() ? "" : "; " + device.why);
  } else {
    const std::string& why = tier.status().message();
    for (const std::string& path : options.paths) pages->off_.push_back({.path = path, .why = why});
    spdlog::error("disk-path: {}; this node keeps pages in memory only", why);
  }
  return pages;
}

bool DiskPages::has_past() const {
  if (!tier_) return false;
  const disk::DiskStats stats = tier_->stats();
  return std::ranges::any_of(stats.devices, &disk::DeviceHealth::has_past);
}

ClearState DiskPages::KnownClears() const {
  ClearState known;
  if (!tier_) return known;
  const disk::ClearList clears = tier_->clears();
  known.floor = clears.floor_epoch();
  // The clears between are among the tags, unless the disk itself had to forget some of them.
  if (clears.forgotten().epoch >= known.floor) {
    known.floor = clears.forgotten().epoch;
    known.forgotten = clears.forgotten().digest;
  }
  for (const disk::ClearedTag& clear : clears.tags())
    if (clear.epoch > known.floor) known.entries.push_back({clear.tag, clear.epoch});
  return known;
}

void DiskPages::Start(Pool* pool, Room* room) {
  if (!tier_) return;
  holdings_.emplace(tier_.get(), pool, [this](auto pages) { records_.Gone(pages); });
  loader_.emplace(tier_.get(), pool, room, std::chrono::seconds(1));
  spiller_.emplace(tier_.get(), pool);
  records_.Start(tier_.get(), &*holdings_, &*loader_, pool);
  Status started = loader_->Start();
  if (started.ok()) started = spiller_->Start();
  if (started.ok()) {
    spiller_->AddAll();
    return;
  }
  // The pool has its generations from the tier, which therefore stays. A loader finds nothing in a
  // tier that is off.
  spdlog::error("disk-path: {}; this node keeps pages in memory only", started.message());
  tier_->TurnOff(started.message());
  spiller_.reset();
}

void DiskPages::Serve(Publisher* publisher) { records_.Serve(publisher); }

void DiskPages::ContainsMany(std::span<const Key> keys, std::span<uint8_t> there) const {
  if (!tier_) return;
  std::array<disk::DiskPage, 64> found;
  for (size_t at = 0; at < keys.size(); at += found.size()) {
    const size_t count = std::min(found.size(), keys.size() - at);
    tier_->Find(keys.subspan(at, count), std::span(found).first(count));
    for (size_t i = 0; i < count; ++i)
      if (found[i].length != 0) there[at + i] = 1;
  }
}

bool DiskPages::Clear(std::optional<uint64_t> tag, uint64_t epoch,
                      const disk::ForgottenClears& forgotten) {
  if (!tier_) {
    unrecorded_ = std::ranges::any_of(
        off_, [](const disk::DeviceHealth& device) { return MayHavePages(device.path); });
    return true;
  }
  if (tag && epoch == 0) {
    tier_->DropTag(*tag);  // it is recorded when it has an epoch
    loader_->Barrier();
  } else {
    const Status cleared = tier_->Clear(tag, epoch, forgotten, kRecording);
    loader_->Barrier();
    if (cleared.code() == Code::kDeadlineExceeded) return false;
    if (!cleared.ok()) {
      spdlog::error("clear: {}", cleared.message());
      if (tier_->on()) return false;
      unrecorded_ = true;
    }
  }
  // Who finds such a record later asks for a page that is not there.
  const TimePoint deadline = Clock::now() + kWithdrawals;
  tier_->AwaitSwept(deadline);
  records_.AwaitWithdrawn(deadline);
  return true;
}

DiskReport DiskPages::report() const {
  DiskReport report{.budget_a_day = budget_a_day_};
  report.tier.devices = off_;
  if (!tier_) return report;
  report.tier = tier_->stats();
  const disk::Counts& counts = tier_->counts();
  for (size_t i = 0; i < report.dropped.size(); ++i)
    report.dropped[i] = counts.dropped.Of(static_cast<disk::Drop>(i));
  for (size_t i = 0; i < report.reads.size(); ++i)
    report.reads[i] = counts.reads.Of(static_cast<disk::ReadOutcome>(i));
  report.stored_pages = counts.stored;
  report.stored_bytes = counts.stored_bytes;
  if (spiller_) {
    report.waiting_pages = spiller_->waiting();
    report.overtaken_pages = spiller_->overtaken();
  }
  if (loader_) report.loaded_pages = loader_->loaded_pages();
  return report;
}

}  // namespace peercache
