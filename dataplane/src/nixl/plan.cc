#include "nixl/plan.h"

#include <algorithm>
#include <cstring>

namespace peercache::nixl {
namespace {

// Bytes of the page, and where they go; 0: to scratch memory.
struct Piece {
  uint64_t offset = 0, length = 0, address = 0;
};

// False where a range is empty or ends behind the object. Sorts them by their offsets.
bool Order(uint64_t* length, std::vector<Range>* ranges) {
  std::ranges::sort(*ranges, {}, &Range::offset);
  uint64_t reach = 0;
  for (const Range& range : *ranges) {
    uint64_t end = 0;
    if (range.length == 0 || __builtin_add_overflow(range.offset, range.length, &end)) return false;
    reach = std::max(reach, end);
  }
  if (*length == 0) *length = reach;
  return reach != 0 && reach <= *length;
}

uint64_t AddressOf(const std::byte* at) { return reinterpret_cast<uint64_t>(at); }

// The bytes [begin, end) of the page, from where they went, to `to`.
void AddCopies(const std::vector<Piece>& pieces, uint64_t begin, uint64_t end, uint64_t to,
               std::vector<Copy>* copies) {
  auto piece = std::ranges::upper_bound(pieces, begin, {}, &Piece::offset) - 1;
  for (; begin < end; ++piece) {
    const uint64_t inside = begin - piece->offset;
    const uint64_t length = std::min(piece->length - inside, end - begin);
    copies->push_back({piece->address + inside, to, length});
    begin += length;
    to += length;
  }
}

}  // namespace

void Plan::Copied() const {
  for (const Copy& copy : copies) {
    // Ranges of one request may be the same memory.
    std::memmove(reinterpret_cast<void*>(copy.to), reinterpret_cast<const void*>(copy.from),
                 copy.length);
  }
}

std::optional<Plan> PlanRead(uint64_t length, std::vector<Range> ranges) {
  const bool knows_length = length != 0;
  if (!Order(&length, &ranges)) return std::nullopt;
  std::vector<Piece> pieces;
  std::vector<Range> shared;  // parts of ranges that earlier ones want, too
  uint64_t reached = 0, unwanted = 0;
  const auto skip_to = [&](uint64_t offset) {
    if (offset == reached) return;
    pieces.push_back({reached, offset - reached, 0});
    unwanted += offset - reached;
    reached = offset;
  };
  for (const Range& range : ranges) {
    const uint64_t end = range.offset + range.length;
    if (range.offset > reached) skip_to(range.offset);
    const uint64_t known = std::min(end, reached) - range.offset;
    if (known > 0) shared.push_back({range.offset, known, range.address});
    if (end > reached) {
      pieces.push_back({reached, end - reached, range.address + known});
      reached = end;
    }
  }
  skip_to(length);
  if (unwanted > 0 && !knows_length) return std::nullopt;
  Plan plan;
  if (pieces.size() > PC_MAX_IOVS) {  // all of the page goes to scratch memory
    pieces.assign(1, {0, length, 0});
    shared = std::move(ranges);
    unwanted = length;
  }
  if (unwanted > 0) plan.scratch = std::make_unique_for_overwrite<std::byte[]>(unwanted);
  const std::byte* scratch = plan.scratch.get();
  for (Piece& piece : pieces) {
    if (piece.address == 0) {
      piece.address = AddressOf(scratch);
      scratch += piece.length;
    }
    plan.iovs.push_back({piece.address, piece.length});
  }
  for (const Range& range : shared)
    AddCopies(pieces, range.offset, range.offset + range.length, range.address, &plan.copies);
  return plan;
}

std::optional<Plan> PlanWrite(uint64_t length, std::vector<Range> ranges) {
  if (!Order(&length, &ranges) || ranges.size() > PC_MAX_IOVS) return std::nullopt;
  Plan plan;
  uint64_t reached = 0;
  for (const Range& range : ranges) {
    if (range.offset != reached) return std::nullopt;
    plan.iovs.push_back({range.address, range.length});
    reached += range.length;
  }
  if (reached != length) return std::nullopt;
  return plan;
}

}  // namespace peercache::nixl
