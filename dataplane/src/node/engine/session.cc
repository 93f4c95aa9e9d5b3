#include "node/engine/session.h"

#include <errno.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>

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
  // Destroy what is replaced after unlocking: registration and deregistration are slow.
  decltype(regions_)::node_type old;
  std::shared_ptr<Memory> memory, former;
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
  struct stat found {};
  if (fstat(fd.get(), &found) != 0) return FromErrno("fstat", errno);
  const File file{found.st_dev, found.st_ino};
  const uint64_t holes = HoleBytes(fd.get());
  std::unique_lock lock(mutex_);
  const auto fits = [end](const std::shared_ptr<Memory>& known) {
    return known != nullptr && known->bytes >= end;
  };
  memory = MemoryOf(file);
  std::shared_ptr<MappedRegion> mapped;
  if (!fits(memory)) {
    lock.unlock();
    auto made = MappedRegion::Map(std::move(fd), end, MapAccess::kReadWrite);
    if (!made.ok()) return made.status().Annotate(fmt::format("region {}", request.region));
    mapped = std::make_shared<MappedRegion>(std::move(*made));
    lock.lock();
    memory = MemoryOf(file);  // by another connection meanwhile
  }
  if (holes > 0) {
    return InvalidArgument(fmt::format(
        "region {}: {} bytes of its file have no memory yet, and the node, which would be the "
        "first to touch them, will not have it counted as its own; take it with fallocate() before "
        "the region is shared, as the client of this release does for the region's part",
        request.region, holes));
  }
  if (!fits(memory)) {
    former = memory;
    auto adopted =
        Adopt(request.region, file, std::move(mapped), former.get(), limits, fabric, tenants);
    if (!adopted.ok()) return adopted.status();
    memory = std::move(*adopted);
  } else if (auto may = CheckLimits(request.region, 0, nullptr, limits); !may.ok()) {
    return may.status();
  }
  old = Replace(request.region, {memory, request.offset,
                                 memory->mapped->bytes().subspan(request.offset, request.length)});
  lock.unlock();
  if (memory->shared) memory->shared->AwaitIfShort();
  return {};
}

std::shared_ptr<Session::Memory> Session::MemoryOf(const File& file) const {
  for (const auto& [id, region] : regions_)
    if (region.memory->file == file) return region.memory;
  return nullptr;
}

Result<std::shared_ptr<Session::Memory>> Session::Adopt(uint32_t region, const File& file,
                                                        std::shared_ptr<MappedRegion> mapped,
                                                        const Memory* former, const Limits& limits,
                                                        Fabric* fabric, Tenants* tenants) {
  auto memory = std::make_shared<Memory>();
  memory->mapped = std::move(mapped);
  memory->file = file;
  memory->bytes = memory->mapped->size();
  auto taken = Take(region, memory->bytes, former, limits);
  if (!taken.ok()) return taken.status();
  memory->taken = std::move(*taken);
  // Once is enough: what is registered is pinned, so its pages stay as they are.
  auto thread = AdmitThread(tenants);
  const Status may = thread.status();
  memory->prefault = std::make_unique<Prefault>(
      memory->mapped->bytes(), memory->mapped->fd(),
      [bytes = memory->mapped->bytes(), huge = &memory->huge, held = std::move(thread)] {
        if (const auto known = HugeBytes(bytes)) *huge = static_cast<int64_t>(*known);
      },
      may);
  if (fabric != nullptr) {
    memory->shared = fabric->Share(fmt::format("engine {}, region {}", engine_, region),
                                   memory->mapped, AdmitThread(tenants));
  }
  for (auto& [id, known] : regions_) {
    if (known.memory->file != file) continue;
    known.memory = memory;
    known.bytes = memory->mapped->bytes().subspan(known.offset, known.bytes.size());
  }
  return memory;
}

