// Looking a key up in the buckets of another node's shard, which the reader has READ itself.
//
// The shard's CPU takes no part, so nothing here may rest on it running: its process may be
// stopped, dead, or cut off from the owners while its memory is still there to be READ. What a
// lookup by request learns from the shard at that moment, that it still serves an owner's records,
// a reader therefore has in advance, as a *grant*: the shard has said, in answer to a request, of
// which owners it serves records, of which era, and for how long without hearing from them again.
// The reader counts that from before it has asked, by its own clock, and takes no entry of an owner
// after that time. So a record is never used for longer than if the shard had been asked for it
// (docs/dev/protocol.md).
//
// Bytes of buckets are foreign: any content is answered, at worst with kTorn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/key.h"
#include "directory/buckets.h"
#include "wire/messages.h"
#include "wire/record.h"

namespace peercache {

class Grant {
 public:
  // `asked`: read before the request was sent. `incarnation`: of the process that has answered.
  // `longest`: the owner_ttl that all nodes have; whatever is said ends by then.
  Grant(DirectoryOk said, uint64_t incarnation, TimePoint asked, Duration longest);

  uint64_t incarnation() const { return incarnation_; }
  uint64_t seed() const { return said_.instance; }
  // For as long as the shard is taken to be at work: then even what it does not have says
  // something.
  bool Lasts(TimePoint now) const { return now - asked_ < longest_; }
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
  Duration longest_;
};

enum class BucketAnswer : uint8_t {
  kFound,
  kAbsent,
  // The shard has to be asked:
  kTorn,       // it was being written, or is no bucket of this shard's process
  kElsewhere,  // not all records of its keys are in it
  kUngranted,  // the grant does not cover its records, or is over
};

// What Shard::Lookup would have answered. `now`: between when the lease of *record begins and when
// the bucket was READ. With `others`, further holders are added to it as records of `index`.
BucketAnswer LookUpIn(std::span<const std::byte> bucket, const Grant& grant, const Key& key,
                      uint64_t reader, std::span<const uint64_t> exclude, TimePoint now,
                      Record* record, std::vector<OtherRecord>* others = nullptr,
                      uint32_t index = 0);

}  // namespace peercache
