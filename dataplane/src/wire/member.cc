#include "wire/member.h"

#include <xxhash.h>

namespace peercache {

uint64_t NodeHash(const std::string& id) { return XXH3_64bits(id.data(), id.size()); }

uint64_t SyncToken(const Member& member) {
  const uint64_t seed = member.incarnation * 4 + static_cast<uint64_t>(member.state);
  return XXH3_64bits_withSeed(member.id.data(), member.id.size(), seed);
}

}  // namespace peercache
