#include "base/checksum.h"

#include "base/checksum_pieces.h"

#if defined(__x86_64__) && !defined(__clang__) && __has_include(<sys/platform/x86.h>)
#include <sys/platform/x86.h>
#define PEERCACHE_HAS_AVX2() CPU_FEATURE_ACTIVE(AVX2)
#elif defined(__x86_64__)
#define PEERCACHE_HAS_AVX2() __builtin_cpu_supports("avx2")
#endif

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
  // What the C library goes by, and GLIBC_TUNABLES can take away: under user-mode Linux wide
  // registers do not survive a change of threads.
  if (PEERCACHE_HAS_AVX2()) return ChecksumOfPiecesAvx2(SegmentAt, &segments, segments.size());
#endif
  return ChecksumOfPieces(SegmentAt, &segments, segments.size());
}

uint64_t Checksum(std::span<const std::byte> bytes) { return Checksum(Segments(&bytes, 1)); }

}  // namespace peercache
