#include "disk/disk_tier.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <system_error>

#include "base/random.h"
#include "base/size.h"
#include "base/thread.h"
#include "disk/catalog.h"
#include "disk/device.h"
#include "disk/format.h"
#include "disk/io_engines.h"
#include "disk/keeper.h"
#include "disk/log.h"
#include "disk/reads.h"
#include "disk/regions.h"
#include "disk/sequence.h"
#include "disk/superblocks.h"

namespace peercache::disk {
namespace {

constexpr Duration kLastFlush = std::chrono::seconds(2);

uint64_t WallNanoseconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::nanoseconds(now).count());
}

// A device that misses what was to be saved is off until it has it: pages must not come back.
void SaveOrSuspend(std::span<const SuperblockToSave> all) {
  const std::vector<Status> saved = SaveSuperblocks(all);
  for (size_t i = 0; i < saved.size(); ++i)
    if (!saved[i].ok()) all[i].device->Suspend(saved[i].message());
}

}  // namespace

struct DiskTier::Part {
  std::string path;
  std::string io, why;
  bool has_past = false;
  Superblock superblock;
  // In the order in which they are made; a lost device has none.
  std::unique_ptr<Device> device;
  std::unique_ptr<Regions> regions;
  std::unique_ptr<Log> log;
  std::unique_ptr<Keeper> keeper;
  size_t keep = 0;  // SuperblockToSave

  // All of these are made, for good.
  std::atomic<bool> there{false};
  bool on() const { return there && device->on(); }
  SuperblockToSave to_save() { return {device.get(), &superblock, keep}; }
};

Status CheckOptions(const DiskOptions& options) {
  if (options.paths.empty())
    return InvalidArgument("disk-path is empty: name a folder on each drive");
  if (options.cluster.size() > kMostClusterName)
    return InvalidArgument(
        fmt::format("the cluster's name is longer than {} bytes: shorten it", kMostClusterName));
  const uint64_t least = kFirstRegionAt + kMinRegions * options.region_bytes;
  if (options.bytes < least)
    return InvalidArgument(fmt::format("disk-size {} is too small: write {} or more",
                                       FormatSize(options.bytes), FormatSize(least)));
  const Geometry geometry{.region_bytes = options.region_bytes, .regions = 1};
  if (AlignUp(options.log.max_page_bytes) > options.region_bytes - geometry.contents_bytes())
    return InvalidArgument(fmt::format("pages of {} bytes do not fit into a region of {}",
                                       options.log.max_page_bytes, options.region_bytes));
  if (options.mean_page_bytes == 0)
    return InvalidArgument("the mean length of pages is 0: write that of the model's pages");
  return {};
}

DiskTier::DiskTier(DiskOptions options)
    : options_(std::move(options)),
      geometry_{.region_bytes = options_.region_bytes,
                .regions = static_cast<uint32_t>((options_.bytes - kFirstRegionAt) /
                                                 options_.region_bytes)},
      budget_(options_.bytes_a_day, Clock::now()) {}

Result<std::unique_ptr<DiskTier>> DiskTier::Open(DiskOptions options, PageObserver* observer) {
  if (Status checked = CheckOptions(options); !checked.ok()) return checked;
  std::unique_ptr<DiskTier> tier(new DiskTier(std::move(options)));
  if (Status started = tier->Start(observer); !started.ok()) return started;
  return tier;
}

