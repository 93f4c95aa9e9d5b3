// Pool: the node's registered memory, divided into slots of several sizes at once.
//
// The pool is one memfd (huge pages when asked for and available), or a file that outlives the
// process (pool_file.h). It is cut into chunks. A run of chunks belongs to one size class at a time
// and holds equal slots. When all of them are free, the chunks can change their class
// (slot_table.h). A slot is a SlotHeader followed by the page's bytes, which are aligned for disks
// (slot_header.h).
//
// Life of a slot (the only legal transitions):
//
//   free -> writing         Reserve
//   writing -> ready        Commit: in the index, readable, pinned once for the publisher
//   writing -> free         Abort, or Commit when the key is already there: nobody can have seen it
//   ready -> withdrawing    TakeVictims / TakeTagged: out of the index; not readable any more
//   withdrawing -> quarantined   Quarantine(reuse_at): all shards have acknowledged the withdrawal
//   quarantined -> free     Reclaim(now): now > reuse_at and no pins; the header is void from here
//
// The pool knows nothing of shards and leases: it stores where a page was published (PublishedTo)
// for its owner and believes the reuse_at it is given. That division makes "no slot is reused under
// a reader" checkable here by two conditions: the time has passed, the pins are zero.
//
// A header's generation is 0 from Reclaim to Commit, before any byte of its slot is written again,
// also as part of a slot of another size. So a reader that breaks its lease, because its machine
// was paused, does not take such bytes for the page that was there, if it reads the header last.
//
// Thread-safety: all methods may be called from any thread. Pinned bytes are immutable; bytes of a
// writing slot belong to the reserver alone. One mutex guards the state; only unpinning does
// without (slot.h says why that is sound).
//
// Costs: the mutex is held for a fraction of a microsecond per key, once for 256 keys of a batch;
// the memory behind it delivers pages far more slowly. Slots cost about 120 bytes each outside of
// the pool. What finds, contains, notes and unpins allocates nothing. Worse: TakeTagged and
// ForEachReady pass over every slot; ForEachReady lets go of the mutex in between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/key.h"
#include "base/last_time.h"
#include "base/memory.h"
#include "base/sequence.h"
#include "base/status.h"
#include "base/tag.h"
#include "pool/adopted.h"
#include "pool/eviction_policy.h"
#include "pool/pool_file_options.h"
#include "pool/published_to.h"
#include "pool/slot_header.h"
#include "pool/tenant_number.h"

namespace peercache {

struct PoolOptions {
  size_t bytes = size_t{4} << 30;  // rounded to whole chunks: up below 128 MiB, else down
  HugePages huge_pages = HugePages::kAuto;
  size_t max_page_bytes = size_t{64}
                          << 20;  // larger pages are refused; at most what the pool holds
  EvictionPolicy eviction = EvictionPolicy::kLru;
  int numa_node = -1;         // where its memory should be; -1: anywhere
  PoolFileOptions file = {};  // path empty: a memfd
  // Where generations come from; no slot is reserved after it has gone. Null: from a counter of the
  // pool's own.
  Sequence* generations = nullptr;
  // Bytes behind the slots, in the same memory, that the pool leaves alone: what is registered with
  // the pool is readable with it. Rounded up to whole pages, and taken out of `bytes`.
  size_t beside = 0;
};

struct PoolStats {
  size_t capacity_bytes = 0;  // of the whole memfd
  size_t used_bytes = 0;      // slots in state writing, ready, withdrawing (slot size, not payload)
  size_t quarantined_bytes = 0;   // waiting for their lease to pass
  size_t free_bytes = 0;          // unassigned chunks and free slots
  size_t payload_bytes = 0;       // of ready pages
  uint64_t pages = 0;             // ready
  uint64_t evictions = 0;         // pages that gave way for others, without replicas
  uint64_t evictions_resize = 0;  // of these, with their whole chunk for pages of another size
  uint64_t evictions_replica = 0;
  uint64_t cleared = 0;      // pages taken out by tag
  uint64_t replicas = 0;     // ready pages that are replicas
  size_t replica_bytes = 0;  // their slots
  uint64_t reserve_failures = 0, duplicate_commits = 0;
  struct Slots {
    uint64_t free = 0, writing = 0, ready = 0, withdrawing = 0, quarantined = 0;
  };
  Slots slots;
  bool huge = false;  // huge pages are in effect
  EvictionPolicy eviction = EvictionPolicy::kLru;
};

// What whoever plans evictions has to know, by size class.
struct PoolUse {
  struct Size {
    size_t length = 0;         // longest page of the class
    size_t slot_bytes = 0;     // that one of its pages occupies
    uint64_t taken_bytes = 0;  // slots that were filled since the start
    size_t free_bytes = 0;     // free slots, without those in usable chunks
    size_t quarantined_bytes = 0;
  };
  size_t capacity_bytes = 0;
  size_t usable_bytes = 0;  // chunks that any class may take
  std::vector<Size> sizes;  // that have or had pages
};

// A replica is a copy of a page that another node holds. It goes before all other pages.
enum class PageKind : uint8_t { kOwn, kReplica };

class Pool;
class PoolFile;
struct Slot;

// Keeps one ready page in place and readable while it lives. Movable; must not outlive the pool.
class PagePin {
 public:
  PagePin() = default;
  PagePin(PagePin&& other) noexcept { *this = std::move(other); }
  PagePin& operator=(PagePin&& other) noexcept;
  ~PagePin() { Release(); }
  explicit operator bool() const { return slot_ != nullptr; }
  std::span<const std::byte> payload() const { return payload_; }
  const SlotHeader& header() const { return *header_; }
  uint64_t offset() const { return offset_; }  // of the slot header in the pool
  bool replica() const { return replica_; }    // when it was pinned
  void Release();