Result<Session::Region> Session::DeviceRegion(const RegionRequest& request,
                                              std::optional<UniqueFd> fd) const {
  Region region{std::make_shared<Memory>()};
  Memory& memory = *region.memory;
  memory.bytes = request.length;
  if (fd && !*fd) return InvalidArgument("no file descriptor came with it; pass a dma-buf");
  if (fd) {
    auto mapped = MappedRegion::MapDmaBuf(std::move(*fd), request.length, request.offset);
    if (!mapped.ok()) return mapped.status();
    memory.mapped = std::make_shared<MappedRegion>(std::move(*mapped));
    memory.unmapped = memory.mapped->device() == MappedRegion::Device::kUnmapped;
    region.bytes = memory.mapped->bytes();
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
  memory.unmapped = true;
  return region;
}

Result<DmaBufOk> Session::SetDevice(const RegionRequest& request, std::optional<UniqueFd> fd,
                                    const Limits& limits, Fabric* fabric) {
  const std::string name = fmt::format("device memory, region {}", request.region);
  auto made = DeviceRegion(request, std::move(fd));
  if (!made.ok()) return made.status().Annotate(name);
  Region region = std::move(*made);
  Memory& memory = *region.memory;
  // Registering, without the lock, is asked of a device only when there is room; and again after
  // it, since another connection of the engine may have taken that.
  std::unique_lock lock(mutex_);
  if (auto may = CheckLimits(request.region, memory.bytes, nullptr, limits); !may.ok())
    return may.status();
  lock.unlock();
  DmaBufOk ways;
  ways.copies = memory.unmapped ? 0 : 1;
  std::string unmapped;  // why
  if (memory.unmapped) {
    unmapped = memory.mapped
                   ? FromErrno("its exporter does not let it be mapped", memory.mapped->map_error())
                         .message()
                   : "the node copies nothing to addresses of a device";
    ways.missing = fmt::format("{}: {}", name, unmapped);
  }
  Status registered = Unavailable("this node has no RDMA rails (transport, device-name)");
  if (fabric != nullptr) {
    rdma::Registration::DmaBuf dma_buf;
    if (memory.mapped) dma_buf = {memory.mapped->fd(), request.offset};
    auto shared = fabric->ShareDevice(fmt::format("engine {}, {}", engine_, name), region.bytes,
                                      dma_buf, memory.mapped);
    registered = shared.status();
    if (shared.ok() && !(*shared)->registered())
      registered = Unavailable("no rail has its device now");
    if (shared.ok()) memory.shared = std::move(*shared);
  }
  ways.rdma = registered.ok() ? 1 : 0;
  if (!registered.ok() && memory.unmapped) {
    return Unavailable(fmt::format("{}: {}; {}: use host memory", name, registered.message(),
                                   memory.mapped ? unmapped : PeerMemoryHint()));
  }
  if (!registered.ok()) ways.missing = registered.Annotate(name).message();
  lock.lock();
  auto taken = Take(request.region, memory.bytes, nullptr, limits);
  if (!taken.ok()) {
    lock.unlock();  // it is given back without the lock
    return taken.status();
  }
  memory.taken = std::move(*taken);
  const auto old = Replace(request.region, std::move(region));
  lock.unlock();
  return ways;
}

Result<uint64_t> Session::CheckLimits(uint32_t region, uint64_t bytes, const Memory* former,
                                      const Limits& limits) const {
  if (regions_.size() >= limits.regions && !regions_.contains(region)) {
    return ResourceExhausted(
        fmt::format("region {}: an engine may share at most {} regions", region, limits.regions));
  }
  uint64_t others = 0;  // bounded by `limits`, so adding to it cannot overflow
  std::set<const Memory*> counted{former};
  for (const auto& [id, known] : regions_)
    if (id != region && counted.insert(known.memory.get()).second) others += known.memory->bytes;
  if (bytes > limits.bytes - std::min(others, limits.bytes)) {
    return ResourceExhausted(
        fmt::format("region {}: with it this engine would share {} bytes, at most {} are allowed; "
                    "share less, or raise --max-engine-memory",
                    region, others + bytes, limits.bytes));
  }
  return others;
}

Result<Tenant::Memory> Session::Take(uint32_t region, uint64_t bytes, const Memory* former,
                                     const Limits& limits) const {
  const auto others = CheckLimits(region, bytes, former, limits);
  if (!others.ok()) return others.status();
  uint64_t all = 0;
  for (const Memory* memory : Memories()) all += memory->bytes;
  auto taken = tenant_->TakeMemory(bytes, all - *others);
  if (!taken.ok()) return taken.status().Annotate(fmt::format("region {}", region));
  return taken;
}

std::set<const Session::Memory*> Session::Memories() const {
  std::set<const Memory*> memories;
  for (const auto& [id, region] : regions_) memories.insert(region.memory.get());
  return memories;
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
      const Memory& memory = *region->memory;
      resolved->unmapped |= memory.unmapped;
      if (memory.mapped &&
          std::ranges::find(resolved->regions, memory.mapped) == resolved->regions.end())
        resolved->regions.push_back(memory.mapped);
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
    if (region.memory->shared && region.memory->shared->registered()) bytes += region.bytes.size();
  return bytes;
}

Session::PageKinds Session::page_kinds() const {
  std::lock_guard lock(mutex_);
  PageKinds kinds;
  for (const Memory* memory : Memories()) {
    const int64_t huge = memory->huge;
    if (huge < 0) continue;
    kinds.huge += static_cast<uint64_t>(huge);
    kinds.small += memory->bytes - static_cast<uint64_t>(huge);
  }
  return kinds;
}

}  // namespace peercache
