// Buckets of a shard as a reader has READ them: bytes of another node's memory.
//
// The first byte says whether the checksum is made right, so that what lies behind it is reached;
// the rest is the bucket, cut or filled up with zeros. What is found is of an owner that the grant
// names, and never the reader's own or of one that is excluded.

#include <algorithm>
#include <array>
#include <cstring>

#include "directory/bucket_lookup.h"
#include "fuzz.h"

namespace peercache::fuzz {
namespace {

Reached found("found"), absent("absent"), torn("torn"), elsewhere("elsewhere"),
    ungranted("ungranted");

constexpr uint64_t kReader = 3, kSeed = 77, kBuckets = 64;
constexpr uint32_t kEra = 5;

Grant SomeGrant(TimePoint asked) {
  DirectoryOk said{.instance = kSeed, .offset = 4096, .buckets = kBuckets, .owners = {}};
  for (const uint16_t place : {uint16_t{2}, uint16_t{0}, uint16_t{3}, uint16_t{1}}) {
    said.owners.push_back({.node = uint64_t{1} + place,
                           .incarnation = 9,
                           .era = kEra,
                           .fresh_us = place == 1 ? 0u : 1'000'000u,
                           .place = place,
                           .lease_ms = 1000});
  }
  return {std::move(said), 9, asked, std::chrono::seconds(3)};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  SetUp();
  if (size == 0) return 0;
  const TimePoint now{std::chrono::hours(1)};
  const Grant grant = SomeGrant(now);
  const Key key;  // of zeros, in bucket 0
  std::array<std::byte, sizeof(Bucket)> bytes{};
  const Input rest = Input(data, size).subspan(1);
  std::memcpy(bytes.data(), rest.data(), std::min(rest.size(), bytes.size()));
  if (data[0] % 2 == 1) {
    Bucket bucket;
    std::memcpy(&bucket, bytes.data(), sizeof(bucket));
    bucket.checksum = BucketChecksum(bucket, grant.IndexOf(key), grant.seed());
    std::memcpy(bytes.data(), &bucket, sizeof(bucket));
  }
  const uint64_t exclude[] = {4};
  Record record;
  const BucketAnswer answer = LookUpIn(bytes, grant, key, kReader, exclude, now, &record);
  switch (answer) {
    case BucketAnswer::kFound: found.Hit(); break;
    case BucketAnswer::kAbsent: absent.Hit(); break;
    case BucketAnswer::kTorn: torn.Hit(); break;
    case BucketAnswer::kElsewhere: elsewhere.Hit(); break;
    case BucketAnswer::kUngranted: ungranted.Hit(); break;
  }
  Require((answer == BucketAnswer::kFound) == (record.node != 0), "a record when one is found");
  Require(
      record.node == 0 || (record.node == 1 && record.incarnation == 9 && record.generation != 0),
      "of an owner that the shard serves for others");
  Require(LookUpIn(std::span(bytes).first(bytes.size() - 1), grant, key, kReader, exclude, now,
                   &record) == BucketAnswer::kTorn,
          "part of a bucket is no bucket");
  return 0;
}

}  // namespace peercache::fuzz
