#include "pool/pool_layout.h"

#include <cstddef>
#include <span>
#include <vector>

#include "base/checksum.h"
#include "pool/pool_file.h"
#include "pool/size_class.h"
#include "pool/slot_header.h"
#include "pool/slot_table.h"
#include "pool/state_table.h"

namespace peercache {
namespace {

constexpr SizeClass kClasses = 2048;  // more than any pool has

}  // namespace

size_t PoolLayout::chunks() const { return slots / SlotTable::ChunkBytes(slots); }

size_t PoolLayout::states() const {
  return StateTable::BytesFor(chunks(), SlotTable::ChunkBytes(slots));
}

uint64_t PoolLayout::Digest() const {
  std::vector<uint64_t> numbers = {slots,
                                   beside,
                                   max_page,
                                   SlotTable::ChunkBytes(slots),
                                   chunks(),
                                   states(),
                                   kSlotLead,
                                   sizeof(SlotHeader),
                                   offsetof(SlotHeader, key),
                                   offsetof(SlotHeader, generation),
                                   StateTable::kReady,
                                   StateTable::kReadyReplica,
                                   PoolFile::kTailBytes,
                                   PoolFile::kMostNote};
  for (SizeClass c = 0; c < kClasses; ++c) numbers.push_back(SlotBytes(c));
  return Checksum(std::as_bytes(std::span(numbers)));
}

}  // namespace peercache
