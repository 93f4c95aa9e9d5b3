#include "base/checksum.h"

// Inlined: this compiles the vector code for our own flags and spares a call through the PLT.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace peercache {
namespace {

uint64_t NeverZero(uint64_t hash) { return hash == 0 ? 1 : hash; }

}  // namespace

uint64_t Checksum(std::span<const std::byte> bytes) {
  return NeverZero(XXH3_64bits(bytes.data(), bytes.size()));
}

uint64_t Checksum(std::span<const std::span<const std::byte>> segments) {
  if (segments.size() == 1) return Checksum(segments[0]);
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (const auto& segment : segments) XXH3_64bits_update(&state, segment.data(), segment.size());
  return NeverZero(XXH3_64bits_digest(&state));
}

}  // namespace peercache
