// How a page gets to the drive. Counters that only grow show how far each step is:
//
//   buffers   completed_ <= submitted_ <= sealed_     of kWriteBytes each, in a ring
//   pages     noted_ <= committed_ <= appended_       in a ring of kMostPending
//
//   Append    one caller at a time: finds room in the region, copies the page into the open buffer
//             and those after it, and seals each that is full
//   Pump      submits sealed buffers in their order, as write_depth and write_rate allow
//   Tick      on the device's thread: seals a buffer that has waited for long, counts what has
//             ended, commits pages whose last buffer is complete, and has the contents name them
// Buffers complete in their order, so completed_ alone decides which pages are on the drive. A page
// in a buffer that failed leaves a hole; the next page lies behind it.
//
// Locks: append_ for as long as one page is copied; state_ for the counters, never during a copy or
// I/O. The device's thread only tries append_, so a caller never delays it.
//
// Benefits: the slot is free as soon as the page is copied, and small pages make large writes.
// Costs: one copy of each page; two pages of the greatest length in buffers.
//
// Rejected:
// - writing from the slot: it would be pinned until the drive has answered, milliseconds to
//   seconds;
// - reading a page before its buffers are complete: the catalog would name bytes that may never
//   come;
// - a journal apart from the pages: a second stream of writes; the contents blocks are at the head
//   of the region whose pages they name.
#include "disk/log.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/checksum.h"

