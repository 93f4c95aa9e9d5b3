// Regions: the memory that a client has registered, in the order in which it was, and which session
// of a node knows it. They outlive sessions: each new one is told of them again.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "client/segment.h"
#include "wire/messages.h"

namespace peercache {

struct Region {
  uint32_t id = 0;
  UniqueFd fd{};  // none: device memory by its address in this process
  uint64_t base = 0, length = 0, fd_offset = 0;
  bool dma_buf = false;
  uint64_t offered = 0;  // the last session that was told of it; 0: none
  bool taken = false;    // by that session
  bool staging = false;  // the client's own, which no engine has registered

  bool Overlaps(uint64_t address, uint64_t size) const {
    return base < address + size && address < base + length;
  }
  bool KnownTo(uint64_t session) const { return taken && offered == session; }
};

class Regions {
 public:
  // Adds a region. Whatever was mapped at its addresses before is mapped there no more, and pages
  // must not go to it: those regions leave. Of these, the ids of the ones that `session` knows are
  // returned, for it to forget them.
  std::vector<uint32_t> Add(Region region, uint64_t session);
  // Whether the region was there and `session` knows it.
  bool Remove(uint32_t id, uint64_t session);
  // The ids of the regions of host memory that engines have registered within these addresses.
  // None, and the region in `*cut`, where one of them lies there in part.
  std::vector<uint32_t> Within(uint64_t address, uint64_t length, const Region** cut) const;

  // A copy of the first region that `session` was not told of, with a descriptor of its own.
  Result<std::optional<Region>> NextFor(uint64_t session) const;
  // What `session` answered; false when the region has left meanwhile.
  bool Answered(uint32_t id, uint64_t session, bool taken);

  // Of a page: all in host memory that `session` knows, all in such device memory, neither, and
  // what must not be touched here since some of it is device memory.
  enum class Place : uint8_t { kHost, kDevice, kUnknown, kNowhere };
  Place Locate(uint64_t session, std::span<const Segment> segments,
               std::span<WireSegment> wire) const;

  size_t size() const { return regions_.size(); }
  uint64_t bytes() const;

 private:
  std::vector<Region> regions_;
};

}  // namespace peercache
