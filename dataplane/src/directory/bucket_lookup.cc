#include "directory/bucket_lookup.h"

#include <algorithm>
#include <cstring>

#include "directory/preference.h"

namespace peercache {

Grant::Grant(DirectoryOk said, uint64_t incarnation, TimePoint asked, Duration longest)
    : said_(std::move(said)), incarnation_(incarnation), asked_(asked), longest_(longest) {
  std::sort(said_.owners.begin(), said_.owners.end(),
            [](const ServedOwner& a, const ServedOwner& b) { return a.place < b.place; });
}

const ServedOwner* Grant::Find(uint16_t place, uint32_t era, TimePoint now, bool* later) const {
  const auto at = std::lower_bound(
      said_.owners.begin(), said_.owners.end(), place,
      [](const ServedOwner& owner, uint16_t wanted) { return owner.place < wanted; });
  if (at == said_.owners.end() || at->place != place) {
    *later = true;
    return nullptr;
  }
  if (at->era != era) {  // model: same_era
    // What has an older one is void for good; the number wraps around.
    *later |= static_cast<int32_t>(era - at->era) > 0;
    return nullptr;
  }
  // model: check_grant
  if (Lasts(now) && now - asked_ < std::chrono::microseconds(at->fresh_us)) return &*at;
  *later = true;
  return nullptr;
}

BucketAnswer LookUpIn(std::span<const std::byte> bytes, const Grant& grant, const Key& key,
                      uint64_t reader, std::span<const uint64_t> exclude, TimePoint now,
                      Record* record, std::vector<OtherRecord>* others,
                      uint32_t index) {  // model: LookUpIn
  *record = Record{};
  if (bytes.size() != sizeof(Bucket)) return BucketAnswer::kTorn;
  Bucket bucket;
  std::memcpy(&bucket, bytes.data(), sizeof(bucket));
  if (bucket.checksum == 0) {
    const bool unused = std::all_of(bytes.begin(), bytes.end(),
                                    [](std::byte byte) { return byte == std::byte{0}; });
    if (!unused) return BucketAnswer::kTorn;
    return grant.Lasts(now) ? BucketAnswer::kAbsent : BucketAnswer::kUngranted;
  }
  if (bucket.checksum != BucketChecksum(bucket, grant.IndexOf(key), grant.seed()))
    return BucketAnswer::kTorn;
  const auto wanted = BucketKey(key);
  bool later = false;
  Preferred preferred(reader, key, index, record, others);
  for (const BucketEntry& entry : bucket.entries) {
    if (entry.generation == 0 || entry.key != wanted) continue;
    const ServedOwner* owner = grant.Find(entry.owner, entry.era, now, &later);
    if (owner == nullptr || owner->node == reader ||
        std::find(exclude.begin(), exclude.end(), owner->node) != exclude.end()) {
      continue;
    }
    preferred.Offer({.node = owner->node,
                     .incarnation = owner->incarnation,
                     .offset = entry.offset,
                     .generation = entry.generation,
                     .checksum = entry.checksum,
                     .length = entry.length,
                     .tier = static_cast<Tier>(entry.tier),
                     .replica = entry.replica,
                     .lease_ms = owner->lease_ms});
  }
  if (record->node != 0) return BucketAnswer::kFound;
  if (later || !grant.Lasts(now)) return BucketAnswer::kUngranted;
  return bucket.elsewhere > 0 ? BucketAnswer::kElsewhere : BucketAnswer::kAbsent;
}

}  // namespace peercache
