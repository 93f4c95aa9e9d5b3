#include "disk/recovery.h"

#include <algorithm>

namespace peercache::disk {
namespace {

// A device that takes longer turns itself off (breaker.h).
constexpr Duration kReadPatience = std::chrono::seconds(30);

}  // namespace

bool Recovery::Probe() {
  std::vector<std::shared_ptr<Transfer>> transfers;
  for (uint32_t i = 0; i < kProbes; ++i) transfers.push_back(Transfer::Make(2 * kBlock));
  const std::vector<uint32_t> all = regions_->In(Regions::State::kUnknown);
  for (std::span<const uint32_t> rest = all; !rest.empty();) {
    const auto some = rest.first(std::min<size_t>(kProbes, rest.size()));
    rest = rest.subspan(some.size());
    for (size_t i = 0; i < some.size(); ++i)
      transfers[i]->Start(device_, IoRequest::Op::kRead, geometry_.region_at(some[i]), 2 * kBlock);
    for (size_t i = 0; i < some.size(); ++i) {
      const uint32_t region = some[i];
      const Status read = transfers[i]->Await(Clock::now() + kReadPatience);
      if (read.code() == Code::kDeadlineExceeded || !device_->on()) return false;
      uint64_t epoch = 0;
      uint32_t corrupt = 0;
      if (!read.ok()) {
        // Unread, it is written anew when its turn comes.
        counts_->recovered.Add(Recovered::kUnreadable);
      } else {
        for (uint32_t block = 0; block < 2; ++block) {
          const auto bytes = transfers[i]->bytes().subspan(block * kBlock, kBlock);
          const ContentsState state = DecodeContents(bytes, file_id_, geometry_, region, &block_);
          if (state == ContentsState::kValid) epoch = std::max(epoch, block_.epoch);
          if (state == ContentsState::kCorrupt) ++corrupt;
        }
      }
      if (epoch != 0) {
        regions_->Found(region, epoch);
      } else {
        counts_->recovered.Add(Recovered::kCorruptBlock, corrupt);
        regions_->Free(region);
      }
    }
  }
  return true;
}

std::shared_ptr<Transfer> Recovery::Begin(uint32_t region, uint32_t first) const {
  auto transfer = Transfer::Make(kBlocksPerRead * kBlock);
  transfer->Start(device_, IoRequest::Op::kRead,
                  geometry_.region_at(region) + uint64_t{first} * kBlock,
                  BlocksFrom(first) * kBlock);
  return transfer;
}

void Recovery::Read(uint32_t region, std::optional<uint32_t> next) {
  auto ahead = std::exchange(ahead_, {});
  if (regions_->state(region) != Regions::State::kUnread) return;
  std::shared_ptr<Transfer> transfer =
      ahead.transfer && ahead.region == region ? std::move(ahead.transfer) : Begin(region, 0);
  if (next) ahead_ = {*next, Begin(*next, 0)};
  uint64_t epoch = regions_->epoch(region);
  for (uint32_t first = 0; transfer; first += kBlocksPerRead) {
    const uint32_t after = first + kBlocksPerRead;
    std::shared_ptr<Transfer> rest;
    if (after < geometry_.contents_blocks()) rest = Begin(region, after);
    if (const Status read = transfer->Await(Clock::now() + kReadPatience); !read.ok()) {
      if (!device_->on()) return;  // it is read when that is back
      counts_->recovered.Add(Recovered::kUnreadable);
      break;
    }
    if (Take(transfer->bytes().first(BlocksFrom(first) * kBlock), region, &epoch) == 0) break;
    transfer = std::move(rest);
  }
  regions_->Close(region);
}

uint32_t Recovery::Take(std::span<const std::byte> blocks, uint32_t region, uint64_t* epoch) {
  uint32_t valid = 0;
  for (size_t at = 0; at < blocks.size(); at += kBlock) {
    const ContentsState state =
        DecodeContents(blocks.subspan(at, kBlock), file_id_, geometry_, region, &block_);
    switch (state) {
      case ContentsState::kValid: break;
      case ContentsState::kAbsent: continue;
      case ContentsState::kCorrupt: counts_->recovered.Add(Recovered::kCorruptBlock); continue;
      case ContentsState::kForeign: counts_->recovered.Add(Recovered::kForeignBlock); continue;
    }
    if (block_.epoch < *epoch) {
      counts_->recovered.Add(Recovered::kStaleBlock);
      continue;
    }
    if (block_.epoch > *epoch) {
      // The blocks before it were torn: what was taken from them is of an earlier life.
      catalog_->DropRegion({number_, region});
      *epoch = block_.epoch;
    }
    ++valid;
    TakePages();
  }
  return valid;
}

void Recovery::TakePages() {
  stored_.clear();
  for (uint32_t i = 0; i < block_.count; ++i) catalog_->Prefetch(block_.entries[i].key);
  for (uint32_t i = 0; i < block_.count; ++i) {
    const ContentsEntry& entry = block_.entries[i];
    const DiskPage page{.key = entry.key,
                        .checksum = entry.checksum,
                        .tag = entry.tag,
                        .sequence = entry.sequence,
                        .at = {number_, block_.region},
                        .offset = entry.offset,
                        .length = entry.length};
    switch (catalog_->Store(page, false)) {
      case Catalog::Outcome::kStored:
        stored_.push_back(page);
        counts_->recovered.Add(Recovered::kPage);
        break;
      case Catalog::Outcome::kCleared: counts_->recovered.Add(Recovered::kCleared); break;
      case Catalog::Outcome::kOlder: counts_->recovered.Add(Recovered::kOlder); break;
      case Catalog::Outcome::kFull: counts_->recovered.Add(Recovered::kFull); break;
      case Catalog::Outcome::kMoved:
      case Catalog::Outcome::kSame: break;  // from another version of the block
    }
  }
  catalog_->Tell(stored_);
}

}  // namespace peercache::disk
