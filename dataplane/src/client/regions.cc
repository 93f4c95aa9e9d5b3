#include "client/regions.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace peercache {

std::vector<uint32_t> Regions::Add(Region region, uint64_t session) {
  std::vector<uint32_t> known;
  std::erase_if(regions_, [&](const Region& old) {
    const bool overlaps = old.Overlaps(region.base, region.length);
    if (overlaps && old.KnownTo(session)) known.push_back(old.id);
    return overlaps;
  });
  regions_.push_back(std::move(region));
  return known;
}

bool Regions::Remove(uint32_t id, uint64_t session) {
  bool known = false;
  std::erase_if(regions_, [&](const Region& r) {
    if (r.id == id) known = r.KnownTo(session);
    return r.id == id;
  });
  return known;
}

std::vector<uint32_t> Regions::Within(uint64_t address, uint64_t length, const Region** cut) const {
  std::vector<uint32_t> ids;
  *cut = nullptr;
  for (const Region& r : regions_) {
    if (r.staging || r.dma_buf || !r.Overlaps(address, length)) continue;
    if (r.base < address || r.length > length - (r.base - address)) {
      *cut = &r;
      return {};
    }
    ids.push_back(r.id);
  }
  return ids;
}

Result<std::optional<Region>> Regions::NextFor(uint64_t session) const {
  const auto next =
      std::ranges::find_if(regions_, [&](const Region& r) { return r.offered != session; });
  if (next == regions_.end()) return std::optional<Region>();
  UniqueFd fd(next->fd ? fcntl(next->fd.get(), F_DUPFD_CLOEXEC, 0) : -1);
  if (next->fd && !fd) return FromErrno("duplicating the descriptor of shared memory", errno);
  return std::optional<Region>(Region{.id = next->id,
                                      .fd = std::move(fd),
                                      .base = next->base,
                                      .length = next->length,
                                      .fd_offset = next->fd_offset,
                                      .dma_buf = next->dma_buf,
                                      .staging = next->staging});
}

bool Regions::Answered(uint32_t id, uint64_t session, bool taken) {
  const auto region = std::ranges::find(regions_, id, &Region::id);
  if (region == regions_.end()) return false;
  region->offered = session;
  region->taken = taken;
  return true;
}

Regions::Place Regions::Locate(uint64_t session, std::span<const Segment> segments,
                               std::span<WireSegment> wire) const {
  const auto unknown = [&] {
    for (const Segment& s : segments)
      for (const Region& r : regions_)
        if (r.dma_buf && r.Overlaps(s.address, s.length)) return Place::kNowhere;
    return Place::kUnknown;
  };
  std::optional<bool> device;
  for (size_t i = 0; i < segments.size(); ++i) {
    const Segment& s = segments[i];
    const auto region = std::ranges::find_if(regions_, [&](const Region& r) {
      return s.address >= r.base && s.address - r.base <= r.length &&
             s.length <= r.length - (s.address - r.base);
    });
    if (region == regions_.end() || !region->KnownTo(session) || s.length > UINT32_MAX)
      return unknown();
    if (device.value_or(region->dma_buf) != region->dma_buf) return unknown();
    device = region->dma_buf;
    wire[i] = {s.address - region->base, region->id, static_cast<uint32_t>(s.length)};
  }
  return device.value_or(false) ? Place::kDevice : Place::kHost;
}

uint64_t Regions::bytes() const {
  uint64_t bytes = 0;
  for (const Region& r : regions_) bytes += r.length;
  return bytes;
}

}  // namespace peercache
