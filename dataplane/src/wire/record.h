// Record: where a page is. Soft state; the node that holds the page is the truth (design, invariant
// 2). Flat, fixed-size and trivially copyable: it travels as is (little-endian) and is at most 64
// bytes.
#pragma once

#include <cstdint>
#include <type_traits>

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
  uint8_t reserved[3] = {};

  friend bool operator==(const Record&, const Record&) = default;
};
static_assert(sizeof(Record) == 48 && std::is_trivially_copyable_v<Record>);

}  // namespace peercache