Status DiskTier::Start(PageObserver* observer) {
  parts_ = std::vector<Part>(options_.paths.size());
  Status refused;
  // What one device knows of clears and sequences counts for all.
  ClearList clears;
  uint64_t newest_range = 0;
  size_t opened = 0;
  const TimePoint give_up = Clock::now() + options_.patience;  // for all of them together
  for (size_t i = 0; i < parts_.size(); ++i) {
    parts_[i].path = options_.paths[i];
    if (Status open = OpenPart(&parts_[i], give_up); !open.ok()) {
      ClosePart(&parts_[i], open);
      refused =
          refused.ok() ? open : Status(refused.code(), refused.message() + "; " + open.message());
      continue;
    }
    ++opened;
    clears.Merge(parts_[i].superblock.clears);
    newest_range = std::max(newest_range, parts_[i].superblock.first_sequence);
  }
  if (opened == 0 && !options_.missed) return refused;
  first_sequence_ = FirstSequence(newest_range, WallNanoseconds());
  sequence_.RaiseTo(first_sequence_);
  std::vector<uint32_t> regions;
  size_t claimed = 0;
  for (Part& part : parts_) {
    if (part.device) {
      part.superblock.clears = clears;
      if (Status claim = ClaimPart(&part); !claim.ok()) {
        ClosePart(&part, claim);
        refused = claim;
      } else {
        ++claimed;
      }
    }
    regions.push_back(part.device || options_.missed ? geometry_.regions : 0);
  }
  if (claimed == 0 && !options_.missed) return refused;
  const size_t used = options_.missed ? parts_.size() : claimed;
  catalog_ = std::make_unique<Catalog>(used * (options_.bytes / options_.mean_page_bytes), regions,
                                       clears, &sequence_, observer);
  if (!catalog_->ok())
    return ResourceExhausted("no memory for the index of the disk: write a smaller disk-size");
  std::vector<Reads::Part> read_from;
  for (const Part& part : parts_) read_from.push_back({part.device.get(), geometry_});
  reads_ = std::make_unique<Reads>(std::move(read_from), catalog_.get(), &counts_);
  for (size_t i = 0; i < parts_.size(); ++i)
    if (parts_[i].device)
      if (Status started = StartPart(static_cast<uint16_t>(i), &parts_[i]); !started.ok())
        return started;
  if (!options_.missed ||
      std::ranges::all_of(parts_, [](const Part& part) { return !!part.device; }))
    return {};
  Result<std::thread> thread = StartThread([this] { JoinLate(); });
  if (!thread.ok()) return thread.status();
  joiner_ = std::move(thread).value();
  return {};
}

void DiskTier::JoinLate() {
  std::unique_lock lock(joining_);
  while (!stop_joining_.wait_for(lock, options_.open_again, [&] { return joining_ends_; })) {
    bool all = true;
    for (size_t i = 0; i < parts_.size() && !joining_ends_; ++i) {
      if (parts_[i].device) continue;
      lock.unlock();
      const Status joined = Join(static_cast<uint16_t>(i));
      lock.lock();
      if (!joined.ok()) parts_[i].why = joined.message();
      all &= joined.ok();
    }
    if (all) return;
  }
}

Status DiskTier::Join(uint16_t number) {
  Part& part = parts_[number];
  Part late;
  late.path = part.path;
  if (Status open = OpenPart(&late, Clock::now()); !open.ok()) return open;
  const ClearList known = late.superblock.clears;
  const std::optional<std::vector<MissedClear>> missed = options_.missed(known);
  if (!missed) return Unavailable("it is not known yet which clears it has missed");
  BeginBehind(late.superblock.first_sequence);
  ClearList clears = catalog_->clears();
  if (late.has_past) {
    clears.Merge(known);
    for (const MissedClear& clear : *missed) clears.Add(clear.tags, sequence_.Next(), clear.epoch);
  }
  late.superblock.clears = clears;
  if (Status claimed = ClaimPart(&late); !claimed.ok()) return claimed;
  catalog_->Merge(clears);
  // Clears of meanwhile are on it before it is on (Rejoin).
  late.device->Delay("it has just been opened");
  {
    const std::lock_guard lock(joining_);
    part.io = late.io;
    part.why = late.why;
    part.has_past = late.has_past;
    part.superblock = late.superblock;
    part.keep = late.keep;
    part.device = std::move(late.device);
  }
  reads_->Join(number, part.device.get());
  if (Status started = StartPart(number, &part); !started.ok())
    part.device->TurnOff(started.message());
  return {};
}

