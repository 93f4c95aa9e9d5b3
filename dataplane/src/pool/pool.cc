#include "pool/pool.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <utility>

#include "base/divide.h"
#include "base/size.h"
#include "pool/fair_order.h"
#include "pool/ghost.h"
#include "pool/heat.h"
#include "pool/key_index.h"
#include "pool/resting_slots.h"
#include "pool/slot_table.h"
#include "pool/victims.h"

namespace peercache {
namespace {

// Pages per acquisition of the mutex: tens of microseconds at most.
constexpr size_t kBatch = 256;
constexpr size_t kReclaimBatch = 1024;  // slots, likewise
constexpr size_t kVictimBatch = 256;    // pages, likewise
// Page size that the index is laid out for; smaller pages make it grow.
constexpr size_t kTypicalPage = size_t{64} << 10;

// Whoever reads the header without the mutex (a remote READ) trusts the rest only when generation
// is what the record says, so it is cleared first and set last.
void ClearHeader(SlotHeader* header) {
  std::atomic_ref(header->generation).exchange(0, std::memory_order_seq_cst);
}
void WriteHeader(SlotHeader* header, const Slot& slot) {
  header->magic = SlotHeader::kMagic;
  header->length = slot.length;
  header->key = slot.key;
  header->checksum = slot.checksum;
  header->tag = slot.tag;
  std::atomic_ref(header->generation).store(slot.generation, std::memory_order_release);
}

// Generations that a process may use before it says so to the next one.
constexpr uint64_t kGenerations = uint64_t{1} << 20;

// Losing part of a chunk is under 2 % of a pool with at least 64 of them, but may be all of a small
// one.
size_t RoundToChunks(size_t bytes) {
  const size_t chunk = SlotTable::ChunkBytes(bytes);
  return (bytes < 64 * chunk ? bytes + chunk - 1 : bytes) / chunk * chunk;
}

size_t WholePages(size_t bytes, HugePages pages) {
  const size_t page = pages == HugePages::kOff   ? SmallPageSize()
                      : pages == HugePages::k1Gi ? size_t{1} << 30
                                                 : size_t{2} << 20;
  return DivideUp(bytes, page) * page;
}

Victim VictimOf(const Slot& slot) {
  return {slot.key, slot.offset(), slot.generation, slot.length, slot.published_to, slot.told};
}

}  // namespace

struct Pool::Impl {
  Impl(MappedRegion region, std::unique_ptr<PoolFile> of, StateTable states, size_t slots,
       size_t max_page, EvictionPolicy eviction)
      : file(std::move(of)),
        memory(std::move(region)),
        bytes(slots),
        max_page_bytes(max_page),
        policy(eviction),
        table(bytes, SlotTable::ChunkBytes(bytes), SizeClassOf(max_page), states),
        index(bytes / kTypicalPage),
        ghost(1),
        taken_bytes(SizeClassOf(max_page) + 1) {
    for (SizeClass c = 0; c <= SizeClassOf(max_page); ++c)
      orders.push_back(std::make_unique<FairOrder>(
          &shares, [this] { return MakeEvictionOrder(policy, &ghost); }));
  }

  SlotHeader* HeaderOf(const Slot& slot) const {
    return reinterpret_cast<SlotHeader*>(memory.data() + slot.offset());
  }
  std::span<std::byte> PayloadOf(const Slot& slot) const {
    return {memory.data() + slot.offset() + sizeof(SlotHeader), slot.length};
  }
  bool HasClassOf(size_t length) const {
    return length != 0 && length <= PayloadBytes(static_cast<SizeClass>(orders.size()) - 1);
  }
  FairOrder& OrderOf(const Slot& slot) { return *orders[slot.span->size_class]; }

