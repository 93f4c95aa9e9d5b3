// Ranges of memory as if they were registered, for tests without a device.
#pragma once

#include <memory>

#include "transport/rdma/memory.h"

namespace peercache::rdma {

class RegistrationTesting {
 public:
  // No rail knows it.
  static std::shared_ptr<const Registration> Make(std::span<std::byte> bytes, uint64_t chunk_bytes,
                                                  size_t rails = 1) {
    auto range = std::shared_ptr<Registration>(new Registration());
    static uint64_t last_id = 0;
    range->id_ = ++last_id;
    range->bytes_ = bytes;
    range->chunk_bytes_ = chunk_bytes;
    range->chunks_ = (bytes.size() + chunk_bytes - 1) / chunk_bytes;
    range->keys_.resize(rails);
    return range;
  }
  // The same, far from these rails.
  static std::shared_ptr<const Registration> Far(const Registration& old, std::vector<bool> far) {
    auto range = std::shared_ptr<Registration>(new Registration(old));
    range->far_ = std::move(far);
    return range;
  }
  // The same, known to a new device of `rail`.
  static std::shared_ptr<const Registration> Known(const Registration& old, size_t rail) {
    auto range = std::shared_ptr<Registration>(new Registration(old));
    range->keys_[rail] = std::shared_ptr<Registration::Keys>(
        new Registration::Keys{std::make_shared<DeviceContext>(), nullptr, {}});
    return range;
  }
};

}  // namespace peercache::rdma
