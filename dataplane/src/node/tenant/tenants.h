// Tenants: whose engines a node serves, and what each may use of it. In Kubernetes a tenant is a
// namespace. An engine belongs to the tenant of the socket that it came through, whatever it says.
//
//   auto tenants = Tenants::Create(options, pool);
//   auto tenant = (*tenants)->Enter("team-a");          // it has a socket from now on
//   auto seat = (*tenants)->Admit(*tenant, process);        // of a session
//   auto thread = (*tenants)->AdmitThread(*tenant, process);  // of a connection
//   auto memory = (*tenant)->TakeMemory(bytes, 0);      // that an engine shares
//   (*tenants)->Leave(*tenant);                         // its socket is gone
//
// What each may use: sessions and threads (admission.h), memory shared by all its engines together,
// clears, and a share of the pool (pool/shares.h).
//
// Of the threads that the process may start, half are for connections, and regions that are brought
// in, of whoever asks first, though at most 128 for each of max_engines; a quarter is for the
// reserves of tenants that ask later, and a quarter for what the node starts itself.
//
// At most 64 tenants have sockets at once; one that comes later than that is refused. A tenant
// without a socket is remembered, with its pages, until its number is wanted for another one; the
// other then has what is left of these pages, and evicts them first.
//
// Thread-safe. Tenants outlives its sockets.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/rate_limit.h"
#include "base/status.h"
#include "base/thread_limit.h"
#include "node/count/counters.h"
#include "node/tenant/admission.h"
#include "node/tenant/tenant_key.h"
#include "pool/pool.h"

namespace peercache {

class Tenant {
 public:
  // Every rank of a model clears at once when its weights change: 8 on a machine, and as many that
  // try again.
  static constexpr RateLimit kClears{std::chrono::seconds(1), 16};

  Tenant(std::string name, TenantNumber number, std::optional<TenantKey> key, uint64_t max_memory)
      : name_(std::move(name)), number_(number), key_(std::move(key)), max_memory_(max_memory) {}

  const std::string& name() const { return name_; }  // empty: the shared tenant
  TenantNumber number() const { return number_; }
  // Of one thread of it.
  Result<TenantBinding> Bind() const { return TenantBinding::Make(key_ ? &*key_ : nullptr); }

  // Memory that is shared, while it lives.
  class Memory {
   public:
    Memory() = default;
    Memory(Memory&& other) noexcept { *this = std::move(other); }
    Memory& operator=(Memory&& other) noexcept;
    ~Memory() { Give(); }

   private:
    friend class Tenant;
    void Give();
    Tenant* tenant_ = nullptr;
    uint64_t bytes_ = 0;
  };
  // `replaced` bytes are given back soon. The tenant outlives what it gives.
  Result<Memory> TakeMemory(uint64_t bytes, uint64_t replaced);
  uint64_t shared_bytes() const { return shared_bytes_.load(std::memory_order_relaxed); }

  // kResourceExhausted: too many came lately; says when to try again.
  Status MayClear(TimePoint now);

  struct Refused {
    Counter sessions, process, memory, clears;
  };
  Refused refused;

 private:
  const std::string name_;
  const TenantNumber number_;
  const std::optional<TenantKey> key_;
  const uint64_t max_memory_;
  std::atomic<uint64_t> shared_bytes_{0};
  std::mutex mutex_;
  Meter clears_;
};

struct TenantInfo {
  std::string name;  // empty: the shared tenant
  uint32_t sessions = 0;
  uint64_t shared_bytes = 0, pool_bytes = 0;
  uint64_t refused_sessions = 0, refused_process = 0, refused_memory = 0, refused_clears = 0;
};

// The sum over all, named "(all)".
TenantInfo Together(std::span<const TenantInfo> tenants);

struct TenantsOptions {
  std::string cluster;
  std::string secret_file;  // empty: keys come of the names alone
  uint32_t max_engines = 64;
  uint64_t max_memory = UINT64_MAX;  // that the engines of one tenant share together
  ThreadLimit threads = {};          // that connections of all engines are to leave room in
};

class Tenants {
 public:
  // `pool` may be null. Reads the secret.
  static Result<std::unique_ptr<Tenants>> Create(TenantsOptions options, Pool* pool);

  // A socket of the tenant is there; each is to leave again. An empty name is the shared tenant.
  Result<std::shared_ptr<Tenant>> Enter(const std::string& name);
  void Leave(const Tenant& tenant);

  // kResourceExhausted: the tenant, or the process, has as many as it may.
  Result<Admission::Seat> Admit(Tenant* tenant, uint64_t process);
  // The same for the thread of a connection. An engine needs two to work.
  Result<Admission::Seat> AdmitThread(const Tenant& tenant, uint64_t process);

  // Of those that have sockets, engines or pages.
  std::vector<TenantInfo> infos() const;

 private:
  struct Known {
    std::shared_ptr<Tenant> tenant;  // null: the number is free
    uint32_t sockets = 0;
  };
  Tenants(TenantsOptions options, std::string secret, Pool* pool);
  // Of a new tenant: free, or of the tenant without a socket that has the fewest pages.
  std::optional<TenantNumber> FreeNumber() const;
  uint64_t PoolBytesOf(TenantNumber number) const;

  const TenantsOptions options_;
  const std::string secret_;
  Pool* const pool_;
  Admission admission_, threads_;
  mutable std::mutex mutex_;
  std::array<Known, kTenantNumbers> known_;  // by number; 0: the shared one
  bool warned_ = false;
};

}  // namespace peercache