 private:
  friend class Pool;
  Slot* slot_ = nullptr;
  uint64_t offset_ = 0;
  bool replica_ = false;
  const SlotHeader* header_ = nullptr;
  std::span<const std::byte> payload_;
};

// A slot in state writing; Abort is implied by destruction unless committed.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept { *this = std::move(other); }
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation();
  explicit operator bool() const { return pool_ != nullptr; }
  std::span<std::byte> payload() const { return payload_; }
  uint64_t generation() const { return generation_; }

 private:
  friend class Pool;
  Pool* pool_ = nullptr;
  Slot* slot_ = nullptr;
  uint64_t generation_ = 0;
  std::span<std::byte> payload_;
};

// A page taken out of service; its bytes stay untouched until Quarantine and Reclaim.
struct Victim {
  Key key;
  uint64_t offset = 0;
  uint64_t generation = 0;
  uint32_t length = 0;
  PublishedTo published_to;
  LastTime told;  // when others than these shards have told a reader of the page
};

// A ready page as the repair pass sees it.
struct PageInfo {
  Key key;
  uint64_t offset = 0;
  uint64_t generation = 0;
  uint64_t checksum = 0;
  uint32_t length = 0;
  PublishedTo published_to;
  uint64_t tag = 0;
  uint64_t last_use = 0;  // of the pool's count of uses
  uint8_t heat = 0;       // heat.h
  bool replica = false;
};

// A page by what its record says: nobody else's is taken for it.
struct PageAt {
  uint64_t offset = 0, generation = 0;
  Key key;
};

class Pool {
 public:
  // Errors name the size, the limit and the fix (e.g. hugepages not available: which sysctl).
  static Result<std::unique_ptr<Pool>> Create(const PoolOptions& options);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Takes a free slot for `length` payload bytes. kResourceExhausted when none is free now: the
  // caller evicts (TakeVictims) or refuses; kInvalidArgument when length is 0 or over the maximum.
  Result<Reservation> Reserve(size_t length);
  // Same for many that are free now; an empty reservation where there is none: Reserve says why.
  void ReserveMany(std::span<const size_t> lengths, std::span<Reservation> reservations);
  // Writes the header and makes the page readable under `key`. The returned pin keeps the page from
  // eviction until the caller has published it. Duplicate (key already ready): the slot is freed
  // and the pin is of the existing page, which is no replica any more if this one is none;
  // `*duplicate` says so.
  PagePin Commit(Reservation reservation, const Key& key, uint64_t tag, uint64_t checksum,
                 bool* duplicate, PageKind kind = PageKind::kOwn);
  // Same for many of one tenant under one tag, with one acquisition of the mutex per 256: pins[i]
  // is empty where reservations[i] is.
  void CommitMany(std::span<Reservation> reservations, std::span<const Key> keys, uint64_t tag,
                  std::span<const uint64_t> checksums, std::span<PagePin> pins,
                  TenantNumber tenant = 0);
  // A replica that an engine of this node has set, under `tag`: from now on as any other page.
  void Adopt(PagePin* pin, uint64_t tag, TenantNumber tenant = 0);

  // Whether the tenant has a share of the pool (shares.h).
  void SetPresent(TenantNumber tenant, bool present);
  // It has less than its share, so its pages stay.
  bool Spared(TenantNumber tenant) const;
  // Of slots with its pages.
  uint64_t BytesOf(TenantNumber tenant) const;

  // A page that was read elsewhere before it came here: it is at least as hot.
  void Warm(const PagePin& pin, uint8_t heat);
  // The heat from which on a page of this length is worth more than the one that would go for it:
  // of the next `most` to go, in their order, or of as many as are found soon (eviction.h).
  std::vector<uint8_t> HeatToReplaceNext(size_t class_of_length, size_t most);

