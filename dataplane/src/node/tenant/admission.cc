#include "node/tenant/admission.h"

#include <algorithm>

namespace peercache {

Admission::Seat& Admission::Seat::operator=(Seat&& other) noexcept {
  if (this == &other) return *this;
  Leave();
  from_ = std::exchange(other.from_, nullptr);
  tenant_ = other.tenant_;
  process_ = other.process_;
  refusal_ = other.refusal_;
  limit_ = other.limit_;
  return *this;
}

void Admission::Seat::Leave() {
  Admission* const from = std::exchange(from_, nullptr);
  if (from == nullptr) return;
  std::lock_guard lock(from->mutex_);
  Tenant& tenant = from->tenants_[tenant_];
  --tenant.sessions;
  const auto process = tenant.by_process.find(process_);
  if (process != tenant.by_process.end() && --process->second == 0)
    tenant.by_process.erase(process);
}

void Admission::SetKnown(TenantNumber tenant, bool known) {
  std::lock_guard lock(mutex_);
  tenants_[tenant].known = known;
}

uint32_t Admission::SessionsOf(TenantNumber tenant) const {
  std::lock_guard lock(mutex_);
  return tenants_[tenant].sessions;
}

Admission::Seat Admission::Admit(TenantNumber number, uint64_t process) {
  Seat seat;
  std::lock_guard lock(mutex_);
  Tenant& tenant = tenants_[number];
  uint32_t others = 0;  // have, or are kept for them
  for (size_t i = 0; i < tenants_.size(); ++i) {
    const Tenant& other = tenants_[i];
    if (i != number) others += std::max(other.sessions, other.known ? reserve_ : 0);
  }
  const uint32_t may_have = std::max(reserve_, max_engines_ - std::min(max_engines_, others));
  seat.limit_ = may_have;
  if (tenant.sessions >= may_have) {
    seat.refusal_ = Refusal::kFull;
    return seat;
  }
  if (process != 0) {
    const uint32_t most = (may_have + 1) / 2;
    const auto has = tenant.by_process.find(process);
    if (has != tenant.by_process.end() && has->second >= most) {
      seat.refusal_ = Refusal::kProcess;
      seat.limit_ = most;
      return seat;
    }
    ++tenant.by_process[process];
  }
  ++tenant.sessions;
  seat.from_ = this;
  seat.tenant_ = number;
  seat.process_ = process;
  return seat;
}

}  // namespace peercache
