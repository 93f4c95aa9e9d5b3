#include "disk/keeper.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/checksum.h"
#include "base/thread.h"

namespace peercache::disk {
namespace {

constexpr Duration kKeeperTick = milliseconds(100);
// A device that takes longer is turned off by then.
constexpr Duration kMovePatience = std::chrono::seconds(5);

}  // namespace

Keeper::Keeper(uint16_t number, const Geometry& geometry, Device* device, Regions* regions,
               Catalog* catalog, Log* log, Counts* counts, Recovery recovery,
               std::function<bool(uint64_t)> may_reinsert, std::function<Status()> rejoin)
    : number_(number),
      geometry_(geometry),
      device_(device),
      regions_(regions),
      catalog_(catalog),
      log_(log),
      counts_(counts),
      recovery_(std::move(recovery)),
      may_reinsert_(std::move(may_reinsert)),
      rejoin_(std::move(rejoin)) {}

Status Keeper::Start() {
  Result<std::thread> thread = StartThread([this] { Run(); });
  if (!thread.ok()) return thread.status();
  thread_ = std::move(thread).value();
  return {};
}

void Keeper::Stop() {
  stop_ = true;
  Wake();
  if (thread_.joinable()) thread_.join();
}

void Keeper::Wake() {
  {
    const std::lock_guard lock(mutex_);
    wanted_ = true;
  }
  wake_.notify_one();
}

void Keeper::Run() {
  while (!stopping()) {
    catalog_->Sweep();
    if (!device_->on()) {
      WhileOff();
    } else {
      if (!recovered()) Recover();
      MakeRoom();
    }
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, kKeeperTick, [&] { return wanted_ || stopping(); });
    wanted_ = false;
  }
}

void Keeper::WhileOff() {
  const TimePoint now = Clock::now();
  if (device_->Due(now)) device_->Try(rejoin_);
  if (device_->on()) catalog_->TellBack();
  if (!device_->Lost(now) || now < drop_at_) return;
  // Again and again: what is under way may still be committed, after which it has to go, too.
  drop_at_ = now + 10 * kKeeperTick;
  for (uint32_t region = 0; region < geometry_.regions; ++region) {
    catalog_->DropRegion({number_, region});
    regions_->Forget(region);
  }
  read_ = 0;
  recovered_.store(false, std::memory_order_release);
}

void Keeper::Recover() {
  if (!probed_ && !recovery_.Probe()) return;
  probed_ = true;
  recovery_.Restart();
  const std::vector<uint32_t> unread = regions_->In(Regions::State::kUnread);
  found_ = read_ + static_cast<uint32_t>(unread.size());
  for (size_t i = 0; i < unread.size(); ++i) {
    if (stopping() || !device_->on()) return;
    catalog_->Sweep();
    MakeRoom();
    const bool last = i + 1 == unread.size();
    recovery_.Read(unread[i], last ? std::nullopt : std::optional(unread[i + 1]));
    if (!device_->on()) return;
    ++read_;
  }
  recovered_.store(true, std::memory_order_release);
}

bool Keeper::ShortOfRoom() const {
  const uint64_t pages =
      std::min<uint64_t>(uint64_t{kFreeRegions} * geometry_.most_pages(), catalog_->capacity() / 8);
  return regions_->free() < kFreeRegions || catalog_->free_pages() < pages;
}

void Keeper::MakeRoom() {
  while (!stopping() && device_->on() && ShortOfRoom()) {
    const std::optional<uint32_t> oldest = regions_->Oldest();
    if (!oldest) return;
    GiveUp(*oldest);
  }
}

void Keeper::GiveUp(uint32_t region) {
  const RegionId id{number_, region};
  std::vector<DiskPage> pages;
  std::shared_ptr<Transfer> transfer;
  uint64_t bytes = 0;
  bool more = regions_->free() != 0;  // or there is nowhere to write them
  for (uint32_t block = Index::kNone; more;) {
    block = catalog_->ReadPages(id, block, &pages);
    if (block == Index::kNone) break;
    for (const DiskPage& page : pages) {
      bytes += AlignUp(page.length);
      more = bytes <= geometry_.region_bytes / 2 && !stopping() && may_reinsert_(page.length);
      if (!more) break;
      if (!transfer || transfer->bytes().size() < AlignUp(page.length))
        transfer = Transfer::Make(page.length);
      more = Reinsert(page, transfer.get());
      if (!more) break;
    }
  }
  // They move in the catalog when they are written; until then they are found here.
  if (transfer && !log_->Flush(Clock::now() + kMovePatience).ok() && !device_->on()) return;
  counts_->evicted.fetch_add(catalog_->DropRegion(id), std::memory_order_relaxed);
  regions_->Free(region);
}

bool Keeper::Reinsert(const DiskPage& page, Transfer* transfer) {
  transfer->Start(device_, IoRequest::Op::kRead, geometry_.region_at(page.at.region) + page.offset,
                  AlignUp(page.length));
  const TimePoint deadline = Clock::now() + kMovePatience;
  const Status read = transfer->Await(deadline);
  if (read.code() == Code::kDeadlineExceeded) return false;
  const auto bytes = std::span<const std::byte>(transfer->bytes()).first(page.length);
  if (!read.ok() || Checksum(bytes) != page.checksum) return true;  // it leaves with its region
  while (!stopping() && Clock::now() < deadline) {
    switch (log_->Append(page, bytes, true)) {
      case Log::Taken::kYes: return true;
      case Log::Taken::kQueue: std::this_thread::sleep_for(milliseconds(1)); continue;
      case Log::Taken::kRegion:
      case Log::Taken::kOff: return false;
    }
  }
  return false;
}

}  // namespace peercache::disk