  // Under the mutex:
  uint8_t HeatOf(const Slot& slot) const {
    return HeatNow(slot.heat, slot.last_use, uses, index.size());
  }
  PageInfo InfoOf(const Slot& slot) const {
    return {slot.key,          slot.offset(), slot.generation, slot.checksum, slot.length,
            slot.published_to, slot.tag,      slot.last_use,   HeatOf(slot),  slot.replica != 0};
  }
  void Stamp(Slot* slot) {
    slot->heat = HeatOf(*slot) & kMostHeat;
    slot->last_use = ++uses;
    // Replicas keep no chunk from becoming another size's.
    if (!slot->replica) slot->span->newest_use = uses;
  }
  // The only place where a page is pinned: the slot must be ready.
  PagePin Pin(Slot* slot) {
    slot->pins.fetch_add(1, std::memory_order_relaxed);
    PagePin pin;
    pin.slot_ = slot;
    pin.offset_ = slot->offset();
    pin.replica_ = slot->replica;
    pin.header_ = HeaderOf(*slot);
    pin.payload_ = PayloadOf(*slot);
    return pin;
  }
  PagePin UseAndPin(Slot* slot) {
    if (slot == nullptr) return {};
    Stamp(slot);
    if (slot->heat < kMostHeat) ++slot->heat;
    OrderOf(*slot).Use(slot);
    return Pin(slot);
  }
  Slot* ReadyAt(uint64_t offset, uint64_t generation) const {
    Slot* slot = table.At(offset);
    const bool same =
        slot != nullptr && slot->state == SlotState::kReady && slot->generation == generation;
    return same ? slot : nullptr;
  }
  PagePin FindAt(uint64_t offset, uint64_t generation, const Key& key, TimePoint now) {
    Slot* slot = ReadyAt(offset, generation);  // model: Ask, check_slot
    if (slot == nullptr || slot->key != key) return {};
    slot->told.Raise(now);  // model: served_directly
    return UseAndPin(slot);
  }
  bool AddPublishedTo(uint64_t offset, uint64_t generation, uint16_t peer) {
    Slot* slot = ReadyAt(offset, generation);
    if (slot == nullptr) return false;
    slot->published_to.Add(peer);
    return true;
  }
  Slot* Allocate(size_t length) {
    if (rests_until) return nullptr;
    Slot* slot = table.Allocate(SizeClassOf(length));
    if (slot == nullptr) return nullptr;
    slot->generation = generations->Next();
    if (slot->generation >= generation_limit) {
      generation_limit = slot->generation + kGenerations;
      file->RaiseGenerationLimit(generation_limit);
    }
    slot->length = static_cast<uint32_t>(length);
    slot->published_to = {};
    slot->told = {};
    slot->replica = 0;
    slot->tenant = 0;
    slot->heat = 0;
    return slot;
  }
  PagePin Commit(Slot* slot, const Key& key, uint64_t tag, uint64_t checksum, bool* duplicate,
                 PageKind kind, TenantNumber tenant = 0) {
    if (Slot* existing = index.Find(key); existing != nullptr) {
      *duplicate = true;
      ++duplicate_commits;
      table.SetState(slot, SlotState::kFree);
      if (kind == PageKind::kOwn) Adopt(existing, tag, tenant);
      return UseAndPin(existing);
    }
    slot->key = key;
    slot->replica = kind == PageKind::kReplica;
    slot->tag = tag;
    slot->checksum = checksum;
    WriteHeader(HeaderOf(*slot), *slot);
    table.SetState(slot, SlotState::kReady);
    payload_bytes += slot->length;
    slot->tenant = tenant;
    if (slot->replica) {
      CountReplica(*slot, +1);
    } else {
      shares.Add(tenant, slot->span->slot_bytes);
    }
    taken_bytes[slot->span->size_class] += slot->span->slot_bytes;
    index.Insert(slot);
    Stamp(slot);
    OrderOf(*slot).Insert(slot);
    return Pin(slot);
  }
  // Calls work for each of `count`, and takes the mutex for some of them at a time.
  template <typename Work>
  void ForBatches(size_t count, const Work& work) {
    for (size_t at = 0; at < count;) {
      std::lock_guard lock(mutex);
      for (const size_t end = std::min(count, at + kBatch); at < end; ++at) work(at);
    }
  }
  void CountReplica(const Slot& slot, int change) {
    replicas += static_cast<uint64_t>(change);
    replica_bytes += static_cast<size_t>(change) * slot.span->slot_bytes;
  }
  void Adopt(Slot* slot, uint64_t tag, TenantNumber tenant) {
    if (!slot->replica) return;
    OrderOf(*slot).Remove(slot, false);
    CountReplica(*slot, -1);
    slot->replica = 0;
    slot->tenant = tenant;
    shares.Add(tenant, slot->span->slot_bytes);
    slot->tag = tag;
    std::atomic_ref(HeaderOf(*slot)->tag).store(tag, std::memory_order_relaxed);
    if (slot->span->states != nullptr) StateTable::Set(*slot, SlotState::kReady);
    OrderOf(*slot).Insert(slot);
    Stamp(slot);
  }
  Victim TakeOut(Slot* slot, bool evicted) {
    index.Erase(slot);
    OrderOf(*slot).Remove(slot, evicted);
    table.SetState(slot, SlotState::kWithdrawing);
    payload_bytes -= slot->length;
    if (evicted) ++(slot->replica ? evictions_replica : evictions);
    if (slot->replica) {
      CountReplica(*slot, -1);
    } else {
      shares.Remove(static_cast<TenantNumber>(slot->tenant), slot->span->slot_bytes);
    }
    return VictimOf(*slot);
  }
  // At most kReclaimBatch slots; takes the mutex itself, not while headers come into the cache.
  size_t ReclaimSome(TimePoint now) {
    std::unique_lock lock(mutex);
    const std::vector<Slot*> due = quarantine.TakeDue(now, kReclaimBatch);
    lock.unlock();
    // A free slot may become part of one of another size, whose page is written over its header.
    for (const Slot* slot : due) ClearHeader(HeaderOf(*slot));  // model: void_first
    lock.lock();
    size_t freed = 0;
    for (Slot* slot : due) {
      freed += slot->span->slot_bytes;
      table.SetState(slot, SlotState::kFree);
    }
    return freed;
  }
  // What is free from now on because the rest of an adopted pool is over.
  size_t EndRest(TimePoint now) {
    std::lock_guard lock(mutex);
    if (!rests_until || now <= *rests_until) return 0;
    rests_until.reset();
    return table.BytesIn(SlotState::kFree) + table.unassigned_bytes();
  }
  // The span that begins at this chunk, if one does.
  Span* SpanFrom(size_t chunk) const {
    Span* span = table.SpanOf(chunk);
    return span != nullptr && span->first_chunk == chunk ? span : nullptr;
  }

