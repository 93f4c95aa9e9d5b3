#include "disk/disk_tier.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/random.h"
#include "base/size.h"
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
  // Of clears: how many the superblock has that is being written, and how many the last one had.
  SuperblockWriter writer;
  uint64_t writing = 0, recorded = 0;

  bool on() const { return device && device->on(); }
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
    : options_(std::move(options)), budget_(options_.bytes_a_day, Clock::now()) {}

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
  if (opened == 0) return refused;
  const uint64_t first = FirstSequence(newest_range, WallNanoseconds());
  sequence_.RaiseTo(first);
  std::vector<uint32_t> regions;
  size_t claimed = 0;
  for (Part& part : parts_) {
    if (part.device) {
      part.superblock.clears = clears;
      part.superblock.first_sequence = first;
      if (Status claim = ClaimPart(&part); !claim.ok()) {
        ClosePart(&part, claim);
        refused = claim;
      } else {
        ++claimed;
      }
    }
    regions.push_back(part.device ? part.superblock.geometry.regions : 0);
  }
  if (claimed == 0) return refused;
  catalog_ = std::make_unique<Catalog>(claimed * (options_.bytes / options_.mean_page_bytes),
                                       regions, clears, &sequence_, observer);
  if (!catalog_->ok())
    return ResourceExhausted("no memory for the index of the disk: write a smaller disk-size");
  std::vector<Reads::Part> read_from;
  for (const Part& part : parts_)
    read_from.push_back({part.device.get(), part.superblock.geometry});
  reads_ = std::make_unique<Reads>(std::move(read_from), catalog_.get(), &counts_);
  for (size_t i = 0; i < parts_.size(); ++i)
    if (parts_[i].device)
      if (Status started = StartPart(static_cast<uint16_t>(i), &parts_[i]); !started.ok())
        return started;
  return {};
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
  Result<FoundSuperblock> found = LoadSuperblock(part->device.get(), options_.cluster);
  if (!found.ok()) return found.status();
  part->why = found->why_not;
  part->writer = SuperblockWriter(found->copy);
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
  superblock.geometry = {
      .region_bytes = options_.region_bytes,
      .regions = static_cast<uint32_t>((options_.bytes - kFirstRegionAt) / options_.region_bytes)};
  Status reserved = ReserveSpace(part->device->file(), superblock.geometry.file_bytes());
  return reserved.ok() ? SaveSuperblock(&part->writer, part->device.get(), &superblock) : reserved;
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
      [this](uint64_t bytes) { return MayReinsert(bytes); });
  part->device->SetTick([log = part->log.get()] { return log->Tick(); });
  return part->keeper->Start();
}

DiskTier::~DiskTier() {
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

void DiskTier::ForEach(const std::function<void(const DiskPage&)>& fn) const {
  catalog_->ForEach(fn);
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
  if (unrecorded_count_.load(std::memory_order_acquire) != 0 && IsUnrecorded(page.tag))
    return dropped(Drop::kCleared);
  DiskPage found;
  catalog_->Find(std::span(&page.key, 1), std::span(&found, 1));
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
    if (!part.device) continue;
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
    if (part.log)
      if (Status flushed = part.log->Flush(deadline); first.ok()) first = flushed;
  return first;
}

void DiskTier::DropTag(uint64_t tag) {
  catalog_->Clear(tag, 0);
  WakeKeepers();
}

void DiskTier::WakeKeepers() {
  for (Part& part : parts_)
    if (part.keeper) part.keeper->Wake();
}

Status DiskTier::Clear(std::optional<uint64_t> tag, uint64_t epoch,
                       const ForgottenClears& forgotten, Duration patience) {
  const TimePoint deadline = Clock::now() + patience;
  const std::lock_guard lock(clearing_);
  uint64_t number = 0;
  bool again = false;
  {
    const std::lock_guard unrecorded(unrecorded_mutex_);
    const auto [it, added] = unrecorded_.try_emplace(tag);
    again = !added && it->second.epoch >= epoch;
    if (!again) it->second = {++clears_, epoch};
    number = it->second.number;
    unrecorded_count_.store(unrecorded_.size(), std::memory_order_release);
  }
  if (!again) {  // else nothing was put under the tag since
    catalog_->Clear(tag, epoch, forgotten);
    WakeKeepers();
  }
  Status recorded = Record(number, deadline);
  if (recorded.code() == Code::kDeadlineExceeded) return recorded;
  const std::lock_guard unrecorded(unrecorded_mutex_);
  // A superblock that has this clear has those before it.
  std::erase_if(unrecorded_, [&](const auto& clear) { return clear.second.number <= number; });
  unrecorded_count_.store(unrecorded_.size(), std::memory_order_release);
  return recorded;
}

bool DiskTier::IsUnrecorded(uint64_t tag) {
  const std::lock_guard lock(unrecorded_mutex_);
  return unrecorded_.contains(tag) || unrecorded_.contains(std::nullopt);
}

Status DiskTier::Record(uint64_t number, TimePoint deadline) {
  const auto behind = [number](const Part& part) { return part.on() && part.recorded < number; };
  while (std::ranges::any_of(parts_, behind)) {
    if (!RecordRound(number, deadline))
      return DeadlineExceeded("the clear is not on all drives yet");
  }
  const auto has = [number](const Part& part) { return part.on() && part.recorded >= number; };
  if (std::ranges::any_of(parts_, has)) return {};
  std::string why = "no device is on";
  for (const Part& part : parts_)
    if (part.device && !part.on()) why = part.device->off_reason();
  return Unavailable(
      fmt::format("the clear could not be recorded on disk ({}): its pages would be back when the "
                  "node starts again; remove the files in disk-path before",
                  why));
}

bool DiskTier::RecordRound(uint64_t number, TimePoint deadline) {
  for (Part& part : parts_) {
    if (!part.on() || part.recorded >= number || part.writer.under_way()) continue;
    part.superblock.clears = catalog_->clears();
    part.writing = clears_;
    part.writer.Start(part.device.get(), &part.superblock);
  }
  for (int step = 1; step < SuperblockWriter::kSteps; ++step)
    for (Part& part : parts_)
      if (part.on() && part.writer.under_way()) (void)part.writer.Advance(deadline);
  bool ended = true;
  for (Part& part : parts_) {
    if (!part.on() || !part.writer.under_way()) continue;
    const std::optional<Status> saved = part.writer.Await(deadline);
    if (!saved) {
      ended = false;
    } else if (saved->ok()) {
      part.recorded = part.writing;
    } else {
      // Its pages must not come back from it while it misses a clear.
      part.device->TurnOff(saved->message());
    }
  }
  return ended;
}

DiskStats DiskTier::stats() const {
  DiskStats stats{.pages = catalog_->size(), .capacity_pages = catalog_->capacity()};
  {
    const std::lock_guard lock(budget_mutex_);
    stats.budget_left = budget_.Left(Clock::now());
  }
  for (const Part& part : parts_) {
    DeviceHealth health{
        .path = part.path, .io = part.io, .why = part.why, .has_past = part.has_past};
    if (part.device) {
      health.on = part.device->on();
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
  return std::any_of(parts_.begin(), parts_.end(),
                     [](const Part& part) { return part.device && part.device->on(); });
}

void DiskTier::TurnOff(const std::string& why) {
  for (Part& part : parts_)
    if (part.device) part.device->TurnOff(why);
}

bool DiskTier::recovered() const {
  return std::all_of(parts_.begin(), parts_.end(), [](const Part& part) {
    return !part.device || !part.device->on() || part.keeper->recovered();
  });
}

}  // namespace peercache::disk