namespace peercache::disk {
namespace {

constexpr double kBurstSeconds = 0.05;  // of write_rate, after a pause

}  // namespace

Log::Log(uint16_t number, uint64_t file_id, const Geometry& geometry, const LogLimits& limits,
         Device* device, Regions* regions, Catalog* catalog, Sequence* sequence, Counts* counts)
    : number_(number),
      geometry_(geometry),
      limits_(limits),
      device_(device),
      regions_(regions),
      catalog_(catalog),
      sequence_(sequence),
      counts_(counts),
      // Two pages of the greatest length, so that one is copied while another one is written.
      buffers_(std::max<uint64_t>(8, 2 * (AlignUp(limits.max_page_bytes) / kWriteBytes + 1))),
      memory_(buffers_.size() * kWriteBytes),
      pause_(limits.pause),
      pending_(kMostPending),
      contents_(file_id, geometry, device, regions, limits.flush_after / 2) {
  for (Buffer& buffer : buffers_) buffer.log = this;
}

bool Log::Room(uint64_t bytes, bool moves) {
  if (open_) {
    bool failed;
    {
      const std::lock_guard lock(state_);
      failed = failed_epoch_ == epoch_;
    }
    if (!failed && cursor_ + bytes <= geometry_.region_bytes && pages_ < geometry_.most_pages())
      return true;
    CloseRegion();
  }
  epoch_ = sequence_->Next();
  const std::optional<uint32_t> opened = regions_->Open(epoch_, moves ? 0 : 1);
  if (!opened) return false;
  open_ = true;
  region_ = *opened;
  cursor_ = geometry_.contents_bytes();
  pages_ = 0;
  return true;
}

void Log::CloseRegion() {
  if (filled_ != 0) Seal();
  open_ = false;
  regions_->Close(region_);
}

Log::Taken Log::Append(const DiskPage& page, std::span<const std::byte> bytes, bool moves) {
  const uint64_t room = AlignUp(bytes.size());
  const std::lock_guard lock(append_);
  if (!device_->on()) return Taken::kOff;
  {
    const std::lock_guard state(state_);
    if (write_error_ != 0 && pause_.Waits(Clock::now())) return Taken::kQueue;
  }
  if (!Room(room, moves)) return Taken::kRegion;
  {
    const std::lock_guard state(state_);
    const uint64_t free = (buffers_.size() - (sealed_ - completed_)) * kWriteBytes;
    if (filled_ + room > free || appended_ - noted_ == kMostPending) return Taken::kQueue;
  }
  // Only who appends takes room, so it is still there; whoever was refused has paid for no
  // checksum.
  const uint64_t checksum = page.checksum != 0 ? page.checksum : Checksum(bytes);
  {
    const std::lock_guard state(state_);
    Pending& pending = pending_[appended_ % kMostPending];
    pending = {.page = page, .epoch = epoch_, .moves = moves};
    if (!moves) pending.page.sequence = sequence_->Next();
    pending.page.checksum = checksum;
    pending.page.at = {number_, region_};
    pending.page.offset = static_cast<uint32_t>(cursor_);
    pending.page.length = static_cast<uint32_t>(bytes.size());
    pending.page.read = false;
    pending.first = sealed_;
    pending.last = sealed_ + (filled_ + room - 1) / kWriteBytes;
    ++appended_;
  }
  regions_->Owe(region_, 1);
  for (uint64_t copied = 0; copied < room;) {
    if (filled_ == 0) {
      filled_from_ = cursor_ + copied;
      filled_since_ = Clock::now();
    }
    const uint64_t part = std::min<uint64_t>(room - copied, kWriteBytes - filled_);
    const uint64_t real = std::min(part, bytes.size() - std::min<uint64_t>(copied, bytes.size()));
    std::byte* to = Memory(sealed_) + filled_;  // sealed_ changes under append_ alone
    if (real != 0) std::memcpy(to, bytes.data() + copied, real);
    std::memset(to + real, 0, part - real);
    filled_ += static_cast<uint32_t>(part);
    copied += part;
    if (filled_ == kWriteBytes) Seal();
  }
  cursor_ += room;
  ++pages_;
  return Taken::kYes;
}

void Log::Seal() {
  const std::lock_guard lock(state_);
  Buffer& buffer = At(sealed_);
  buffer.used = std::exchange(filled_, 0);
  buffer.request.Set(IoRequest::Op::kWrite, Memory(sealed_), buffer.used,
                     geometry_.region_at(region_) + filled_from_);
  buffer.request.context = &buffer;
  buffer.request.done = [](IoRequest* request) {
    auto* ended = static_cast<Buffer*>(request->context);
    const std::lock_guard ending(ended->log->state_);
    ended->error = request->error();
    ended->done = true;
    --ended->log->in_flight_;
  };
  ++sealed_;
  Pump(Clock::now());
}

void Log::Pump(TimePoint now) {
  if (limits_.write_rate != 0) {
    const double rate = static_cast<double>(limits_.write_rate);
    // A burst is what the wait for the next tick would cost, and one write at least.
    allowance_ = std::min(allowance_ + rate * ToSeconds(now - allowed_at_),
                          std::max<double>(rate * kBurstSeconds, kWriteBytes));
    allowed_at_ = now;
  }
  while (submitted_ != sealed_) {
    Buffer& buffer = At(submitted_);
    if (device_->on()) {
      if (in_flight_ >= limits_.write_depth) return;
      if (limits_.write_rate != 0 && allowance_ < buffer.used) return;
      allowance_ -= buffer.used;
      ++in_flight_;
      if (device_->Submit(&buffer.request)) {
        ++submitted_;
        continue;
      }
      --in_flight_;
    }
    buffer.error = ENODEV;
    buffer.done = true;
    ++submitted_;
  }
}

void Log::Ended(int error, TimePoint now) {
  // What was sent before the pause says nothing new.
  if (!device_->on() || pause_.Waits(now)) return;
  write_error_ = error;
  if (error != 0) pause_.Failed(now);
}

void Log::Complete(TimePoint now) {
  for (; completed_ != submitted_ && At(completed_).done; ++completed_) {
    Buffer& buffer = At(completed_);
    Ended(buffer.error, now);
    if (buffer.error != 0) {
      for (uint64_t i = committed_; i != appended_; ++i) {
        Pending& pending = pending_[i % kMostPending];
        if (pending.first > completed_ || pending.last < completed_) continue;
        pending.failed = true;
      }
    }
    buffer.done = false;
    buffer.error = 0;
  }
}

Duration Log::Tick() {
  const TimePoint now = Clock::now();
  bool flush;
  int error_before;
  {
    const std::lock_guard lock(state_);
    flush = flush_wanted_ != 0;
    error_before = write_error_;
  }
  SealOld(now, flush);
  {
    const std::lock_guard lock(state_);
    Complete(now);
    Pump(now);
  }
  Commit();
  NoteCommitted(now, flush);
  if (const int error = write_error(); error != 0 && error_before == 0)
    spdlog::error("disk {}: a write has failed: {}; new pages wait, and one is tried now and then",
                  device_->path(), std::generic_category().message(error));
  else if (error == 0 && error_before != 0)
    spdlog::info("disk {}: writes work again", device_->path());
  const std::lock_guard lock(state_);
  if (safe_ >= flush_wanted_) flush_wanted_ = 0;
  progress_.notify_all();
  if (submitted_ != sealed_ || flush_wanted_ != 0 || noted_ != committed_) return milliseconds(1);
  return std::min(limits_.flush_after / 8, contents_.due() - now);
}

void Log::SealOld(TimePoint now, bool flush) {
  std::unique_lock lock(append_, std::try_to_lock);
  if (!lock) return;  // somebody appends; the next tick
  if (filled_ != 0 && (flush || now - filled_since_ >= limits_.flush_after / 2)) Seal();
}

void Log::Commit() {
  while (true) {
    std::array<DiskPage, 32> stored;
    std::array<Pending*, 32> batch;
    size_t count = 0, told = 0;
    {
      const std::lock_guard lock(state_);
      for (uint64_t i = committed_; i != appended_ && count < batch.size(); ++i) {
        Pending& pending = pending_[i % kMostPending];
        if (pending.last >= completed_) break;
        batch[count++] = &pending;
      }
    }
    if (count == 0) return;
    for (size_t i = 0; i < count; ++i) {
      Pending& pending = *batch[i];
      if (pending.failed) {
        counts_->dropped.Add(Drop::kWriteError);
        continue;
      }
      switch (catalog_->Store(pending.page, pending.moves)) {
        case Catalog::Outcome::kStored:
          counts_->stored.fetch_add(1, std::memory_order_relaxed);
          counts_->stored_bytes.fetch_add(pending.page.length, std::memory_order_relaxed);
          stored[told++] = pending.page;
          break;
        case Catalog::Outcome::kMoved:
          counts_->reinserted.fetch_add(1, std::memory_order_relaxed);
          counts_->reinserted_bytes.fetch_add(pending.page.length, std::memory_order_relaxed);
          stored[told++] = pending.page;  // a pass over all may have missed it
          break;
        case Catalog::Outcome::kCleared:
          counts_->dropped.Add(Drop::kCleared);
          pending.failed = true;
          break;
        case Catalog::Outcome::kFull:
          counts_->dropped.Add(Drop::kIndex);
          pending.failed = true;
          break;
        case Catalog::Outcome::kOlder:
        case Catalog::Outcome::kSame: pending.failed = true; break;
      }
    }
    catalog_->Tell(std::span(stored).first(told));
    const std::lock_guard lock(state_);
    committed_ += count;
  }
}

void Log::NoteCommitted(TimePoint now, bool flush) {
  // What is committed and noted changes on this thread alone.
  uint64_t noted = noted_;
  const auto progress = [&](bool write) {
    const std::optional<Contents::Failure> failure = contents_.Progress(now, write);
    if (!failure) return;
    // Its pages are found until they are given up, but not after a crash.
    const uint64_t epoch = regions_->epoch(failure->region);
    const std::lock_guard lock(state_);
    failed_epoch_ = std::max(failed_epoch_, epoch);
    Ended(failure->error, now);
  };
  progress(flush);
  for (; noted != committed_; ++noted) {
    const Pending& pending = pending_[noted % kMostPending];
    if (pending.failed) {
      regions_->Owe(pending.page.at.region, -1);
    } else if (!contents_.Add(pending.page, pending.epoch, noted, now)) {
      progress(true);  // it waits for a block that is full, or of an earlier region
      break;
    }
  }
  const std::lock_guard lock(state_);
  noted_ = noted;
  safe_ = contents_.FirstOwed(noted);
}

Status Log::Flush(TimePoint deadline) {
  std::unique_lock lock(state_);
  const uint64_t wanted = appended_;
  while (safe_ < wanted) {
    flush_wanted_ = std::max(flush_wanted_, wanted);
    if (!device_->on()) return Unavailable(device_->path() + " is off: " + device_->off_reason());
    if (progress_.wait_until(lock, deadline) == std::cv_status::timeout)
      return DeadlineExceeded("writing to " + device_->path() + " takes longer");
  }
  return {};
}

int Log::write_error() const {
  const std::lock_guard lock(state_);
  return write_error_;
}

uint64_t Log::queued_bytes() const {
  const std::lock_guard lock(state_);
  return (sealed_ - completed_) * kWriteBytes;
}

}  // namespace peercache::disk
