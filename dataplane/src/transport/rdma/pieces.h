// Pieces: how a page is cut into READs. A READ takes a contiguous range of the holder's pool and
// scatters it over several segments here; it is bounded in segments and bytes, and neither end may
// cross a border between two registered chunks. Pure.
//
// The first 64 bytes that are read are the slot's header; they land in scratch memory, the rest in
// the page's own segments. The page's last READ brings the header again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/copy.h"
#include "transport/rdma/memory.h"

namespace peercache::rdma {

// A part of a piece's destination, within one registered chunk.
struct LocalSegment {
  const Registration* range = nullptr;
  std::byte* at = nullptr;
  uint32_t chunk = 0;
  uint32_t bytes = 0;
};

// One READ.
struct Piece {
  uint64_t offset = 0;  // in the holder's pool
  uint32_t chunk = 0;   // of the holder's pool
  uint32_t bytes = 0;
  uint32_t page = 0;
  uint32_t first = 0;  // segments [first, first + count) of the cut
  uint32_t count = 0;
  bool again = false;  // the header, after the page
};

struct CutLimits {
  uint32_t segments = 1;
  uint32_t bytes = 0;        // of one READ, as the devices bound it
  uint64_t chunk_bytes = 0;  // of the holder's pool
};

struct Cut {
  std::vector<Piece> pieces;
  std::vector<LocalSegment> segments;
};

// Where a page's header lands, as long as each other; both are empty where none is read.
struct HeaderPlaces {
  Bytes first, again;
};

// Appends the READs of page number `page`, whose slot begins at `offset` of the holder's pool, to
// `cut`. False, appending nothing, when some of the memory is not in `ranges`.
bool CutPage(uint32_t page, uint64_t offset, const HeaderPlaces& header,
             std::span<const Bytes> segments, const CutLimits& limits,
             const RegisteredMemory::Ranges& ranges, Cut* cut);

}  // namespace peercache::rdma