  // A page of the process before, as if it had just been committed. Before anybody else is here.
  bool Keep(Slot* slot) {
    if (index.Find(slot->key) != nullptr) return false;
    index.Insert(slot);
    payload_bytes += slot->length;
    if (slot->replica) {
      CountReplica(*slot, +1);
    } else {
      shares.Add(0, slot->span->slot_bytes);
    }
    Stamp(slot);
    OrderOf(*slot).Insert(slot);
    return true;
  }

  const std::unique_ptr<PoolFile> file;  // null: a memfd
  Adoption adoption;
  std::optional<TimePoint> rests_until;  // no slot is handed out before
  const MappedRegion memory;
  const size_t bytes;  // of it, for slots
  const size_t max_page_bytes;
  const EvictionPolicy policy;
  mutable std::mutex mutex;
  SlotTable table;
  KeyIndex index;  // of all ready slots, and no others
  Ghost ghost;
  PoolShares shares;
  std::vector<std::unique_ptr<FairOrder>> orders;  // by size class, as the next
  std::vector<uint64_t> taken_bytes;
  RestingSlots quarantine;
  Sequence own_generations;
  Sequence* generations = &own_generations;  // of the whole pool: none ever repeats
  uint64_t generation_limit = UINT64_MAX;    // that the next process begins with
  uint64_t uses = 0;
  size_t payload_bytes = 0;
  uint64_t replicas = 0;
  size_t replica_bytes = 0;
  uint64_t evictions = 0, evictions_resize = 0, evictions_replica = 0, cleared = 0;
  uint64_t reserve_failures = 0, duplicate_commits = 0;
};

Pool::Pool(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Pool::~Pool() = default;

Result<std::unique_ptr<Pool>> Pool::Create(const PoolOptions& options) {
  if (options.bytes == 0)
    return InvalidArgument("pool: size 0 holds no page; choose a size, e.g. 4Gi");
  if (options.max_page_bytes == 0 || options.max_page_bytes > UINT32_MAX)
    return InvalidArgument(
        fmt::format("pool: largest page {} is not between 1 and {}; choose e.g. "
                    "64Mi",
                    FormatSize(options.max_page_bytes), UINT32_MAX));
  const size_t beside = options.beside == 0 ? 0 : WholePages(options.beside, options.huge_pages);
  if (beside >= options.bytes)
    return InvalidArgument(fmt::format(
        "pool: size {} leaves nothing for pages after {} for the directory; choose a larger size",
        FormatSize(options.bytes), FormatSize(beside)));
  // The table of states takes less than one of 4096.
  const size_t states = options.file.path.empty() ? 0 : options.bytes / 4096 + PoolFile::kTailBytes;
  const size_t bytes = RoundToChunks(options.bytes - std::min(beside + states, options.bytes - 1));
  size_t max_page = std::min(options.max_page_bytes, bytes - kPageAlignment);
  SizeClass largest = SizeClassOf(max_page);
  while (SlotBytes(largest) > bytes) --largest;
  max_page = std::min(max_page, PayloadBytes(largest));
  if (!options.file.path.empty()) return OfFile(options, bytes, beside, max_page);
  Result<MappedRegion> memory =
      MappedRegion::Create("peercache-pool", bytes + beside, options.huge_pages, options.numa_node);
  if (!memory.ok()) return memory.status();
  spdlog::info("pool of {} in {} pages, chunks of {}, largest page {}", FormatSize(bytes),
               FormatSize(memory->page_size()), FormatSize(SlotTable::ChunkBytes(bytes)),
               FormatSize(max_page));
  auto pool = std::unique_ptr<Pool>(new Pool(std::make_unique<Impl>(
      std::move(memory).value(), nullptr, StateTable(), bytes, max_page, options.eviction)));
  if (options.generations != nullptr) pool->impl_->generations = options.generations;
  return pool;
}

Result<std::unique_ptr<Pool>> Pool::OfFile(const PoolOptions& options, size_t bytes, size_t beside,
                                           size_t max_page) {
  const size_t chunk = SlotTable::ChunkBytes(bytes);
  auto opened =
      PoolFile::Open(options.file, bytes + beside, StateTable::BytesFor(bytes / chunk, chunk),
                     options.huge_pages, options.numa_node);
  if (!opened.ok()) return opened.status();
  std::unique_ptr<PoolFile> file = std::move(*opened);
  std::vector<StateTable::SpanAt> spans;
  if (file->start() == PoolStart::kAdopted) {
    const StateTable was(file->states(), bytes / chunk, chunk);
    if (auto found = was.Spans(SizeClassOf(max_page)); found.ok()) {
      spans = std::move(*found);
    } else if (Status s = file->Damaged(found.status().message()); !s.ok()) {
      return s;
    }
  }
  const StateTable states(file->states(), bytes / chunk, chunk);
  MappedRegion memory = file->TakePages();
  auto pool = std::unique_ptr<Pool>(new Pool(std::make_unique<Impl>(
      std::move(memory), std::move(file), states, bytes, max_page, options.eviction)));
  Impl& impl = *pool->impl_;
  impl.adoption.start = impl.file->start();
  impl.adoption.why = impl.file->why();
  if (options.generations != nullptr) impl.generations = options.generations;
  impl.generation_limit = impl.file->generation_limit();
  impl.generations->RaiseTo(impl.generation_limit);
  AdoptPages(
      spans, impl.generation_limit, impl.memory, &impl.table,
      [&](Slot* slot) { return impl.Keep(slot); }, &impl.adoption);
  if (impl.adoption.start == PoolStart::kAdopted)  // that is of the former process
    std::ranges::fill(pool->beside(), std::byte{});
  if (impl.adoption.start == PoolStart::kAdopted && options.file.rest > Duration{})
    impl.rests_until = Clock::now() + options.file.rest;
  LogStart(*impl.file, bytes, impl.memory.page_size(), impl.adoption);
  return pool;
}

Result<Reservation> Pool::Reserve(size_t length) {
  if (length == 0 || length > impl_->max_page_bytes)
    return InvalidArgument(
        fmt::format("page of {} bytes is not between 1 and {}; use a smaller page or a larger pool",
                    length, impl_->max_page_bytes));
  Slot* slot;
  {
    std::lock_guard lock(impl_->mutex);
    slot = impl_->Allocate(length);
    if (slot == nullptr) ++impl_->reserve_failures;
  }
  if (slot == nullptr)
    return ResourceExhausted(fmt::format(
        "no free slot for a page of {} in the pool of {}; evict pages or choose a larger pool",
        FormatSize(length), FormatSize(impl_->bytes)));
  return Reserved(slot);
}

void Pool::ReserveMany(std::span<const size_t> lengths, std::span<Reservation> reservations) {
  impl_->ForBatches(lengths.size(), [&](size_t i) {
    if (lengths[i] == 0 || lengths[i] > impl_->max_page_bytes) return;
    reservations[i].slot_ = impl_->Allocate(lengths[i]);
  });
  for (Reservation& reservation : reservations)
    if (reservation.slot_ != nullptr) reservation = Reserved(reservation.slot_);
}

// Outside of the mutex: the slot is ours, and the first touch of its memory may take long.
Reservation Pool::Reserved(Slot* slot) {
  ClearHeader(impl_->HeaderOf(*slot));
  Reservation reservation;
  reservation.pool_ = this;
  reservation.slot_ = slot;
  reservation.generation_ = slot->generation;
  reservation.payload_ = impl_->PayloadOf(*slot);
  return reservation;
}

void Pool::Abort(Slot* slot) {
  std::lock_guard lock(impl_->mutex);
  impl_->table.SetState(slot, SlotState::kFree);
}

PagePin Pool::Commit(Reservation reservation, const Key& key, uint64_t tag, uint64_t checksum,
                     bool* duplicate, PageKind kind) {
  bool known = false;
  PagePin pin;
  if (reservation) {
    std::lock_guard lock(impl_->mutex);
    reservation.pool_ = nullptr;  // from here on there is nothing to abort
    pin = impl_->Commit(reservation.slot_, key, tag, checksum, &known, kind);
  }
  if (duplicate != nullptr) *duplicate = known;
  return pin;
}

void Pool::CommitMany(std::span<Reservation> reservations, std::span<const Key> keys, uint64_t tag,
                      std::span<const uint64_t> checksums, std::span<PagePin> pins,
                      TenantNumber tenant) {
  impl_->ForBatches(reservations.size(), [&](size_t i) {
    if (!reservations[i]) return;
    bool known = false;
    reservations[i].pool_ = nullptr;
    pins[i] = impl_->Commit(reservations[i].slot_, keys[i], tag, checksums[i], &known,
                            PageKind::kOwn, tenant);
  });
}

void Pool::Adopt(PagePin* pin, uint64_t tag, TenantNumber tenant) {
  std::lock_guard lock(impl_->mutex);
  impl_->Adopt(pin->slot_, tag, tenant);
  pin->replica_ = false;
}

void Pool::SetPresent(TenantNumber tenant, bool present) {
  std::lock_guard lock(impl_->mutex);
  impl_->shares.SetPresent(tenant, present);
}

bool Pool::Spared(TenantNumber tenant) const {
  std::lock_guard lock(impl_->mutex);
  return impl_->shares.Spared(tenant);
}

uint64_t Pool::BytesOf(TenantNumber tenant) const {
  std::lock_guard lock(impl_->mutex);
  return impl_->shares.BytesOf(tenant);
}

void Pool::Warm(const PagePin& pin, uint8_t heat) {
  std::lock_guard lock(impl_->mutex);
  pin.slot_->heat = std::max<uint8_t>(pin.slot_->heat, std::min(heat, kMostHeat)) & kMostHeat;
}

std::vector<uint8_t> Pool::HeatToReplaceNext(size_t class_of_length, size_t most) {
  std::vector<uint8_t> heats;
  if (!impl_->HasClassOf(class_of_length)) return heats;
  heats.reserve(most);
  std::vector<const Slot*> next;
  next.reserve(most);
  std::lock_guard lock(impl_->mutex);
  EvictionOrder& order = *impl_->orders[SizeClassOf(class_of_length)];
  (void)order.Next();  // brings the pages that go soon to where Peek looks
  order.Peek(most, &next);
  for (const Slot* slot : next)
    heats.push_back(slot->replica ? 0 : static_cast<uint8_t>(impl_->HeatOf(*slot) + 1));
  return heats;
}

PagePin Pool::Find(const Key& key) {
  std::lock_guard lock(impl_->mutex);
  return impl_->UseAndPin(impl_->index.Find(key));
}

void Pool::FindMany(std::span<const Key> keys, std::span<PagePin> pins) {
  // From the last key to the first: a later page of a prompt is worth nothing without the earlier
  // ones, so it should count as used before them, and go before them.
  for (size_t end = std::min(keys.size(), pins.size()); end > 0;) {
    const size_t start = end - std::min(end, kBatch);
    std::array<size_t, kBatch> hashes;
    for (size_t i = start; i < end; ++i) hashes[i - start] = impl_->index.HashOf(keys[i]);
    std::lock_guard lock(impl_->mutex);
    for (size_t i = start; i < end; ++i) impl_->index.Prefetch(hashes[i - start]);
    while (end > start) {
      --end;
      pins[end] = impl_->UseAndPin(impl_->index.Find(keys[end], hashes[end - start]));
    }
  }
}

bool Pool::Contains(const Key& key) const {
  std::lock_guard lock(impl_->mutex);
  return impl_->index.Find(key) != nullptr;
}

void Pool::ContainsMany(std::span<const Key> keys, std::span<uint8_t> there) const {
  for (size_t start = 0; start < keys.size(); start += kBatch) {
    const auto batch = keys.subspan(start, std::min(kBatch, keys.size() - start));
    std::array<size_t, kBatch> hashes;
    for (size_t i = 0; i < batch.size(); ++i) hashes[i] = impl_->index.HashOf(batch[i]);
    std::lock_guard lock(impl_->mutex);
    for (size_t i = 0; i < batch.size(); ++i) impl_->index.Prefetch(hashes[i]);
    for (size_t i = 0; i < batch.size(); ++i)
      if (impl_->index.Find(batch[i], hashes[i]) != nullptr) there[start + i] = 1;
  }
}

PagePin Pool::FindAt(uint64_t offset, uint64_t generation, const Key& key, TimePoint now) {
  std::lock_guard lock(impl_->mutex);
  return impl_->FindAt(offset, generation, key, now);
}

void Pool::FindManyAt(std::span<const PageAt> pages, std::span<PagePin> pins, TimePoint now) {
  impl_->ForBatches(pages.size(), [&](size_t i) {
    pins[i] = impl_->FindAt(pages[i].offset, pages[i].generation, pages[i].key, now);
  });
}

void Pool::Told(uint64_t offset, uint64_t generation, TimePoint now) {
  std::lock_guard lock(impl_->mutex);
  if (Slot* slot = impl_->ReadyAt(offset, generation); slot != nullptr) slot->told.Raise(now);
}

PagePin Pool::HoldAt(uint64_t offset, uint64_t generation) {
  std::lock_guard lock(impl_->mutex);
  Slot* slot = impl_->ReadyAt(offset, generation);
  return slot != nullptr ? impl_->Pin(slot) : PagePin();
}

bool Pool::AddPublishedTo(uint64_t offset, uint64_t generation, uint16_t peer) {
  std::lock_guard lock(impl_->mutex);
  return impl_->AddPublishedTo(offset, generation, peer);
}

void Pool::AddPublishedTo(std::span<const PageAt> pages, uint16_t peer) {
  impl_->ForBatches(pages.size(), [&](size_t i) {
    impl_->AddPublishedTo(pages[i].offset, pages[i].generation, peer);
  });
}

bool Pool::RemovePublishedTo(uint64_t offset, uint64_t generation, uint16_t peer,
                             uint32_t own_pins) {
  std::lock_guard lock(impl_->mutex);
  Slot* slot = impl_->ReadyAt(offset, generation);
  // model: keep_note_in_flight
  if (slot == nullptr || slot->pins.load(std::memory_order_acquire) > own_pins) return false;
  slot->published_to.Remove(peer);
  return true;
}

std::vector<Victim> Pool::TakeVictims(size_t bytes, size_t class_of_length, bool spare) {
  std::vector<Victim> victims;
  if (!impl_->HasClassOf(class_of_length)) return victims;
  const SizeClass size_class = SizeClassOf(class_of_length);
  const auto take = [&](Slot* slot) {
    impl_->evictions_resize += slot->span->size_class != size_class && !slot->replica;
    victims.push_back(impl_->TakeOut(slot, true));
  };
  VictimSearch search;
  while (bytes > 0) {
    std::lock_guard lock(impl_->mutex);  // per batch: readers get in between
    if (impl_->policy != EvictionPolicy::kLru) impl_->ghost.SetWindow(impl_->index.size());
    FairOrder* const order = impl_->orders[size_class].get();
    order->Spare(spare);
    const size_t gained = peercache::TakeVictims(impl_->table, impl_->shares, order, bytes,
                                                 kVictimBatch, size_class, &search, take);
    order->Spare(true);
    if (gained == 0 && !search.unfinished) break;
    bytes -= std::min(bytes, gained);
  }
  return victims;
}

std::vector<Victim> Pool::TakeReplicas(size_t bytes) {
  std::vector<Victim> victims;
  while (bytes > 0) {
    std::lock_guard lock(impl_->mutex);  // per batch: readers get in between
    for (size_t i = 0; i < kVictimBatch && bytes > 0; ++i) {
      Slot* oldest = nullptr;
      for (const auto& order : impl_->orders) {
        Slot* next = order->NextReplica();
        if (next != nullptr && (oldest == nullptr || next->last_use < oldest->last_use))
          oldest = next;
      }
      if (oldest == nullptr) return victims;
      bytes -= std::min(bytes, oldest->span->slot_bytes);
      victims.push_back(impl_->TakeOut(oldest, true));
    }
  }
  return victims;
}

std::vector<Victim> Pool::TakeTagged(std::optional<uint64_t> tag, size_t* busy) {
  std::vector<Victim> victims;
  size_t pinned = 0;
  for (size_t chunk = 0; chunk < impl_->table.chunk_count(); ++chunk) {
    std::lock_guard lock(impl_->mutex);  // per span: readers get in between
    Span* span = impl_->SpanFrom(chunk);
    for (uint32_t i = 0; span != nullptr && i < span->slot_count; ++i) {
      Slot* slot = &span->slots[i];
      if (slot->state != SlotState::kReady) continue;
      if (tag && slot->tag != *tag && !slot->replica) continue;
      if (slot->pinned()) {
        ++pinned;
      } else {
        // A reader on another machine may hold its location, or be told of it by a shard that has
        // not heard of the withdrawal: a READ finds no page there from now on.
        ClearHeader(impl_->HeaderOf(*slot));
        victims.push_back(impl_->TakeOut(slot, false));
        ++impl_->cleared;
      }
    }
  }
  if (busy != nullptr) *busy = pinned;
  return victims;
}

void Pool::Quarantine(const Victim& victim, TimePoint reuse_at) {  // model: Quarantine
  std::lock_guard lock(impl_->mutex);
  Slot* slot = impl_->table.At(victim.offset);
  if (slot == nullptr || slot->generation != victim.generation ||
      slot->state != SlotState::kWithdrawing) {
    spdlog::error("pool: page {} at {} is not being withdrawn; its quarantine is ignored",
                  victim.key.ShortHex(), victim.offset);
    return;
  }
  impl_->table.SetState(slot, SlotState::kQuarantined);
  impl_->quarantine.Add(slot, reuse_at);
}

size_t Pool::Reclaim(TimePoint now) {  // model: Reuse
  size_t freed = impl_->EndRest(now);
  while (size_t batch = impl_->ReclaimSome(now)) freed += batch;
  return freed;
}

size_t Pool::FreeBytes(size_t class_of_length) const {
  if (!impl_->HasClassOf(class_of_length)) return 0;
  std::lock_guard lock(impl_->mutex);
  return impl_->table.FreeBytes(SizeClassOf(class_of_length));
}

PoolUse Pool::use() const {
  PoolUse use;
  use.capacity_bytes = impl_->bytes;
  std::lock_guard lock(impl_->mutex);
  use.usable_bytes = impl_->table.usable_bytes();
  for (SizeClass c = 0; c < impl_->taken_bytes.size(); ++c) {
    if (impl_->taken_bytes[c] == 0 && !impl_->table.HasSpans(c)) continue;
    use.sizes.push_back({PayloadBytes(c), SlotBytes(c), impl_->taken_bytes[c],
                         impl_->table.FreeSlotBytes(c), impl_->table.QuarantinedBytes(c)});
  }
  return use;
}

TimePoint Pool::NextReuse() const {
  std::lock_guard lock(impl_->mutex);
  return std::min(impl_->quarantine.next(), impl_->rests_until.value_or(TimePoint::max()));
}

void Pool::ForEachReady(const std::function<void(const PageInfo&)>& fn) const {
  std::vector<PageInfo> pages;
  for (size_t chunk = 0; chunk < impl_->table.chunk_count(); ++chunk) {
    pages.clear();
    {
      std::lock_guard lock(impl_->mutex);
      const Span* span = impl_->SpanFrom(chunk);
      for (uint32_t i = 0; span != nullptr && i < span->slot_count; ++i)
        if (span->slots[i].state == SlotState::kReady)
          pages.push_back(impl_->InfoOf(span->slots[i]));
    }
    for (const PageInfo& page : pages) fn(page);
  }
}

size_t Pool::max_page_bytes() const { return impl_->max_page_bytes; }
const Adoption& Pool::adoption() const { return impl_->adoption; }
PoolFile* Pool::file() const { return impl_->file.get(); }
const MappedRegion& Pool::memory() const { return impl_->memory; }
std::byte* Pool::base() const { return impl_->memory.data(); }
size_t Pool::size() const { return impl_->bytes; }
std::span<std::byte> Pool::beside() const { return impl_->memory.bytes().subspan(impl_->bytes); }
int Pool::fd() const { return impl_->memory.fd(); }

PoolStats Pool::stats() const {
  std::lock_guard lock(impl_->mutex);
  const SlotTable& table = impl_->table;
  PoolStats stats;
  stats.capacity_bytes = impl_->bytes;
  for (SlotState state : {SlotState::kWriting, SlotState::kReady, SlotState::kWithdrawing})
    stats.used_bytes += table.BytesIn(state);
  stats.quarantined_bytes = table.BytesIn(SlotState::kQuarantined);
  stats.free_bytes = table.BytesIn(SlotState::kFree) + table.unassigned_bytes();
  stats.payload_bytes = impl_->payload_bytes;
  stats.pages = impl_->index.size();
  stats.evictions = impl_->evictions;
  stats.evictions_resize = impl_->evictions_resize;
  stats.evictions_replica = impl_->evictions_replica;
  stats.cleared = impl_->cleared;
  stats.replicas = impl_->replicas;
  stats.replica_bytes = impl_->replica_bytes;
  stats.slots = {table.SlotsIn(SlotState::kFree), table.SlotsIn(SlotState::kWriting),
                 table.SlotsIn(SlotState::kReady), table.SlotsIn(SlotState::kWithdrawing),
                 table.SlotsIn(SlotState::kQuarantined)};
  stats.reserve_failures = impl_->reserve_failures;
  stats.duplicate_commits = impl_->duplicate_commits;
  stats.eviction = impl_->policy;
  stats.huge = impl_->memory.page_size() > SmallPageSize();
  return stats;
}

}  // namespace peercache