  // Readable page by key; counts as a use for eviction.
  PagePin Find(const Key& key);
  // Same for many, with one acquisition of the mutex per 256 keys. pins[i] is empty on a miss. Of
  // keys in the order of a prompt, the later ones go first when room is needed.
  void FindMany(std::span<const Key> keys, std::span<PagePin> pins);
  // Without pin and without counting as a use.
  bool Contains(const Key& key) const;
  // Same for many: sets there[i] where the page is, and leaves the others as they are.
  void ContainsMany(std::span<const Key> keys, std::span<uint8_t> there) const;
  // What a peer read asks for: the page only if slot, generation and key all still agree. `offset`
  // may be anything. Counts as a use, and as told to a reader: a lease begins at `now` at the
  // latest.
  PagePin FindAt(uint64_t offset, uint64_t generation, const Key& key,
                 TimePoint now = Clock::now());
  void FindManyAt(std::span<const PageAt> pages, std::span<PagePin> pins,
                  TimePoint now = Clock::now());
  // Until `now` readers may have been told of the page by a shard that is not in its PublishedTo
  // any more. Of a page that the caller holds.
  void Told(uint64_t offset, uint64_t generation, TimePoint now);
  // For the node's own work on a page that is still there: does not count as a use.
  PagePin HoldAt(uint64_t offset, uint64_t generation);

  // Remembers that the page was published to `peer` (an index the publisher hands out). False when
  // the page has moved on (other generation or state).
  bool AddPublishedTo(uint64_t offset, uint64_t generation, uint16_t peer);
  // Same for many; those that have moved on are left out.
  void AddPublishedTo(std::span<const PageAt> pages, uint16_t peer);
  // False also while more than the caller's own pins hold the page: somebody else may be publishing
  // it to that peer.
  bool RemovePublishedTo(uint64_t offset, uint64_t generation, uint16_t peer, uint32_t own_pins);

  // Unpinned pages in the order of the policy, at least `bytes` of slots if there are as many, for
  // slots of class_of_length. Pages of other sizes go by whole chunks, when every page in them is
  // older than what this class would have to drop or it has no (more) pages of its own (victims.h).
  // Pages of tenants below their share go only with `spare` off: when one of these asks, and others
  // have nothing that makes room for it.
  std::vector<Victim> TakeVictims(size_t bytes, size_t class_of_length, bool spare = true);
  // Unpinned replicas of all sizes, those that were not used for longest first.
  std::vector<Victim> TakeReplicas(size_t bytes);
  // All unpinned ready pages under `tags`, and all replicas, of whose tags nothing is known
  // (clear). Their headers say so in the memory that peers READ. Pinned ones are counted in `*busy`
  // and stay.
  std::vector<Victim> TakeTagged(TagRange tags, size_t* busy);
  // Once per victim; a second time changes nothing.
  void Quarantine(const Victim& victim, TimePoint reuse_at);
  // Frees what may be reused; returns the bytes freed.
  size_t Reclaim(TimePoint now);
  // Bytes in quarantine or free for pages of this length: what a set may hope for soon.
  size_t FreeBytes(size_t class_of_length) const;

  PoolUse use() const;
  // When the next slot leaves quarantine; TimePoint::max() when none is in it.
  TimePoint NextReuse() const;

  // How it began. A pool that was taken over has no free slots before it has rested for
  // PoolFile::rest.
  const Adoption& adoption() const;
  // Null: this pool ends with its process.
  PoolFile* file() const;

  // Calls fn for every ready page; holds no lock during fn. Pages that come or go meanwhile may or
  // may not be seen.
  void ForEachReady(const std::function<void(const PageInfo&)>& fn) const;
  // The same in steps: fills `pages` with those of one run of chunks, and moves `at`, 0 at first,
  // behind it. False: no more.
  bool NextReady(uint64_t* at, std::vector<PageInfo>* pages) const;

  // The longest page that Reserve takes: PoolOptions::max_page_bytes or what this pool can hold.
  size_t max_page_bytes() const;
  // Of the slots: memory() is these and what is beside() them.
  std::byte* base() const;
  size_t size() const;
  std::span<std::byte> beside() const;
  const MappedRegion& memory() const;
  int fd() const;
  PoolStats stats() const;

 private:
  friend class PagePin;
  friend class Reservation;
  struct Impl;
  explicit Pool(std::unique_ptr<Impl> impl);
  static Result<std::unique_ptr<Pool>> OfFile(const PoolOptions& options, size_t bytes,
                                              size_t beside, size_t max_page);
  void Abort(Slot* slot);
  Reservation Reserved(Slot* slot);
  std::unique_ptr<Impl> impl_;
};

}  // namespace peercache
