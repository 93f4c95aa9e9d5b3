#include "transport/rdma/pieces.h"

#include <algorithm>

namespace peercache::rdma {
namespace {

// Large pages go in parts of about this size, so that several rails can share one; a part takes
// long enough (20 us at 400 Gb/s) that one READ more or less does not count.
constexpr uint64_t kPart = 1 << 20;

}  // namespace

bool CutPage(uint32_t page, uint64_t offset, const HeaderPlaces& header,
             std::span<const Bytes> segments, const CutLimits& limits,
             const RegisteredMemory::Ranges& ranges, Cut* cut) {
  const size_t pieces_before = cut->pieces.size(), segments_before = cut->segments.size();
  const uint64_t slot = offset, total = header.first.size() + TotalSize(segments);
  const uint64_t parts = std::max<uint64_t>(1, (total + kPart / 2) / kPart);
  const uint64_t part = std::min<uint64_t>((total + parts - 1) / parts, limits.bytes);

  Piece piece{.page = page};
  const auto finish = [&] {
    if (piece.count > 0) cut->pieces.push_back(piece);
    piece = {.page = page, .again = piece.again};
  };
  const Registration* range = nullptr;  // most often the one of the segment before
  const auto add = [&](Bytes bytes) {
    if (bytes.empty()) return true;
    if (range == nullptr || bytes.data() < range->bytes().data() ||
        bytes.data() + bytes.size() > range->bytes().data() + range->bytes().size()) {
      range = RegisteredMemory::Find(ranges, bytes);
    }
    if (range == nullptr) return false;
    while (!bytes.empty()) {
      if (piece.count == limits.segments || piece.bytes >= part ||
          (piece.count > 0 && offset % limits.chunk_bytes == 0)) {
        finish();
      }
      if (piece.count == 0) {
        piece.offset = offset;
        piece.chunk = static_cast<uint32_t>(offset / limits.chunk_bytes);
        piece.first = static_cast<uint32_t>(cut->segments.size());
      }
      const uint64_t most = std::min({uint64_t{bytes.size()}, part - piece.bytes,
                                      uint64_t{range->LeftInChunk(bytes.data())},
                                      limits.chunk_bytes - offset % limits.chunk_bytes});
      const auto taken = static_cast<uint32_t>(most);
      cut->segments.push_back(
          {range, bytes.data(), static_cast<uint32_t>(range->ChunkOf(bytes.data())), taken});
      ++piece.count;
      piece.bytes += taken;
      offset += taken;
      bytes = bytes.subspan(taken);
    }
    return true;
  };
  bool good = add(header.first);
  for (const Bytes& segment : segments) good = good && add(segment);
  finish();
  piece.again = true;
  offset = slot;
  good = good && add(header.again);
  finish();
  if (!good) {
    cut->pieces.resize(pieces_before);
    cut->segments.resize(segments_before);
  }
  return good;
}

}  // namespace peercache::rdma