void DiskTier::BeginBehind(uint64_t range) {
  const uint64_t before = first_sequence_, first = FirstSequence(range, before);
  if (first == before) return;
  const std::lock_guard lock(recording_);
  // Before the first page of the range: the next process may find no other drive than these. Those
  // that are off have it before they are on (Rejoin).
  std::vector<SuperblockToSave> others;
  for (Part& part : parts_) {
    if (!part.on()) continue;
    part.superblock.first_sequence = first;
    others.push_back(part.to_save());
  }
  SaveOrSuspend(others);
  sequence_.RaiseTo(first);
  // Clears of before would be older than pages that they are to drop.
  ClearList clears = catalog_->clears();
  clears.Renew(before, sequence_.Next());
  catalog_->Merge(clears);
  first_sequence_ = first;
}

void DiskTier::StopJoining() {
  {
    const std::lock_guard lock(joining_);
    joining_ends_ = true;
  }
  stop_joining_.notify_all();
  if (joiner_.joinable()) joiner_.join();
}

void DiskTier::ClosePart(Part* part, const Status& why) {
  part->why = why.message();
  part->device.reset();
}

Status DiskTier::OpenPart(Part* part, TimePoint give_up) {
  Result<DeviceFile> file = OpenDeviceFile(part->path, give_up);
  if (!file.ok()) return file.status();
  Result<ChosenIo> io =
      ChooseIo(options_.io, file->fd.get(), options_.device.reads + kOtherRequests);
  if (!io.ok()) return io.status();
  part->io = io->reason;
  if (options_.wrap) io->engine = options_.wrap(part->path, std::move(io->engine));
  part->device =
      std::make_unique<Device>(std::move(file).value(), std::move(io->engine), options_.device);
  if (Status started = part->device->Start(); !started.ok()) return started;
  const uint64_t bytes = part->device->file().bytes;
  Result<FoundSuperblock> found = bytes < kFirstRegionAt
                                      ? FoundSuperblock{}
                                      : LoadSuperblock(part->device.get(), options_.cluster);
  if (!found.ok()) return found.status();
  part->why = bytes != 0 && bytes < kFirstRegionAt ? "the file was cut off" : found->why_not;
  part->keep = found->copy;
  if (found->superblock) {
    part->superblock = *std::move(found->superblock);
    part->has_past = part->superblock.geometry.region_bytes == options_.region_bytes;
    if (part->has_past) return {};
    part->why = "its regions have another size";
  }
  // What was in the file is nobody's from here on: contents blocks name the file's number.
  part->superblock.file_id = RandomNumber();
  part->superblock.cluster = options_.cluster;
  return {};
}

Status DiskTier::ClaimPart(Part* part) {
  Superblock& superblock = part->superblock;
  superblock.geometry = geometry_;
  superblock.first_sequence = first_sequence_;
  Status reserved = ReserveSpace(part->device->file(), superblock.geometry.file_bytes());
  if (!reserved.ok()) return reserved;
  return SaveSuperblocks(std::array{part->to_save()})[0];
}

Status DiskTier::StartPart(uint16_t number, Part* part) {
  const Superblock& superblock = part->superblock;
  part->regions = std::make_unique<Regions>(superblock.geometry.regions);
  part->log = std::make_unique<Log>(number, superblock.file_id, superblock.geometry, options_.log,
                                    part->device.get(), part->regions.get(), catalog_.get(),
                                    &sequence_, &counts_);
  if (!part->log->ok())
    return ResourceExhausted("no memory for the buffers of the disk: raise the memory limit");
  part->keeper = std::make_unique<Keeper>(
      number, superblock.geometry, part->device.get(), part->regions.get(), catalog_.get(),
      part->log.get(), &counts_,
      Recovery(number, superblock.file_id, superblock.geometry, part->device.get(),
               part->regions.get(), catalog_.get(), &counts_),
      [this](uint64_t bytes) { return MayReinsert(bytes); }, [this, part] { return Rejoin(part); });
  part->device->SetTick([log = part->log.get()] { return log->Tick(); });
  // Before the keeper turns it on: a clear that comes then is recorded on it, too.
  part->there = true;
  return part->keeper->Start();
}

