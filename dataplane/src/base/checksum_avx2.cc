// Compiled with -mavx2 where there is such a thing; checksum.cc calls it where the processor has
// it.
#if defined(__AVX2__)
#include "base/checksum_pieces.h"

namespace peercache {

uint64_t ChecksumOfPiecesAvx2(PieceAt piece_at, const void* context, size_t count) {
  return ChecksumOfPieces(piece_at, context, count);
}

}  // namespace peercache
#endif
