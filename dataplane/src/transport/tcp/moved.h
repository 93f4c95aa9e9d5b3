// What one step of a connection that never blocks has come to.
#pragma once

#include <cstddef>
#include <cstdint>

namespace peercache {

enum class Io : uint8_t {
  kMoved,       // at least a byte, or all that there was to do
  kWantsRead,   // again when the descriptor is readable
  kWantsWrite,  // again when it is writable
  kClosed,      // by the peer
  kFailed,
};

struct Moved {
  Io io = Io::kMoved;
  size_t bytes = 0;
};

}  // namespace peercache
