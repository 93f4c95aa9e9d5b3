// Destinations: where the pages of one batch go, in memory that engines share: page i is made of
// segments [i * per_page, (i + 1) * per_page).
//
// The engine may take its memory back at any time (base/permit.h). So whoever writes into a page,
// or has something written there, does it inside of a Permit::Use, and refuses to when there is
// none; and what was read from a page counts only if the permit is not revoked() afterwards.
#pragma once

#include <cstddef>
#include <span>

#include "base/copy.h"
#include "base/permit.h"

namespace peercache {

struct Destinations {
  std::span<const Bytes> segments;
  size_t per_page = 1;
  const Permit* permit = nullptr;  // null: memory that nobody takes back
  // Some of the segments are addresses of device memory that only READs of the rails reach.
  bool unmapped = false;

  std::span<const Bytes> Of(size_t page) const {
    return segments.subspan(page * per_page, per_page);
  }
  size_t SizeOf(size_t page) const { return TotalSize(Of(page)); }
  bool revoked() const { return permit != nullptr && permit->revoked(); }
};

}  // namespace peercache
