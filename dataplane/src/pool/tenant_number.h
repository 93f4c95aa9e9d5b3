// TenantNumber: the tenant whose page a slot has. 0 is who names none (shares.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace peercache {

using TenantNumber = uint8_t;
// That a node can tell from each other, and tenant 0.
inline constexpr size_t kMostTenants = 64;
inline constexpr size_t kTenantNumbers = kMostTenants + 1;

}  // namespace peercache
