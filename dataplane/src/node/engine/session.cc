#include "node/engine/session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/holes.h"
#include "base/huge_bytes.h"

namespace peercache {
namespace {

// What a device pointer that could not be registered may lack.
const char* PeerMemoryHint() {
  const bool loaded = access("/sys/module/nvidia_peermem", F_OK) == 0 ||
                      access("/sys/module/nv_peer_mem", F_OK) == 0;
  return loaded ? "nvidia-peermem is loaded, so see the kernel's log (dmesg), or pass a dma-buf"
                : "nvidia-peermem is not loaded: modprobe nvidia-peermem, or pass a dma-buf";
}

}  // namespace

Result<std::shared_ptr<const void>> Session::AdmitThread(Tenants* tenants) const {
  auto seat = tenants->AdmitThread(*tenant_, owner_.process);
  if (!seat.ok()) return seat.status();
  return std::shared_ptr<const void>(std::make_shared<Admission::Seat>(std::move(*seat)));
}

Status Session::SetRegion(const RegionRequest& request, UniqueFd fd, const Limits& limits,
                          Fabric* fabric, Tenants* tenants) {
  // Destroy the replaced region after unlocking: registration and deregistration are slow.
  decltype(regions_)::node_type old;
  std::shared_ptr<const Fabric::Shared> shared;
  if (request.length == 0) {
    std::lock_guard lock(mutex_);
    old = regions_.extract(request.region);
    return {};
  }
  if (!fd) {
    return InvalidArgument(
        fmt::format("region {}: no file descriptor came with it", request.region));
  }
  uint64_t end = 0;
  if (__builtin_add_overflow(request.offset, request.length, &end)) {
    return InvalidArgument(fmt::format("region {}: offset {} + length {} overflows", request.region,
                                       request.offset, request.length));
  }
  auto memory = MappedRegion::Map(std::move(fd), end, MapAccess::kReadWrite);
  if (!memory.ok()) return memory.status().Annotate(fmt::format("region {}", request.region));
  if (const uint64_t holes = HoleBytes(memory->fd()); holes > 0) {
    return InvalidArgument(fmt::format(
        "region {}: {} bytes of its file have no memory yet, and the node, which would be the "
        "first to touch them, will not have it counted as its own; take it with fallocate() before "
        "the region is shared, as the client of this release does for the region's part",
        request.region, holes));
  }
  Region region;
  region.memory = std::make_shared<MappedRegion>(std::move(*memory));
  region.mapped = end;
  region.bytes = region.memory->bytes().subspan(request.offset);
  std::unique_lock lock(mutex_);
  auto taken = Take(request.region, region.mapped, limits);
  if (!taken.ok()) return taken.status();
  region.taken = std::move(*taken);
  region.huge = std::make_unique<std::atomic<int64_t>>(-1);
  // Once is enough: what is registered is pinned, so its pages stay as they are.
  auto thread = AdmitThread(tenants);
  const Status may = thread.status();
  region.prefault = std::make_unique<Prefault>(
      region.memory->bytes(), region.memory->fd(),
      [bytes = region.bytes, huge = region.huge.get(), held = std::move(thread)] {
        if (const auto known = HugeBytes(bytes)) *huge = static_cast<int64_t>(*known);
      },
      may);
  if (fabric != nullptr) {
    shared = fabric->Share(fmt::format("engine {}, region {}", engine_, request.region),
                           region.memory, AdmitThread(tenants));
    region.shared = shared;
  }
  old = Replace(request.region, std::move(region));
  lock.unlock();
  if (shared) shared->AwaitIfShort();
  return {};
}

Result<Session::Region> Session::DeviceRegion(const RegionRequest& request,
                                              std::optional<UniqueFd> fd) const {
  Region region;
  region.mapped = request.length;
  if (fd && !*fd) return InvalidArgument("no file descriptor came with it; pass a dma-buf");
  if (fd) {
    auto memory = MappedRegion::MapDmaBuf(std::move(*fd), request.length, request.offset);
    if (!memory.ok()) return memory.status();
    region.memory = std::make_shared<MappedRegion>(std::move(*memory));
    region.bytes = region.memory->bytes();
    region.unmapped = region.memory->device() == MappedRegion::Device::kUnmapped;
    return region;
  }
  // The kernel names the process at the other end: nobody else can speak of our addresses.
  if (owner_.pid != getpid()) {
    return InvalidArgument(
        "addresses are taken only from the process that the node "
        "runs in (an embedded node), so pass a dma-buf");
  }
  uint64_t end = 0;
  if (request.length == 0 || request.offset == 0 ||
      __builtin_add_overflow(request.offset, request.length, &end)) {
    return InvalidArgument(
        fmt::format("{} bytes at address {:#x} are no memory", request.length, request.offset));
  }
  region.bytes = {reinterpret_cast<std::byte*>(request.offset), request.length};
  region.unmapped = true;
  return region;
}

Result<DmaBufOk> Session::SetDevice(const RegionRequest& request, std::optional<UniqueFd> fd,
                                    const Limits& limits, Fabric* fabric) {
  const std::string name = fmt::format("device memory, region {}", request.region);
  auto made = DeviceRegion(request, std::move(fd));
  if (!made.ok()) return made.status().Annotate(name);
  Region region = std::move(*made);
  // Registering, without the lock, is asked of a device only when there is room; and again after
  // it, since another connection of the engine may have taken that.
  std::unique_lock lock(mutex_);
  if (Status s = CheckLimits(request.region, region.mapped, limits); !s.ok()) return s;
  lock.unlock();
  DmaBufOk ways;
  ways.copies = region.unmapped ? 0 : 1;
  std::string unmapped;  // why
  if (region.unmapped) {
    unmapped = region.memory
                   ? FromErrno("its exporter does not let it be mapped", region.memory->map_error())
                         .message()
                   : "the node copies nothing to addresses of a device";
    ways.missing = fmt::format("{}: {}", name, unmapped);
  }
  Status registered = Unavailable("this node has no RDMA rails (transport, device-name)");
  if (fabric != nullptr) {
    rdma::Registration::DmaBuf dma_buf;
    if (region.memory) dma_buf = {region.memory->fd(), request.offset};
    auto shared = fabric->ShareDevice(fmt::format("engine {}, {}", engine_, name), region.bytes,
                                      dma_buf, region.memory);
    registered = shared.status();
    if (shared.ok() && !(*shared)->registered())
      registered = Unavailable("no rail has its device now");
    if (shared.ok()) region.shared = std::move(*shared);
  }
  ways.rdma = registered.ok() ? 1 : 0;
  if (!registered.ok() && region.unmapped) {
    return Unavailable(fmt::format("{}: {}; {}: use host memory", name, registered.message(),
                                   region.memory ? unmapped : PeerMemoryHint()));
  }
  if (!registered.ok()) ways.missing = registered.Annotate(name).message();
  lock.lock();
  auto taken = Take(request.region, region.mapped, limits);
  if (!taken.ok()) {
    lock.unlock();  // it is given back without the lock
    return taken.status();
  }
  region.taken = std::move(*taken);
  const auto old = Replace(request.region, std::move(region));
  lock.unlock();
  return ways;
}

Status Session::CheckLimits(uint32_t region, uint64_t bytes, const Limits& limits) const {
  if (regions_.size() >= limits.regions && !regions_.contains(region)) {
    return ResourceExhausted(
        fmt::format("region {}: an engine may share at most {} regions", region, limits.regions));
  }
  uint64_t others = 0;  // bounded by `limits`, so adding to it cannot overflow
  for (const auto& [id, known] : regions_) {
    if (id != region) others += known.mapped;
  }
  if (bytes > limits.bytes - std::min(others, limits.bytes)) {
    return ResourceExhausted(
        fmt::format("region {}: with it this engine would share {} bytes, at most {} are allowed; "
                    "share less, or raise --max-engine-memory",
                    region, others + bytes, limits.bytes));
  }
  return {};
}

Result<Tenant::Memory> Session::Take(uint32_t region, uint64_t bytes, const Limits& limits) const {
  if (Status s = CheckLimits(region, bytes, limits); !s.ok()) return s;
  const auto replaced = regions_.find(region);
  auto taken = tenant_->TakeMemory(bytes, replaced == regions_.end() ? 0 : replaced->second.mapped);
  if (!taken.ok()) return taken.status().Annotate(fmt::format("region {}", region));
  return taken;
}

std::map<uint32_t, Session::Region>::node_type Session::Replace(uint32_t id, Region region) {
  auto old = regions_.extract(id);
  regions_.emplace(id, std::move(region));
  return old;
}

Status Session::Resolve(std::span<const WireSegment> segments, Resolved* resolved) const {
  resolved->regions.clear();
  resolved->segments.clear();
  resolved->unmapped = false;
  std::lock_guard lock(mutex_);
  uint32_t last_id = 0;
  const Region* region = nullptr;
  for (const WireSegment& s : segments) {
    if (region == nullptr || s.region != last_id) {
      const auto it = regions_.find(s.region);
      if (it == regions_.end()) {
        return InvalidArgument(fmt::format("segment in region {}, which is not shared", s.region));
      }
      region = &it->second;
      last_id = s.region;
      resolved->unmapped |= region->unmapped;
      if (region->memory && std::find(resolved->regions.begin(), resolved->regions.end(),
                                      region->memory) == resolved->regions.end()) {
        resolved->regions.push_back(region->memory);
      }
    }
    const uint64_t size = region->bytes.size();
    if (s.offset > size || s.length > size - s.offset) {
      return InvalidArgument(fmt::format("segment [{}, +{}) lies outside region {} of {} bytes",
                                         s.offset, s.length, s.region, size));
    }
    resolved->segments.push_back(region->bytes.subspan(s.offset, s.length));
  }
  return {};
}

size_t Session::region_count() const {
  std::lock_guard lock(mutex_);
  return regions_.size();
}

uint64_t Session::region_bytes() const {
  std::lock_guard lock(mutex_);
  uint64_t bytes = 0;
  for (const auto& [id, region] : regions_) bytes += region.bytes.size();
  return bytes;
}

uint64_t Session::registered_bytes() const {
  std::lock_guard lock(mutex_);
  uint64_t bytes = 0;
  for (const auto& [id, region] : regions_)
    if (region.shared && region.shared->registered()) bytes += region.bytes.size();
  return bytes;
}

Session::PageKinds Session::page_kinds() const {
  std::lock_guard lock(mutex_);
  PageKinds kinds;
  for (const auto& [id, region] : regions_) {
    const int64_t huge = region.huge ? region.huge->load() : -1;
    if (huge < 0) continue;
    kinds.huge += static_cast<uint64_t>(huge);
    kinds.small += region.bytes.size() - static_cast<uint64_t>(huge);
  }
  return kinds;
}

}  // namespace peercache
