// PageMap: where the pages of a host pool lie. Segment s of the page that starts at row r is
// sizes[s] bytes at bases[s] + r * strides[s].
//
//   const auto segments = map.Segments(rows);     // nothing: not whole pages of this pool
//
// Immutable, so thread-safe.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "client/client.h"

namespace peercache::bindings {

class PageMap {
 public:
  struct Place {
    uint64_t base = 0;
    int64_t stride = 0;  // bytes a row
    uint64_t size = 0;
  };

  // `rows`: of the pool; a page starts at every `page_rows`-th.
  static Result<PageMap> Create(int64_t page_rows, int64_t rows, std::vector<Place> places);

  int64_t page_rows() const { return page_rows_; }
  size_t per_page() const { return places_.size(); }
  // `rows` are those of whole pages, page after page.
  std::optional<std::vector<Segment>> Segments(std::span<const int64_t> rows) const;

 private:
  PageMap(int64_t page_rows, int64_t rows, std::vector<Place> places)
      : page_rows_(page_rows), rows_(rows), places_(std::move(places)) {}

  int64_t page_rows_, rows_;
  std::vector<Place> places_;
};

void BindPageMap(pybind11::module_* module);

}  // namespace peercache::bindings
