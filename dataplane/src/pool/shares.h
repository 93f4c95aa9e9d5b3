// PoolShares: how much of the pool each tenant has, and who has less than a fair share of it.
//
// The fair share is what pages fill now, divided by the tenants that are present and hold pages. A
// tenant below it is spared: its pages give way for nobody. Among those that are not below it the
// eviction order decides as if there were no tenants. So a tenant alone has the whole pool, what
// one does not use is used by the others, and whoever floods the pool evicts its own pages.
//
// Of the tenants with pages at least one is not spared, because not all can be below the average:
// there is always something to evict.
//
// Tenant 0 is who names none, and has the pages that were taken over from nodes that leave. It is
// always present. A tenant that is not present has no share: what it left goes as the oldest does.
// Replicas belong to nobody, since they go before all other pages.
//
// All is O(1). Not thread-safe: the pool calls it under its mutex.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "pool/tenant_number.h"

namespace peercache {

class PoolShares {
 public:
  PoolShares() { present_[0] = true; }

  void Add(TenantNumber tenant, size_t bytes) {
    if (bytes_[tenant] == 0 && present_[tenant]) ++holders_;
    bytes_[tenant] += bytes;
    total_ += bytes;
  }
  void Remove(TenantNumber tenant, size_t bytes) {
    bytes_[tenant] -= bytes;
    total_ -= bytes;
    if (bytes_[tenant] == 0 && present_[tenant]) --holders_;
  }
  void SetPresent(TenantNumber tenant, bool present) {
    if (present_[tenant] == present) return;
    present_[tenant] = present;
    if (bytes_[tenant] != 0) holders_ += present ? 1 : -1;
  }

  // Its pages are to stay.
  bool Spared(TenantNumber tenant) const {
    return present_[tenant] && bytes_[tenant] * static_cast<uint64_t>(holders_) < total_;
  }
  uint64_t BytesOf(TenantNumber tenant) const { return bytes_[tenant]; }

 private:
  std::array<uint64_t, kTenantNumbers> bytes_{};  // of slots, without replicas
  std::array<bool, kTenantNumbers> present_{};
  uint64_t total_ = 0;
  int holders_ = 0;  // that are present
};

}  // namespace peercache
