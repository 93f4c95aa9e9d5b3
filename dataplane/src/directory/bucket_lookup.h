// Looking a key up in the buckets of another node's shard, which the reader has READ itself.
//
// The shard's CPU takes no part, so nothing here may rest on it running: its process may be
// stopped, dead, or cut off from the owners while its memory is still there to be READ. What a
// lookup by request learns from the shard at that moment, that it still serves an owner's records,
// a reader therefore has in advance, as a *grant*: the shard has said, in answer to a request, of
// which owners it serves records, of which era, and for how long without hearing from them again.
// The reader counts that from before it has asked, by its own clock, and takes no entry of an owner
// after that time. So a record is never used for longer than if the shard had been asked for it
// (docs/protocol.md).
//
// Bytes of buckets are foreign: any content is answered, at worst with kTorn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/clock.h"
#include "base/key.h"
#include "directory/buckets.h"
#include "wire/messages.h"
#include "wire/record.h"

namespace peercache {

class Grant {
 public:
  // `asked`: read before the request was sent. `incarnation`: of the process that has answered.
  Grant(DirectoryOk said, uint64_t incarnation, TimePoint asked);

  uint64_t incarnation() const { return incarnation_; }
  uint64_t seed() const { return said_.instance; }
  TimePoint asked() const { return asked_; }
  uint64_t IndexOf(const Key& key) const { return BucketOf(key, said_.buckets); }
  // In the peer's registered memory.
  uint64_t OffsetOf(const Key& key) const { return said_.offset + IndexOf(key) * sizeof(Bucket); }
  // Null when entries of this place and era count for nothing at `now`. `later`: a younger grant
  // may know better.
  const ServedOwner* Find(uint16_t place, uint32_t era, TimePoint now, bool* later) const;

 private:
  DirectoryOk said_;  // owners sorted by place
  uint64_t incarnation_;
  TimePoint asked_;
};

enum class BucketAnswer : uint8_t {
  kFound,
  kAbsent,
  // The shard has to be asked:
  kTorn,       // it was being written, or is no bucket of this shard's process
  kElsewhere,  // not all records of its keys are in it
  kUngranted,  // there are records that the grant does not cover (any more)
};

// What Shard::Lookup would have answered. `now`: between when the lease of *record begins and when
// the bucket was READ.
BucketAnswer LookUpIn(std::span<const std::byte> bucket, const Grant& grant, const Key& key,
                      uint64_t reader, std::span<const uint64_t> exclude, TimePoint now,
                      Record* record);

}  // namespace peercache
