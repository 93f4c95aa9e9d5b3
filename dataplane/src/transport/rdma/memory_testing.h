// Ranges of memory as if they were registered, for tests without a device.
#pragma once

#include <memory>

#include "transport/rdma/memory.h"

namespace peercache::rdma {

class RegistrationTesting {
 public:
  static std::shared_ptr<const Registration> Make(std::span<std::byte> bytes,
                                                  uint64_t chunk_bytes) {
    auto range = std::shared_ptr<Registration>(new Registration());
    range->bytes_ = bytes;
    range->chunk_bytes_ = chunk_bytes;
    range->chunks_ = (bytes.size() + chunk_bytes - 1) / chunk_bytes;
    return range;
  }
};

}  // namespace peercache::rdma
