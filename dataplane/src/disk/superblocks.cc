#include "disk/superblocks.h"

#include <fmt/format.h>

namespace peercache::disk {
namespace {

// A device that takes longer turns itself off.
constexpr Duration kSuperblockPatience = std::chrono::seconds(10);

}  // namespace

Result<FoundSuperblock> LoadSuperblock(Device* device, const std::string& cluster) {
  const std::string& path = device->path();
  FoundSuperblock found;
  if (device->file().bytes == 0) return found;
  if (device->file().bytes < kFirstRegionAt) {
    found.why_not = "the file was cut off";
    return found;
  }
  bool corrupt = false;
  for (size_t copy = 0; copy < kSuperblockAt.size(); ++copy) {
    const uint64_t at = kSuperblockAt[copy];
    const std::shared_ptr<Transfer> transfer = Transfer::Make(kSuperblockBytes);
    transfer->Start(device, IoRequest::Op::kRead, at, kSuperblockBytes);
    if (Status read = transfer->Await(Clock::now() + kSuperblockPatience); !read.ok())
      return read.Annotate("reading the superblock");
    Superblock superblock;
    switch (DecodeSuperblock(transfer->bytes(), &superblock)) {
      case SuperblockState::kAbsent: continue;
      case SuperblockState::kCorrupt: corrupt = true; continue;
      case SuperblockState::kNewer:
        return InvalidArgument(
            fmt::format("disk-path: {} was written by a newer release, in a format above {}; run "
                        "that release, or remove the file, which loses its pages",
                        path, kFormatVersion));
      case SuperblockState::kValid: break;
    }
    if (superblock.cluster != cluster)
      return InvalidArgument(fmt::format(
          "disk-path: {} belongs to the cluster \"{}\", and this is \"{}\"; name another folder, "
          "or remove the file, which loses its pages",
          path, superblock.cluster, cluster));
    if (found.superblock && superblock.written <= found.superblock->written) continue;
    found.superblock = std::move(superblock);
    found.copy = copy;
  }
  if (!found.superblock)
    found.why_not = corrupt ? "both superblocks are damaged" : "it has no superblock";
  return found;
}

void SuperblockWriter::Start(Device* device, Superblock* superblock) {
  ++superblock->written;
  device_ = device;
  step_ = 0;
  transfer_ = Transfer::Make(kSuperblockBytes);
  EncodeSuperblock(*superblock, transfer_->bytes());
  Begin();
}

void SuperblockWriter::Begin() {
  const size_t copy = step_ < kSteps / 2 ? 1 - keep_ : keep_;
  if (step_ % 2 == 0)
    transfer_->Start(device_, IoRequest::Op::kWrite, kSuperblockAt[copy], kSuperblockBytes);
  else
    transfer_->Start(device_, IoRequest::Op::kSync, 0, 0);
}

bool SuperblockWriter::Advance(TimePoint deadline) {
  if (step_ + 1 == kSteps || !transfer_->Await(deadline).ok()) return false;
  ++step_;
  Begin();
  return true;
}

std::optional<Status> SuperblockWriter::Await(TimePoint deadline) {
  while (Advance(deadline)) {
  }
  Status ended = transfer_->Await(deadline);
  if (!transfer_->ended()) return std::nullopt;
  if (ended.ok() && step_ + 1 != kSteps) return std::nullopt;  // the step ended just now
  transfer_.reset();
  return ended.Annotate("writing the superblocks");
}

Status SaveSuperblock(SuperblockWriter* writer, Device* device, Superblock* superblock) {
  writer->Start(device, superblock);
  const TimePoint deadline = Clock::now() + SuperblockWriter::kSteps * kSuperblockPatience;
  if (std::optional<Status> ended = writer->Await(deadline)) return *std::move(ended);
  return DeadlineExceeded(device->path() + " does not answer: writing the superblocks");
}

}  // namespace peercache::disk
