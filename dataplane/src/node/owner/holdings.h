// Holdings: the pages of one tier that this node has records of, as far as the directory's upkeep
// (publisher.h) needs to know of them: the pool's (PoolHoldings) and those on disk (node/disk).
//
// A page is named as its record names it: by its key, its place in the tier (Record::offset) and
// the generation of that place. What the directory has of a page is noted beside it (PublishedTo),
// so that whoever takes the page out of service knows whom to tell.
//
// Thread-safe. Note and Unnote are called with a page held, so it cannot be taken out of service
// between what they say and what is sent.
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "base/key.h"
#include "pool/pool.h"
#include "pool/published_to.h"
#include "wire/record.h"

namespace peercache {

// Keeps one page in service, and its record true, while it lives. Movable; allocates nothing.
class Hold {
 public:
  Hold() = default;
  Hold(PagePin pin) {  // NOLINT(google-explicit-constructor)
    if (pin) held_ = std::move(pin);
  }
  // Of a page on disk, which nothing holds: it may go, and its record is withdrawn then.
  static Hold OnDisk() {
    Hold hold;
    hold.held_ = Disk{};
    return hold;
  }
  explicit operator bool() const { return held_.index() != 0; }

 private:
  struct Disk {};
  std::variant<std::monostate, PagePin, Disk> held_;
};

// A page that is being published, with what keeps it in place.
struct HeldPage {
  Key key;
  Record record;
  Hold hold;
};

// A page as the repair pass sees it.
struct NotedPage {
  PageAt at;
  PublishedTo published_to;
};

class Holdings {
 public:
  virtual ~Holdings() = default;

  virtual uint64_t pages() const = 0;
  // Bytes of pages that may be held together, by one who looks through all of them. What is held
  // does not go: an eviction meanwhile takes the oldest of the others, which must not be those that
  // were set last.
  virtual uint64_t most_held() const = 0;
  // All pages in service, in steps: fills `pages` with some, and moves `at`, 0 at first, behind
  // them. False: no more. Pages that come or go meanwhile may or may not be seen.
  virtual bool Next(uint64_t* at, std::vector<NotedPage>* pages) const = 0;
  // Holds the page and fills in the tier's part of its record; empty: it has gone since.
  virtual Hold Take(const PageAt& at, Record* record) = 0;
  // The shard of `peer` (an index of Peers) may have a record of each of these from now on.
  virtual void Note(std::span<const PageAt> pages, uint16_t peer) = 0;
  // The shard of `peer` has no record of this page any more. False: somebody else holds the page
  // too, and may be publishing its record there; the note stays.
  virtual bool Unnote(const PageAt& page, uint16_t peer) = 0;
  // Records of these pages, which were held meanwhile, have been sent.
  virtual void Published(std::span<const HeldPage> /*pages*/) {}
  // Records of these are withdrawn from the shards that they name. Where a shard had a record of
  // this tier as well, they were younger and took its place: it has none any more.
  virtual void Replaced(std::span<const Victim> /*by*/) {}
  // Until now a shard that is not noted any more may have told readers of this page.
  virtual void Told(const PageAt& page, TimePoint now) = 0;
};

class PoolHoldings final : public Holdings {
 public:
  explicit PoolHoldings(Pool* pool) : pool_(pool) {}

  uint64_t pages() const override { return pool_->stats().pages; }
  uint64_t most_held() const override { return pool_->size() / 16; }
  bool Next(uint64_t* at, std::vector<NotedPage>* pages) const override;
  Hold Take(const PageAt& at, Record* record) override;
  void Note(std::span<const PageAt> pages, uint16_t peer) override {
    pool_->AddPublishedTo(pages, peer);
  }
  bool Unnote(const PageAt& page, uint16_t peer) override {
    return pool_->RemovePublishedTo(page.offset, page.generation, peer, 1);
  }
  void Told(const PageAt& page, TimePoint now) override {
    pool_->Told(page.offset, page.generation, now);
  }

  // The pool's part of the record of a page that it holds.
  static Record RecordOf(const PagePin& pin);

 private:
  Pool* const pool_;
};

}  // namespace peercache
