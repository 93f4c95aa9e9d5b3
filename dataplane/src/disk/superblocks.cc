#include "disk/superblocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

namespace peercache::disk {
namespace {

// A device that takes longer turns itself off.
constexpr Duration kSuperblockPatience = std::chrono::seconds(10);
// After which it is seen that a device is off that has not ended what was under way.
constexpr Duration kLookAgain = milliseconds(100);

Status AwaitEnd(Transfer* transfer, const Device& device) {
  const TimePoint deadline = Clock::now() + kSuperblockPatience;
  const bool on = device.on();
  while (!transfer->ended() && device.on() == on && Clock::now() < deadline)
    (void)transfer->Await(std::min(deadline, Clock::now() + kLookAgain));
  return transfer->Await(Clock::now()).Annotate("writing the superblocks");
}

}  // namespace

Result<FoundSuperblock> LoadSuperblock(Device* device, const std::string& cluster) {
  const std::string& path = device->path();
  FoundSuperblock found;
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

std::vector<Status> SaveSuperblocks(std::span<const SuperblockToSave> all) {
  std::vector<Status> saved(all.size());
  std::vector<std::shared_ptr<Transfer>> transfers;
  for (const SuperblockToSave& one : all) {
    ++one.superblock->written;
    transfers.push_back(Transfer::Make(kSuperblockBytes));
    EncodeSuperblock(*one.superblock, transfers.back()->bytes());
  }
  const auto step = [&](IoRequest::Op op, bool last) {
    const bool sync = op == IoRequest::Op::kSync;
    for (size_t i = 0; i < all.size(); ++i) {
      const uint64_t at = kSuperblockAt[last ? all[i].keep : 1 - all[i].keep];
      if (saved[i].ok())
        transfers[i]->Start(all[i].device, op, sync ? 0 : at, sync ? 0 : kSuperblockBytes);
    }
    for (size_t i = 0; i < all.size(); ++i)
      if (saved[i].ok()) saved[i] = AwaitEnd(transfers[i].get(), *all[i].device);
  };
  for (const bool last : {false, true}) {  // model drives: both_copies
    step(IoRequest::Op::kWrite, last);
    step(IoRequest::Op::kSync, last);
  }
  return saved;
}

}  // namespace peercache::disk
