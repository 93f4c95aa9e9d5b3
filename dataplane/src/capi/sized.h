// Structs of libpeercache.h that begin with their size, so that they can grow.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/status.h"
#include "version.h"

namespace peercache::capi {

// No struct will be larger: a size beyond it is a field that was never set.
inline constexpr uint32_t kMaxStruct = 4096;

// Whether a struct of `size` bytes is one of T's releases. `first`: its size in the first one.
template <typename T>
Status CheckSize(uint32_t size, const char* name, size_t first = sizeof(T)) {
  if (size >= first && size <= kMaxStruct) return {};
  return InvalidArgument(fmt::format("size: {} is not a size of {}: set it to sizeof({}), {} to {}",
                                     size, name, name, first, kMaxStruct));
}

// A copy of the caller's struct as this release knows it: fields that the caller does not know are
// 0. kInvalidArgument where the caller sets fields of a later release.
template <typename T>
Status TakeSized(const void* given, const char* name, T* taken) {
  uint32_t size = 0;
  std::memcpy(&size, given, sizeof(size));
  if (Status s = CheckSize<T>(size, name); !s.ok()) return s;
  const auto* bytes = static_cast<const unsigned char*>(given);
  if (size > sizeof(T) &&
      std::any_of(bytes + sizeof(T), bytes + size, [](unsigned char byte) { return byte != 0; })) {
    return InvalidArgument(
        fmt::format("size: {} sets fields that this library (release {}) does not know: leave them "
                    "0, or use a later release",
                    name, kVersion));
  }
  *taken = {};
  std::memcpy(taken, bytes, std::min<size_t>(size, sizeof(T)));
  return {};
}

}  // namespace peercache::capi
