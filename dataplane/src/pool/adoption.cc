// How pages of the previous process are found. Two things must agree: the state table says that the
// slot was ready, and the header is that of a page that a pool may have written there. The table is
// needed because a withdrawn page keeps its header until the slot is free. The header is needed for
// key, tag, length and generation, which the table does not have.
//
//   1. In the order of places: restore the spans, and read the header of each ready slot with
//      pread. Void the header of every other slot that was in use (void_first), and set it free.
//   2. In the order of generations, that in which the pages were set: keep each page. So the order
//      of eviction begins as it would have been without reads. A key that is there twice is kept
//      once.
// Records of the previous process name another incarnation, so no reader uses them here. What its
// readers may still read by reference is the business of pool_start.cc (rest_adopted).
//
// Benefits: about a microsecond for each page, so a full pool serves again after seconds; sets pay
// one store of a byte for it.
// Costs: 1/4608 of the pool for the table; uses of pages are not kept.
//
// Rejected:
// - headers alone: withdrawn pages would come back;
// - a journal of sets: a write for each page, where a byte is enough;
// - reading headers through the mapping: a page fault for each costs several times as much as
//   pread;
// - checking all bytes: it would read the whole pool before the node serves. A process that ended
//   by a fault is not trusted at all (pool_file.h), and readers may verify checksums.
#include "pool/adoption.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "base/device_order.h"
#include "base/size.h"
#include "pool/slot_header.h"

namespace peercache {
namespace {

// The page that the header says is one that a pool writes into a slot of this class.
bool CanBe(const SlotHeader& header, SizeClass size_class, uint64_t generation_limit) {
  return header.magic == SlotHeader::kMagic && header.length > 0 &&
         header.length <= PayloadBytes(size_class) && SizeClassOf(header.length) == size_class &&
         header.generation > 0 && header.generation < generation_limit;
}

void VoidHeader(const MappedRegion& memory, const Slot& slot) {
  auto* header = reinterpret_cast<SlotHeader*>(memory.data() + slot.offset());
  std::atomic_ref(header->generation).store(0, std::memory_order_release);
  OrderForDevices();  // before the first byte of the next page
}

}  // namespace

const char* AdoptionDropName(AdoptionDrop drop) {
  switch (drop) {
    case AdoptionDrop::kWriting: return "writing";
    case AdoptionDrop::kWithdrawn: return "withdrawn";
    case AdoptionDrop::kHeader: return "header";
    case AdoptionDrop::kDuplicate: return "duplicate";
  }
  return "unknown";
}

void LogStart(const PoolFile& file, size_t bytes, size_t page_size, const Adoption& adoption) {
  const std::string pool = fmt::format("pool of {} in {} pages in {}", FormatSize(bytes),
                                       FormatSize(page_size), file.path());
  if (adoption.start == PoolStart::kNew) return spdlog::info("{}: new, no pages", pool);
  if (adoption.start != PoolStart::kAdopted)
    return spdlog::warn("{}: emptied, all pages of before are lost: {}", pool, adoption.why);
  std::string dropped;
  for (size_t i = 0; i < kAdoptionDrops; ++i) {
    if (adoption.dropped[i] == 0) continue;
    dropped += fmt::format("{}{} {}", dropped.empty() ? ", not " : ", ", adoption.dropped[i],
                           AdoptionDropName(static_cast<AdoptionDrop>(i)));
  }
  spdlog::info("{}: {} pages ({}) of the process before are taken over in {:.3f} s{}", pool,
               adoption.pages, FormatSize(adoption.bytes),
               std::chrono::duration<double>(adoption.took).count(), dropped);
}

void AdoptPages(std::span<const StateTable::SpanAt> spans, uint64_t generation_limit,
                const MappedRegion& memory, SlotTable* table,
                const std::function<bool(Slot*)>& keep, Adoption* adoption) {
  const TimePoint start = Clock::now();
  const auto drop = [&](Slot* slot, AdoptionDrop why) {
    ++adoption->Dropped(why);
    VoidHeader(memory, *slot);  // model: void_first
    StateTable::Set(&slot->span->states[slot->index], 0);
  };
  std::vector<Slot*> pages;
  std::vector<std::vector<uint8_t>> ready;
  std::vector<Span*> restored;
  for (const StateTable::SpanAt& at : spans) {
    Span* span = table->Restore(at);
    restored.push_back(span);
    ready.emplace_back(span->slot_count);
    for (uint32_t i = 0; i < span->slot_count; ++i) {
      const uint8_t state = span->states[i];
      Slot* slot = &span->slots[i];
      if (state == static_cast<uint8_t>(SlotState::kFree)) continue;
      if (state != StateTable::kReady && state != StateTable::kReadyReplica) {
        const bool writing = state == static_cast<uint8_t>(SlotState::kWriting);
        drop(slot, writing ? AdoptionDrop::kWriting : AdoptionDrop::kWithdrawn);
        continue;
      }
      SlotHeader header;
      const bool read = ::pread(memory.fd(), &header, sizeof(header),
                                static_cast<off_t>(slot->offset())) == sizeof(header);
      if (!read || !CanBe(header, span->size_class, generation_limit)) {
        drop(slot, AdoptionDrop::kHeader);
        continue;
      }
      slot->key = header.key;
      slot->generation = header.generation;
      slot->tag = header.tag;
      slot->checksum = header.checksum;
      slot->length = header.length;
      slot->replica = state == StateTable::kReadyReplica;
      ready.back()[i] = 1;
      pages.push_back(slot);
    }
  }
  for (size_t i = 0; i < spans.size(); ++i) table->SetReady(restored[i], ready[i]);
  std::ranges::sort(pages, {}, &Slot::generation);
  for (Slot* slot : pages) {
    if (keep(slot)) {
      ++adoption->pages;
      adoption->bytes += slot->length;
    } else {
      drop(slot, AdoptionDrop::kDuplicate);
      table->SetState(slot, SlotState::kFree);
    }
  }
  adoption->took = Clock::now() - start;
}

}  // namespace peercache
