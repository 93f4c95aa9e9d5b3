#include "node/session.h"

#include <fmt/format.h>

#include <algorithm>

namespace peercache {

Status Session::SetRegion(const RegionRequest& request, UniqueFd fd, const Limits& limits,
                          Fabric* fabric) {
  // What leaves is destroyed without the lock: taking memory from the rails takes long. So does
  // giving them some.
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
  Region region{std::make_shared<MappedRegion>(std::move(*memory)), request.offset, nullptr,
                nullptr};
  std::unique_lock lock(mutex_);
  if (regions_.size() >= limits.regions && !regions_.contains(request.region)) {
    return ResourceExhausted(fmt::format("region {}: an engine may share at most {} regions",
                                         request.region, limits.regions));
  }
  uint64_t others = 0;  // bounded by `limits`, so adding to it cannot overflow
  for (const auto& [id, known] : regions_) {
    if (id != request.region) others += known.memory->size();
  }
  if (region.memory->size() > limits.bytes - std::min(others, limits.bytes)) {
    return ResourceExhausted(
        fmt::format("region {}: with it this engine would share {} bytes, at most {} are allowed; "
                    "share less, or raise --max-engine-memory",
                    request.region, others + region.memory->size(), limits.bytes));
  }
  region.prefault = std::make_unique<Prefault>(region.memory->bytes(), region.memory->fd());
  if (fabric != nullptr) {
    shared =
        fabric->Share(fmt::format("engine {}, region {}", engine_, request.region), region.memory);
    region.shared = shared;
  }
  old = regions_.extract(request.region);
  regions_.emplace(request.region, std::move(region));
  lock.unlock();
  if (shared) shared->AwaitIfShort();
  return {};
}

Status Session::Resolve(std::span<const WireSegment> segments, Resolved* resolved) const {
  resolved->regions.clear();
  resolved->segments.clear();
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
      if (std::find(resolved->regions.begin(), resolved->regions.end(), region->memory) ==
          resolved->regions.end()) {
        resolved->regions.push_back(region->memory);
      }
    }
    const uint64_t size = region->memory->size() - region->offset;
    if (s.offset > size || s.length > size - s.offset) {
      return InvalidArgument(fmt::format("segment [{}, +{}) lies outside region {} of {} bytes",
                                         s.offset, s.length, s.region, size));
    }
    resolved->segments.push_back(
        region->memory->bytes().subspan(region->offset + s.offset, s.length));
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
  for (const auto& [id, region] : regions_) bytes += region.memory->size() - region.offset;
  return bytes;
}

uint64_t Session::registered_bytes() const {
  std::lock_guard lock(mutex_);
  uint64_t bytes = 0;
  for (const auto& [id, region] : regions_)
    if (region.shared && region.shared->registered())
      bytes += region.memory->size() - region.offset;
  return bytes;
}

}  // namespace peercache
