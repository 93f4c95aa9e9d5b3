// Record: where a page is, and what an owner says to a shard about its records. Soft state: the
// node that holds the page is the truth. All flat and trivially copyable: they travel as they are.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/key.h"

namespace peercache {

enum class Tier : uint8_t { kMemory = 0, kDisk = 1 };

struct Record {
  uint64_t node = 0;         // NodeHash(member id) of the holder
  uint64_t incarnation = 0;  // of the holder
  uint64_t offset = 0;       // of the slot (its header) in the holder's pool
  uint64_t generation = 0;   // of the slot when the page was published
  uint64_t checksum = 0;     // xxh3-64 of the payload; 0: not computed
  uint32_t length = 0;       // payload bytes
  Tier tier = Tier::kMemory;
  uint8_t replica = 0;    // 1: a copy of another node's page (node/read/replicas.h)
  uint16_t lease_ms = 0;  // how long the holder lets this be used; see OwnerStamp

  friend bool operator==(const Record&, const Record&) = default;
};
static_assert(sizeof(Record) == 48 && std::is_trivially_copyable_v<Record>);

// A record of a page beside the one that a lookup has named, for a reader that chooses itself.
// Flat.
struct OtherRecord {
  uint32_t index = 0;  // of the key that was looked up
  uint32_t reserved = 0;
  Record record;
};
static_assert(sizeof(OtherRecord) == 56 && std::is_trivially_copyable_v<OtherRecord>);

// Who speaks, and how recently it heard from this shard. Made by Fence::Begin, one per message.
// Flat.
//
// An owner waits by its own configuration before it writes a slot again, so shards and readers go
// by what the owner says, never by more: while a cluster's configuration changes, its nodes do not
// agree.
struct OwnerStamp {
  uint64_t node = 0;
  uint64_t incarnation = 0;
  uint64_t epoch = 0;
  int64_t echo = 0;       // newest Shard::Stamp the owner has received; 0: none
  uint64_t sequence = 0;  // of the message; 0: the caller knows that it is no copy (a local call)
  uint32_t ttl_ms = 0;    // an echo keeps the owner fresh for so long at most
  uint16_t lease_ms = 0;  // its records may be used for so long at most after they were asked for
  uint16_t reserved = 0;
};
static_assert(sizeof(OwnerStamp) == 48 && std::is_trivially_copyable_v<OwnerStamp>);

// An owner whose records a shard serves, and for how long it does so without hearing from the owner
// again: what a reader goes by that looks into the shard's memory (directory/bucket_lookup.h).
// Flat.
struct ServedOwner {
  uint64_t node = 0;
  uint64_t incarnation = 0;
  uint32_t era = 0;  // entries of other eras are void
  uint32_t fresh_us = 0;
  uint16_t place = 0;  // what entries call the owner
  uint16_t lease_ms = 0;
  uint32_t reserved = 0;

  friend bool operator==(const ServedOwner&, const ServedOwner&) = default;
};
static_assert(sizeof(ServedOwner) == 32 && std::is_trivially_copyable_v<ServedOwner>);

struct PublishItem {
  Key key;
  Record record;  // record.node/.incarnation must equal the stamp's
};
struct WithdrawItem {
  Key key;
  uint64_t generation = 0;  // only this generation is removed
};
// What a shard says of a withdrawn record that no reader was ever told of (WithdrawAnswer).
inline constexpr uint32_t kNeverServed = UINT32_MAX;

// What became of a published item.
enum PublishOutcome : uint8_t {
  kRefused = 0,  // the shard is full
  kServed = 1,   // readers find it from now on
  // Stored, but not served before the shard hears a younger echo (first contact, or contact after a
  // long silence): send a Contact, which echoes the stamp of this very answer, and it is served
  // when that is acknowledged.
  kStored = 2,
};

}  // namespace peercache
