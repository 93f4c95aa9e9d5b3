#include "base/checksum.h"

#include "base/checksum_pieces.h"

namespace peercache {
namespace {

using Segments = std::span<const std::span<const std::byte>>;

ChecksumPiece SegmentAt(const void* context, size_t i) {
  const auto& segment = (*static_cast<const Segments*>(context))[i];
  return {segment.data(), segment.size()};
}

}  // namespace

uint64_t Checksum(Segments segments) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2"))
    return ChecksumOfPiecesAvx2(SegmentAt, &segments, segments.size());
#endif
  return ChecksumOfPieces(SegmentAt, &segments, segments.size());
}

uint64_t Checksum(std::span<const std::byte> bytes) { return Checksum(Segments(&bytes, 1)); }

}  // namespace peercache
