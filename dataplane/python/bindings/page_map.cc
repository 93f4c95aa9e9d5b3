#include "bindings/page_map.h"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <tuple>

namespace py = pybind11;

namespace peercache::bindings {
namespace {

py::tuple Make(int64_t page_rows, int64_t rows,
               const std::vector<std::tuple<uint64_t, int64_t, uint64_t>>& places) {
  std::vector<PageMap::Place> taken;
  for (const auto& [base, stride, size] : places) taken.push_back({base, stride, size});
  auto map = PageMap::Create(page_rows, rows, std::move(taken));
  if (!map.ok()) return py::make_tuple(py::none(), map.status().message());
  return py::make_tuple(std::move(map.value()), "");
}

py::object SegmentsOf(const PageMap& map, uint64_t address, size_t count) {
  const auto segments = map.Segments({reinterpret_cast<const int64_t*>(address), count});
  if (!segments) return py::none();
  py::list ptrs(segments->size()), sizes(segments->size());
  for (size_t i = 0; i < segments->size(); ++i) {
    ptrs[i] = py::int_((*segments)[i].address);
    sizes[i] = py::int_((*segments)[i].length);
  }
  return py::make_tuple(ptrs, sizes);
}

}  // namespace

Result<PageMap> PageMap::Create(int64_t page_rows, int64_t rows, std::vector<Place> places) {
  if (page_rows < 1 || rows < page_rows || places.empty()) {
    return InvalidArgument(fmt::format("no pages: {} rows, {} in a page of {} segments", rows,
                                       page_rows, places.size()));
  }
  return PageMap(page_rows, rows, std::move(places));
}

std::optional<std::vector<Segment>> PageMap::Segments(std::span<const int64_t> rows) const {
  const auto page_rows = static_cast<size_t>(page_rows_);
  if (rows.size() % page_rows != 0) return std::nullopt;
  std::vector<Segment> segments;
  segments.reserve(rows.size() / page_rows * places_.size());
  for (size_t at = 0; at < rows.size(); at += page_rows) {
    const int64_t start = rows[at];
    if (start < 0 || start > rows_ - page_rows_ || start % page_rows_ != 0) return std::nullopt;
    for (const Place& place : places_)
      segments.push_back({place.base + static_cast<uint64_t>(start * place.stride), place.size});
  }
  return segments;
}

void BindPageMap(py::module_* module) {
  py::class_<PageMap>(*module, "PageMap")
      .def_property_readonly("page_rows", &PageMap::page_rows)
      .def("segments", &SegmentsOf, py::arg("rows"), py::arg("count"),
           "(ptrs, sizes) of the pages whose rows are the `count` int64 at address `rows`; None "
           "when they are not whole pages of the pool.");
  module->def("page_map", &Make, py::arg("page_rows"), py::arg("rows"), py::arg("places"),
              "The map of a pool with these (base, stride, size) of a page's segments: "
              "(PageMap, \"\") or (None, reason).");
}

}  // namespace peercache::bindings
