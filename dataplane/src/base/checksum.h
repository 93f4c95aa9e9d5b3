// Checksum of page bytes: xxh3-64. Never 0, because 0 in a header or record means "not computed".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace peercache {

uint64_t Checksum(std::span<const std::byte> bytes);
// Of the concatenation of `segments`; equal to Checksum of the bytes gathered into one buffer.
uint64_t Checksum(std::span<const std::span<const std::byte>> segments);

}  // namespace peercache
