// Shard: the part of key -> record that this node holds for everyone.
//
// A record is served only while its owner (the node that holds the page) is known to be alive *by
// this shard's own clock*. Owners prove it without any agreement on time: every answer of the shard
// carries a stamp of the shard's clock; the owner's next message echoes the newest stamp it has
// seen; hearing echo e makes the owner fresh until e + owner_ttl. Therefore an owner that last
// heard a stamp at its local time t knows that this shard serves none of its records after t +
// owner_ttl, however late its messages arrive, and may count on it when it cannot reach the shard
// (see directory/fence.h).
//
// (incarnation, epoch) orders what an owner says. A higher pair drops every record of a lower one
// at once; a message with a lower pair is refused with kAborted. An owner raises the epoch whenever
// a message to this shard went unanswered, so that the late arrival of that message changes
// nothing. Within a pair the sequence number makes every message count once: a copy is refused with
// kAborted.
//
// A shard that drops an owner's records of its own accord (Expire, Forget) remembers the pair and
// refuses it from then on: the owner raises its epoch and re-publishes, and a late message of
// before cannot bring back what the owner has withdrawn meanwhile.
//
// Several owners may hold the same key: prefill nodes computed the same prefix, or others keep
// replicas of a page that they read often. The shard keeps the record of every one of them, so the
// page is found for as long as any of them has it. A lookup names kHoldersNamed of them.
//
// With every record the shard keeps when it last told a reader of it. So the owner of a withdrawn
// page learns for how long no reader was told, and need not wait a whole lease for readers that do
// not exist (Fence::ReuseAfter). Only the owner takes away a record of its present epoch, so the
// shard forgets no such time of a record that may come back. Where the shard cannot know, it says
// "just now": of a record that it does not have, and of all records while a grant may last, since
// readers then look into the buckets.
//
// Costs: publishing or withdrawing a key passes over the records of its other owners (about 0.1 us
// each); a lookup stops at the last holder that it names, and passes over silent owners before it.
//
// Thread-safety: all methods from any thread. Messages of one owner are processed one after
// another, those of different owners in parallel; lookups take only short stripe locks and do not
// allocate, but for `others` to grow. `now` must have been read after the message was received.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/key.h"
#include "base/status.h"
#include "wire/messages.h"
#include "wire/record.h"

namespace peercache {

struct ShardOptions {
  uint64_t self = 0;  // NodeHash of this node: its own records are always fresh
  size_t max_records = 16 << 20;
  size_t max_owners = 8192;                     // at most 65535; further owners are refused
  Duration owner_ttl = milliseconds(3000);      // at most; an owner may state less
  Duration forget_after = milliseconds(60000);  // silent owners' records are dropped; >= owner_ttl
  // Origin of the stamps for the first owner (see OwnerTable); 0: drawn at random. Tests choose it.
  int64_t stamp_base = 0;
  // Where the records are laid out for readers that READ them (buckets.h); empty: nowhere. Zeroed,
  // and there for as long as the shard.
  std::span<std::byte> buckets{};
};

struct ShardStats {
  uint64_t records = 0, owners = 0, fresh_owners = 0, lookups = 0, hits = 0, suppressed = 0,
           refused_full = 0, refused_stale = 0;
};

// What every answer to an owner carries: this shard's clock, to be echoed, and the name of what the
// shard remembers of the owner. Another name than last time: that was lost, as by a restart.
struct ShardVoice {
  int64_t stamp = 0;
  uint64_t instance = 0;
};

class Shard {
 public:
  // Enough to spread readers over, and to turn to when one is gone.
  static constexpr size_t kHoldersNamed = 4;

  explicit Shard(ShardOptions options);
  ~Shard();

  // For the answer to a message of `node`; ask after the message has been processed, with its
  // `now`.
  ShardVoice Voice(uint64_t node, TimePoint now) const;

  // Keepalive without items. kAborted: a newer (incarnation, epoch) of the owner is known, or the
  // records of this one were dropped. kResourceExhausted: max_owners.
  Status Contact(const OwnerStamp& owner, TimePoint now);
  // outcome[i] is a PublishOutcome. Re-publishing an equal record is cheap and idempotent; a record
  // with a higher generation replaces the owner's former one, a lower one is ignored as outdated
  // (generations of one owner grow with time across all its slots).
  Status Publish(const OwnerStamp& owner, std::span<const PublishItem> items,
                 std::span<uint8_t> outcome, TimePoint now);
  // Unknown keys and other generations are ignored: the outcome is what was asked for.
  // unserved_ms[i]: for how long, at least, no reader has been told of items[i], or kNeverServed.
  // Empty: nobody wants to know.
  Status Withdraw(const OwnerStamp& owner, std::span<const WithdrawItem> items, TimePoint now,
                  std::span<uint32_t> unserved_ms = {});

  // out[i].node = 0 when there is no record of a fresh owner outside `exclude`. `reader` itself is
  // never named: it has looked into its own pool before it asked, so a record of its own is of a
  // page that it has just evicted. Of several owners, one is chosen by (reader, key), which spreads
  // readers; further ones are added to `others`, if that is not null.
  void Lookup(std::span<const Key> keys, uint64_t reader, std::span<const uint64_t> exclude,
              std::span<Record> out, TimePoint now,
              std::vector<OtherRecord>* others = nullptr) const;

  // What a reader needs to look into the buckets itself, but where they are: `offset` is left 0.
  DirectoryOk Directory(TimePoint now) const;

  // Drops records of owners silent for forget_after and frees those that epochs have overtaken;
  // returns how many. Call about once a second.
  size_t Expire(TimePoint now);
  // Drops all records of one owner (its member has left for good).
  size_t Forget(uint64_t node);
  ShardStats stats(TimePoint now) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace peercache
