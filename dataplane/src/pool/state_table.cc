#include "pool/state_table.h"

#include <fmt/format.h>

#include <atomic>

#include "base/divide.h"

namespace peercache {
namespace {

constexpr size_t kMostSlots = size_t{1} << 24;  // Slot::index

uint64_t Entry(size_t chunks, SizeClass size_class) {
  return uint64_t{chunks} << 32 | (uint64_t{size_class} + 1);
}

}  // namespace

// Of the smallest slots. Rounded up, so that a span of several chunks has a byte for each slot.
size_t StateTable::StatesPerChunk(size_t chunk_bytes) {
  return DivideUp(chunk_bytes, SlotBytes(0));
}

size_t StateTable::BytesFor(size_t chunks, size_t chunk_bytes) {
  return chunks * sizeof(uint64_t) + DivideUp(chunks * StatesPerChunk(chunk_bytes), 8) * 8;
}

StateTable::StateTable(std::span<std::byte> memory, size_t chunks, size_t chunk_bytes)
    : spans_(reinterpret_cast<uint64_t*>(memory.data())),
      states_(reinterpret_cast<uint8_t*>(memory.data()) + chunks * sizeof(uint64_t)),
      chunks_(chunks),
      chunk_bytes_(chunk_bytes) {}

void StateTable::SpanMade(size_t first_chunk, size_t chunks, SizeClass size_class) {
  if (chunks_ == 0) return;
  std::atomic_ref(spans_[first_chunk]).store(Entry(chunks, size_class), std::memory_order_release);
}

void StateTable::SpanGone(size_t first_chunk) {
  if (chunks_ == 0) return;
  std::atomic_ref(spans_[first_chunk]).store(0, std::memory_order_release);
}

Result<std::vector<StateTable::SpanAt>> StateTable::Spans(SizeClass largest) const {
  std::vector<SpanAt> spans;
  for (size_t chunk = 0; chunk < chunks_;) {
    const uint64_t entry = spans_[chunk];
    if (entry == 0) {
      ++chunk;
      continue;
    }
    const uint64_t size_class = (entry & UINT32_MAX) - 1, chunks = entry >> 32;
    SpanAt span{chunk, chunks, static_cast<SizeClass>(size_class), 0};
    if (chunks > 0 && chunks <= chunks_ - chunk && size_class <= largest)
      span.slots = chunks * chunk_bytes_ / SlotBytes(span.size_class);
    bool whole = span.slots > 0 && span.slots < kMostSlots;
    for (size_t i = 1; whole && i < chunks; ++i) whole = spans_[chunk + i] == 0;
    for (size_t i = 0; whole && i < span.slots; ++i)
      whole = states_[chunk * StatesPerChunk(chunk_bytes_) + i] <= kReadyReplica;
    if (!whole)
      return Corrupt(fmt::format("chunk {} has entry {:#x}, which no pool writes", chunk, entry));
    spans.push_back(span);
    chunk += chunks;
  }
  return spans;
}

}  // namespace peercache