DiskTier::~DiskTier() {
  StopJoining();
  for (Part& part : parts_)
    if (part.keeper) part.keeper->Stop();
  (void)Flush(Clock::now() + kLastFlush).ok();
  for (Part& part : parts_)
    if (part.device) part.device->Stop();
}

bool DiskTier::Contains(const Key& key, uint64_t sequence) const {
  return catalog_->Contains(key, sequence);
}

size_t DiskTier::Read(std::span<DiskRead* const> reads, TimePoint deadline) {
  return reads_->Read(reads, deadline);
}

uint32_t DiskTier::memory_alignment() const { return reads_->memory_alignment(); }

void DiskTier::AwaitSwept(TimePoint deadline) { catalog_->AwaitSwept(deadline); }

ClearList DiskTier::clears() const { return catalog_->clears(); }

bool DiskTier::Next(uint64_t* at, std::vector<DiskPage>* pages) const {
  return catalog_->Next(at, pages);
}

bool DiskTier::UpdateNote(const Key& key, uint64_t sequence,
                          const std::function<uint32_t(uint32_t)>& change) {
  return catalog_->UpdateNote(key, sequence, change);
}

void DiskTier::Find(std::span<const Key> keys, std::span<DiskPage> pages) const {
  constexpr size_t kAtOnce = 64;  // under one lock
  for (size_t at = 0; at < keys.size(); at += kAtOnce) {
    const size_t count = std::min(kAtOnce, keys.size() - at);
    const auto found = pages.subspan(at, count);
    catalog_->Find(keys.subspan(at, count), found);
    for (DiskPage& page : found)  // those of a drive that is off leave by and by
      if (page.length != 0 && !parts_[page.at.device].device->on()) page = {};
  }
}

PutResult DiskTier::Put(const PageToPut& page, std::span<const std::byte> bytes) {
  const auto dropped = [&](Drop why) {
    counts_.dropped.Add(why);
    return PutResult{PutResult::What::kDropped, why};
  };
  if (bytes.empty() || bytes.size() > options_.log.max_page_bytes) return dropped(Drop::kLength);
  DiskPage found;
  Find(std::span(&page.key, 1), std::span(&found, 1));
  if (found.length != 0) {
    counts_.already.fetch_add(1, std::memory_order_relaxed);
    return {PutResult::What::kAlready, Drop::kCount};
  }
  {
    const std::lock_guard lock(budget_mutex_);
    if (!budget_.Admits(page.batch, page.continues_hit, Clock::now()))
      return dropped(Drop::kBudget);
  }
  const DiskPage put{
      .key = page.key, .checksum = page.checksum, .tag = page.tag, .owner = page.owner};
  bool later = false;
  // A batch has a device, and the next one while that does not take it.
  const size_t home = page.batch % parts_.size();
  for (size_t i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[(home + i) % parts_.size()];
    if (!part.there) continue;
    switch (part.log->Append(put, bytes, false)) {
      case Log::Taken::kYes: {
        const std::lock_guard lock(budget_mutex_);
        budget_.Spend(AlignUp(bytes.size()) + sizeof(ContentsEntry), Clock::now());
        return {};
      }
      case Log::Taken::kQueue: later = true; break;
      case Log::Taken::kRegion:
        later = true;
        part.keeper->Wake();
        break;
      case Log::Taken::kOff: break;
    }
  }
  return later ? PutResult{PutResult::What::kLater} : dropped(Drop::kOff);
}

