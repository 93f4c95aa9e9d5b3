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

// Whether a drive that cannot be used may have pages all the same.
bool MayHavePages(const std::string& folder) {
  struct stat found {};
  if (stat(folder.c_str(), &found) != 0) return true;  // it may be mounted later
  return stat((folder + "/" + disk::kFileName).c_str(), &found) == 0 || errno != ENOENT;
}

ClearState StateOf(const disk::ClearList& clears) {
  ClearState known;
  known.forgotten = clears.forgotten();
  for (const disk::ClearedTag& clear : clears.tags())
    if (clear.epoch > EpochIn(known, clear.tag)) known.entries.push_back({clear.tag, clear.epoch});
  return known;
}

}  // namespace

Result<std::unique_ptr<DiskPages>> DiskPages::Open(disk::DiskOptions options,
                                                   Duration peer_timeout) {
  if (Status s = disk::CheckOptions(options); !s.ok()) return s;
  std::unique_ptr<DiskPages> pages(new DiskPages(peer_timeout));
  pages->budget_a_day_ = options.bytes_a_day;
  options.missed = [pages = pages.get()](const disk::ClearList& known) {
    const std::lock_guard lock(pages->missed_mutex_);
    return pages->missed_ ? pages->missed_(StateOf(known)) : std::nullopt;
  };
  auto tier = disk::DiskTier::Open(options, &pages->records_);
  if (tier.ok()) {
    pages->tier_ = std::move(*tier);
    for (const disk::DeviceHealth& device : pages->tier_->stats().devices)
      spdlog::log(device.on ? spdlog::level::info : spdlog::level::err, "disk {}: {}", device.path,
                  device.io + (device.io.empty() || device.why.empty() ? "" : "; ") + device.why);
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

bool DiskPages::may_have_past() const {
  const std::vector<disk::DeviceHealth> devices = tier_ ? tier_->stats().devices : off_;
  return std::ranges::any_of(devices, [](const disk::DeviceHealth& device) {
    return !device.on && MayHavePages(device.path);
  });
}

ClearState DiskPages::KnownClears() const {
  return tier_ ? StateOf(tier_->clears()) : ClearState();
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

void DiskPages::Serve(Publisher* publisher, Missed missed) {
  records_.Serve(publisher);
  const std::lock_guard lock(missed_mutex_);
  missed_ = std::move(missed);
}

void DiskPages::Stop() {
  const std::lock_guard lock(missed_mutex_);
  missed_ = nullptr;
}

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

void DiskPages::Clear(TagRange tags, uint64_t epoch, std::span<const ForgottenClears> forgotten) {
  if (!tier_) return;
  tier_->Clear(tags, epoch, forgotten);
  loader_->Barrier();
}

void DiskPages::Know(const ClearState& clears) {
  if (!tier_ || (clears.forgotten.empty() && clears.entries.empty())) return;
  for (const ForgottenClears& forgotten : clears.forgotten)
    tier_->Clear(TagRange::OfGroup(forgotten.group), forgotten.epoch, {&forgotten, 1});
  for (const ClearEntry& clear : clears.entries) tier_->Clear(clear.tag, clear.epoch);
  (void)tier_->RecordClears();
}

void DiskPages::RecordClears() {
  const bool all = tier_ && tier_->RecordClears();
  unrecorded_ = !all && may_have_past();
  if (!tier_) return;
  // Who finds such a record later asks for a page that is not there.
  const TimePoint deadline = Clock::now() + kWithdrawals;
  tier_->AwaitSwept(deadline);
  records_.AwaitWithdrawn(deadline);
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
