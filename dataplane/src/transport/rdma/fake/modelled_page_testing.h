// The table of modelled figures in docs/dev/rdma.md: what modelled_test.cc prints, copied there.
#pragma once

#include <fmt/format.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace peercache::rdma {

// What was modelled, beside the limit of the model.
struct ModelledRow {
  std::string what;
  double rate = 0, limit = 0;  // GB/s
  double share = 0;
  size_t lost = 0;       // queue pairs
  std::string reported;  // by the original PeerCache, of hardware; empty: nothing like it

  static constexpr char kHead[] =
      "| modelled, not measured | GB/s | limit of the model | share | queue pairs lost | the "
      "original "
      "reports |";
  std::string Line() const {
    return fmt::format("| {} | {:.1f} | {:.1f} | {:.2f} | {} | {} |", what, rate, limit, share,
                       lost, reported);
  }
};

// Of the page; empty where it has no such table.
inline std::vector<ModelledRow> ReadModelledRows(const std::string& page) {
  std::ifstream in(page);
  std::string line;
  while (std::getline(in, line) && line != ModelledRow::kHead) {
  }
  std::getline(in, line);  // |---|
  std::vector<ModelledRow> rows;
  while (std::getline(in, line) && line.starts_with("| ")) {
    const size_t end = line.find(" | ");
    if (end == std::string::npos) break;
    ModelledRow row;
    row.what = line.substr(2, end - 2);
    std::istringstream cells(line.substr(end));
    char bar;
    cells >> bar >> row.rate >> bar >> row.limit >> bar >> row.share >> bar >> row.lost;
    if (!cells) break;
    std::getline(cells >> bar >> std::ws, row.reported, '|');
    if (row.reported.ends_with(' ')) row.reported.pop_back();
    rows.push_back(row);
  }
  return rows;
}

}  // namespace peercache::rdma
