#include "node/rails/header_memory.h"

namespace peercache {

HeaderMemory::~HeaderMemory() {
  for (const uint64_t id : ranges_) registered_->Remove(id);
}

Result<HeaderMemory::Block> HeaderMemory::Take() {
  std::lock_guard lock(mutex_);
  if (free_.empty()) {
    // Shared memory: a process that forks takes private pages away from the device.
    auto made = MappedRegion::Create("headers", kBytesAtOnce, HugePages::kOff);
    if (!made.ok()) return made.status();
    auto region = std::make_shared<MappedRegion>(std::move(*made));
    const auto id = registered_->Register("headers", region->bytes(), *rails_,
                                          rdma::Registration::For::kLocalWrite, region);
    if (!id.ok()) return id.status();
    auto* first = reinterpret_cast<SlotHeader*>(region->data());
    for (size_t i = 0; i < kBlocksAtOnce; ++i)
      free_.push_back({std::span(first + i * kHeaders, kHeaders)});
    ranges_.push_back(*id);
  }
  const Block block = free_.back();
  free_.pop_back();
  return block;
}

void HeaderMemory::Return(Block block) {
  std::lock_guard lock(mutex_);
  free_.push_back(block);
}

}  // namespace peercache
