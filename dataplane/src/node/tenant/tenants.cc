#include "node/tenant/tenants.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

namespace peercache {
namespace {

// Of two engines, each with the connection that it attached by and one for calls.
constexpr uint64_t kLeastThreads = 4;
// One process, which may have half, then has as many as a session has connections, also where one
// engine may attach.
constexpr uint64_t kThreadsOfAnEngine = 128;

uint64_t AllEnginesThreads(const TenantsOptions& options) {
  return kThreadsOfAnEngine * options.max_engines;
}
uint32_t ConnectionThreads(const TenantsOptions& options) {
  const uint64_t most = std::min(options.threads.free / 2, AllEnginesThreads(options));
  return static_cast<uint32_t>(std::max(most, kLeastThreads));
}
// A quarter among all tenants that there may be; of no use is more than a session may have.
uint32_t ReservedThreads(const ThreadLimit& limit) {
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(limit.free / 4 / kMostTenants, kLeastThreads, 64));
}

std::string NameOf(const Tenant& tenant) {
  return tenant.name().empty() ? "the shared tenant" : fmt::format("tenant {}", tenant.name());
}

}  // namespace

Tenant::Memory& Tenant::Memory::operator=(Memory&& other) noexcept {
  if (this == &other) return *this;
  Give();
  tenant_ = std::exchange(other.tenant_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void Tenant::Memory::Give() {
  if (Tenant* tenant = std::exchange(tenant_, nullptr); tenant != nullptr)
    tenant->shared_bytes_.fetch_sub(bytes_, std::memory_order_relaxed);
}

Result<Tenant::Memory> Tenant::TakeMemory(uint64_t bytes, uint64_t replaced) {
  uint64_t before = shared_bytes_.load(std::memory_order_relaxed);
  do {
    const uint64_t others = before - std::min(before, replaced);
    if (bytes > max_memory_ - std::min(others, max_memory_)) {
      refused.memory.Add(1);
      return ResourceExhausted(
          fmt::format("with it the engines of {} would share {} bytes, at most {} are allowed; "
                      "share less, or raise --max-tenant-memory",
                      NameOf(*this), others + bytes, max_memory_));
    }
  } while (!shared_bytes_.compare_exchange_weak(before, before + bytes, std::memory_order_relaxed));
  Memory memory;
  memory.tenant_ = this;
  memory.bytes_ = bytes;
  return memory;
}

Status Tenant::MayClear(TimePoint now) {
  std::lock_guard lock(mutex_);
  if (!clears_.Full(kClears, now)) {
    clears_.Add(kClears, now);
    return {};
  }
  refused.clears.Add(1);
  return ResourceExhausted(
      fmt::format("{} has cleared {} times in a row on this node, and may once a second now; "
                  "nothing was cleared, repeat it in {} ms",
                  NameOf(*this), kClears.burst, ToMillis(kClears.interval)));
}

Tenants::Tenants(TenantsOptions options, std::string secret, Pool* pool)
    : options_(std::move(options)),
      secret_(std::move(secret)),
      pool_(pool),
      admission_(options_.max_engines),
      threads_(ConnectionThreads(options_), ReservedThreads(options_.threads)) {
  known_[0].tenant =
      std::make_shared<Tenant>("", TenantNumber{0}, std::nullopt, options_.max_memory);
}

Result<std::unique_ptr<Tenants>> Tenants::Create(TenantsOptions options, Pool* pool) {
  std::string secret;
  if (!options.secret_file.empty()) {
    auto read = ReadTenantSecret(options.secret_file);
    if (!read.ok()) return read.status().Annotate("tenant-secret-file");
    secret = std::move(*read);
  }
  return std::unique_ptr<Tenants>(new Tenants(std::move(options), std::move(secret), pool));
}

uint64_t Tenants::PoolBytesOf(TenantNumber number) const {
  return pool_ != nullptr ? pool_->BytesOf(number) : 0;
}

std::optional<TenantNumber> Tenants::FreeNumber() const {
  std::optional<TenantNumber> best;
  uint64_t least = UINT64_MAX;
  for (TenantNumber number = 1; number < kTenantNumbers; ++number) {
    if (known_[number].tenant == nullptr) return number;
    if (known_[number].sockets > 0) continue;
    if (const uint64_t bytes = PoolBytesOf(number); bytes < least) {
      least = bytes;
      best = number;
    }
  }
  return best;
}

Result<std::shared_ptr<Tenant>> Tenants::Enter(const std::string& name) {
  std::lock_guard lock(mutex_);
  auto known = std::ranges::find_if(
      known_, [&](const Known& k) { return k.tenant != nullptr && k.tenant->name() == name; });
  if (known == known_.end()) {
    const auto number = FreeNumber();
    if (!number) {
      return ResourceExhausted(fmt::format(
          "{} tenants have sockets already, which is all that one node serves", kMostTenants));
    }
    auto key = TenantKey::Derive(options_.cluster, name, secret_);
    if (!key.ok()) return key.status();
    if (secret_.empty() && !std::exchange(warned_, true)) {
      spdlog::warn(
          "tenant {}: without tenant-secret-file its key comes of the names of cluster and tenant "
          "alone, so engines that know both can compute it; write a file with \"openssl rand -hex "
          "32\", the same for all nodes",
          name);
    }
    known = known_.begin() + *number;
    known->tenant = std::make_shared<Tenant>(name, *number, *key, options_.max_memory);
  }
  if (known->sockets++ == 0) {
    const TenantNumber number = known->tenant->number();
    admission_.SetKnown(number, true);
    threads_.SetKnown(number, true);
    if (pool_ != nullptr) pool_->SetPresent(number, true);
  }
  return known->tenant;
}

void Tenants::Leave(const Tenant& tenant) {
  std::lock_guard lock(mutex_);
  const TenantNumber number = tenant.number();
  if (--known_[number].sockets > 0) return;
  admission_.SetKnown(number, false);
  threads_.SetKnown(number, false);
  if (pool_ != nullptr && number != 0) pool_->SetPresent(number, false);
}

Result<Admission::Seat> Tenants::Admit(Tenant* tenant, uint64_t process) {
  auto seat = admission_.Admit(tenant->number(), process);
  switch (seat.refusal()) {
    case Admission::Refusal::kNone: return seat;
    case Admission::Refusal::kFull:
      tenant->refused.sessions.Add(1);
      return ResourceExhausted(fmt::format(
          "{} engines of {} are attached already; raise --max-engines, of which every "
          "tenant has {} for itself",
          seat.limit(), NameOf(*tenant), std::min(options_.max_engines, Admission::kReserve)));
    case Admission::Refusal::kProcess: break;
  }
  tenant->refused.process.Add(1);
  return ResourceExhausted(
      fmt::format("this process has {} engines of {} attached already, which is half of what there "
                  "may be; attach fewer, or raise --max-engines",
                  seat.limit(), NameOf(*tenant)));
}

Result<Admission::Seat> Tenants::AdmitThread(const Tenant& tenant, uint64_t process) {
  auto seat = threads_.Admit(tenant.number(), process);
  if (seat.refusal() == Admission::Refusal::kNone) return seat;
  const bool of_process = seat.refusal() == Admission::Refusal::kProcess;
  const ThreadLimit& limit = options_.threads;
  const uint64_t all = AllEnginesThreads(options_);
  const std::string may = limit.free / 2 < all
                              ? fmt::format("{} in all ({})", limit.free, limit.source)
                              : fmt::format("{} in all (max-engines)", all);
  return ResourceExhausted(fmt::format(
      "{} has {} connections{}, each of which costs the node a thread, and it can start "
      "{}: make fewer connections, or raise that limit for the node",
      of_process ? "this process" : NameOf(tenant), seat.limit(),
      of_process ? ", half of what its tenant may have" : "", may));
}

TenantInfo Together(std::span<const TenantInfo> tenants) {
  TenantInfo all;
  all.name = "(all)";  // the name of no tenant
  for (const TenantInfo& t : tenants) {
    all.sessions += t.sessions;
    all.shared_bytes += t.shared_bytes;
    all.pool_bytes += t.pool_bytes;
    all.refused_sessions += t.refused_sessions;
    all.refused_process += t.refused_process;
    all.refused_memory += t.refused_memory;
    all.refused_clears += t.refused_clears;
  }
  return all;
}

std::vector<TenantInfo> Tenants::infos() const {
  std::vector<TenantInfo> infos;
  std::lock_guard lock(mutex_);
  for (const Known& known : known_) {
    if (known.tenant == nullptr) continue;
    const Tenant& tenant = *known.tenant;
    TenantInfo info;
    info.name = tenant.name();
    info.sessions = admission_.SessionsOf(tenant.number());
    info.shared_bytes = tenant.shared_bytes();
    info.pool_bytes = PoolBytesOf(tenant.number());
    info.refused_sessions = tenant.refused.sessions;
    info.refused_process = tenant.refused.process;
    info.refused_memory = tenant.refused.memory;
    info.refused_clears = tenant.refused.clears;
    if (known.sockets > 0 || info.sessions > 0 || info.pool_bytes > 0)
      infos.push_back(std::move(info));
  }
  return infos;
}

}  // namespace peercache
