// What a pool has taken over from the process before (adoption.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/clock.h"
#include "pool/pool_file_options.h"

namespace peercache {

enum class AdoptionDrop : uint8_t {
  kWriting,    // the page was never whole
  kWithdrawn,  // it had been evicted or cleared
  kHeader,     // its header is of no page that could be there
  kDuplicate,  // another slot has the key
};
inline constexpr size_t kAdoptionDrops = 4;
const char* AdoptionDropName(AdoptionDrop drop);

// How a pool began.
struct Adoption {
  PoolStart start = PoolStart::kMemory;
  std::string why;  // of a file that was emptied
  uint64_t pages = 0, bytes = 0;
  std::array<uint64_t, kAdoptionDrops> dropped{};
  Duration took{};

  uint64_t& Dropped(AdoptionDrop drop) { return dropped[static_cast<size_t>(drop)]; }
};

}  // namespace peercache