bool DiskTier::MayReinsert(uint64_t bytes) {
  const std::lock_guard lock(budget_mutex_);
  const TimePoint now = Clock::now();
  if (!budget_.unlimited() && budget_.Left(now) <= 0) return false;
  budget_.Spend(AlignUp(bytes) + sizeof(ContentsEntry), now);
  return true;
}

Status DiskTier::Flush(TimePoint deadline) {
  Status first;
  for (Part& part : parts_)
    if (part.there)
      if (Status flushed = part.log->Flush(deadline); first.ok()) first = flushed;
  return first;
}

void DiskTier::Clear(TagRange tags, uint64_t epoch, std::span<const ForgottenClears> forgotten) {
  catalog_->Clear(tags, epoch, forgotten);
  for (Part& part : parts_)
    if (part.there) part.keeper->Wake();
}

bool DiskTier::RecordClears() {
  const std::lock_guard lock(recording_);
  const ClearList clears = catalog_->clears();
  std::vector<SuperblockToSave> behind;
  for (Part& part : parts_) {
    if (!part.on() || part.superblock.clears == clears) continue;
    part.superblock.clears = clears;
    behind.push_back(part.to_save());
  }
  SaveOrSuspend(behind);
  return std::ranges::all_of(parts_, &Part::on);
}

Status DiskTier::Rejoin(Part* part) {
  Device* const device = part->device.get();
  Result<FoundSuperblock> found = LoadSuperblock(device, options_.cluster);
  if (!found.ok()) return found.status();
  if (found->superblock && found->superblock->file_id != part->superblock.file_id) {
    device->TurnOff("another process has written to its file");
    return Unavailable(device->off_reason());
  }
  part->keep = found->copy;
  while (true) {
    // Who clears does not wait for it: nobody else writes them while the device is off.
    part->superblock.clears = catalog_->clears();
    part->superblock.first_sequence = first_sequence_;
    if (Status saved = SaveSuperblocks(std::array{part->to_save()})[0]; !saved.ok()) return saved;
    const std::lock_guard lock(recording_);
    if (part->superblock.clears != catalog_->clears() ||
        part->superblock.first_sequence != first_sequence_)
      continue;
    if (!device->TurnOn()) return Unavailable(device->off_reason());
    rejoins_.fetch_add(1, std::memory_order_relaxed);
    return {};
  }
}

DiskStats DiskTier::stats() const {
  DiskStats stats{.pages = catalog_->size(), .capacity_pages = catalog_->capacity()};
  {
    const std::lock_guard lock(budget_mutex_);
    stats.budget_left = budget_.Left(Clock::now());
  }
  const std::lock_guard joining(joining_);
  for (const Part& part : parts_) {
    DeviceHealth health{
        .path = part.path, .io = part.io, .why = part.why, .has_past = part.has_past};
    if (part.there) {
      health.on = part.device->on();
      health.writes_paused = part.log->write_error() != 0;
      if (health.writes_paused)
        health.why = fmt::format("writes fail: {}; pages are read, and new ones wait",
                                 std::generic_category().message(part.log->write_error()));
      if (!health.on) health.why = part.device->off_reason();
      health.bytes = part.superblock.geometry.file_bytes();
      health.regions = part.regions->size();
      health.regions_free = part.regions->free();
      health.regions_found = part.keeper->regions_found();
      health.regions_read = part.keeper->regions_read();
      health.recovered = part.keeper->recovered();
      health.queued_bytes = part.log->queued_bytes();
      health.counts = part.device->counts();
    }
    stats.devices.push_back(std::move(health));
  }
  return stats;
}

bool DiskTier::on() const {
  return std::any_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.on(); });
}

void DiskTier::TurnOff(const std::string& why) {
  StopJoining();
  for (Part& part : parts_)
    if (part.device) part.device->TurnOff(why);
}

bool DiskTier::recovered() const {
  return std::all_of(parts_.begin(), parts_.end(),
                     [](const Part& part) { return !part.on() || part.keeper->recovered(); });
}

}  // namespace peercache::disk
