// Admission: how many engines of each tenant may be attached at once, so that no tenant keeps
// others out, and no process of a tenant its siblings. The threads of their connections are shared
// out by the same rule (Tenants::AdmitThread), with other figures.
//
// Every tenant has a reserve of sessions (kReserve). What `max_engines` leaves beyond the reserves
// is for whoever asks first. So a tenant is admitted
//
//   - while it has fewer sessions than the reserve, or
//   - while all sessions, and what the other known tenants have not used of their reserves, are
//     fewer than max_engines.
//
// Sessions are at most max_engines and a reserve for each tenant beyond the first. One process has
// at most half of what its tenant may have at that time, rounded up. Before Linux 6.9 processes of
// other PID namespaces are not told apart (0), and not bounded. A pod may have many processes.
//
// Costs: one lock, and a look at each of 65 tenants, for each session that is made. Thread-safe. A
// seat outlives no Admission.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "pool/tenant_number.h"

namespace peercache {

class Admission {
 public:
  // The ranks of a machine with eight GPUs attach once each.
  static constexpr uint32_t kReserve = 8;

  explicit Admission(uint32_t max_engines, uint32_t reserve = kReserve)
      : max_engines_(max_engines), reserve_(max_engines < reserve ? max_engines : reserve) {}

  enum class Refusal : uint8_t { kNone, kFull, kProcess };

  // The right to a session, while it lives.
  class Seat {
   public:
    Seat() = default;
    Seat(Seat&& other) noexcept { *this = std::move(other); }
    Seat& operator=(Seat&& other) noexcept;
    ~Seat() { Leave(); }
    Refusal refusal() const { return refusal_; }
    // What its tenant, or the process, may have, when it is refused.
    uint32_t limit() const { return limit_; }

   private:
    friend class Admission;
    void Leave();
    Admission* from_ = nullptr;  // null: refused
    TenantNumber tenant_ = 0;
    uint64_t process_ = 0;
    Refusal refusal_ = Refusal::kNone;
    uint32_t limit_ = 0;
  };

  // The tenant has a socket, so its reserve is kept.
  void SetKnown(TenantNumber tenant, bool known);
  Seat Admit(TenantNumber tenant, uint64_t process);
  uint32_t SessionsOf(TenantNumber tenant) const;

 private:
  struct Tenant {
    bool known = false;
    uint32_t sessions = 0;
    std::map<uint64_t, uint32_t> by_process;
  };

  const uint32_t max_engines_, reserve_;
  mutable std::mutex mutex_;
  std::array<Tenant, kTenantNumbers> tenants_;
};

}  // namespace peercache
