// Destinations: where the pages of one batch go, in memory that engines share: page i is made of
// segments [i * per_page, (i + 1) * per_page).
#pragma once

#include <cstddef>
#include <span>

#include "base/copy.h"

namespace peercache {

struct Destinations {
  std::span<const Bytes> segments;
  size_t per_page = 1;

  std::span<const Bytes> Of(size_t page) const {
    return segments.subspan(page * per_page, per_page);
  }
  size_t SizeOf(size_t page) const { return TotalSize(Of(page)); }
};

}  // namespace peercache
