// eviction-replay TRACE... --json FILE: hit ratios of the eviction policies on traces, at several
// pool sizes, as a table on the terminal and as JSON for plot.py.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>

#include "bench/eviction/replay.h"

namespace {

using namespace peercache;
using namespace peercache::bench;

struct Row {
  double share = 0;
  ReplayResult lru, s3fifo, best;
};

Result<Row> RunShare(const Trace& trace, double share) {
  auto lru = Replay(trace, share, EvictionPolicy::kLru);
  if (!lru.ok()) return lru.status();
  auto s3fifo = Replay(trace, share, EvictionPolicy::kS3Fifo);
  if (!s3fifo.ok()) return s3fifo.status();
  return Row{share, *lru, *s3fifo, ReplayBest(trace, lru->capacity)};
}

nlohmann::json ToJson(const ReplayResult& r) {
  return {{"page_hit_ratio", r.page_ratio()},
          {"prefix_hit_ratio", r.prefix_ratio()},
          {"evictions", r.evictions},
          {"seconds", r.seconds}};
}

nlohmann::json ToJson(const std::string& name, const Trace& trace, const std::vector<Row>& rows) {
  nlohmann::json sizes = nlohmann::json::array();
  for (const Row& row : rows)
    sizes.push_back({{"share", row.share},
                     {"capacity_pages", row.lru.capacity},
                     {"lru", ToJson(row.lru)},
                     {"s3fifo", ToJson(row.s3fifo)},
                     {"best", ToJson(row.best)}});
  return {{"trace", name},
          {"origin", trace.origin},
          {"requests", trace.requests.size()},
          {"footprint_pages", trace.footprint},
          {"pages_asked", rows.empty() ? 0 : rows[0].lru.pages},
          {"sizes", sizes}};
}

void Print(const std::string& name, const Trace& trace, const std::vector<Row>& rows) {
  fmt::print(
      "\n{}: {} requests for {} pages, {} of them distinct\n"
      "              page hits, %             prefix hits, %\n"
      "   pool      lru   s3fifo   best       lru   s3fifo\n",
      name, trace.requests.size(), rows.empty() ? 0 : rows[0].lru.pages, trace.footprint);
  for (const Row& row : rows)
    fmt::print("{:5.1f} %   {:6.2f}   {:6.2f} {:6.2f}    {:6.2f}   {:6.2f}\n", 100 * row.share,
               100 * row.lru.page_ratio(), 100 * row.s3fifo.page_ratio(),
               100 * row.best.page_ratio(), 100 * row.lru.prefix_ratio(),
               100 * row.s3fifo.prefix_ratio());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Hit ratios of the eviction policies on traces of sessions.py."};
  std::vector<std::string> paths;
  std::vector<double> shares = {0.01, 0.02, 0.05, 0.1, 0.2};
  std::string json_path;
  app.add_option("traces", paths, "Traces")->required();
  app.add_option("--shares", shares, "Pool sizes, as shares of a trace's distinct pages")
      ->check(CLI::Range(0.0001, 1.0));
  app.add_option("--json", json_path, "Where the results go as JSON");
  CLI11_PARSE(app, argc, argv);
  spdlog::set_level(spdlog::level::warn);

  nlohmann::json document = nlohmann::json::array();
  for (const std::string& path : paths) {
    const auto trace = ReadTrace(path);
    if (!trace.ok()) {
      fmt::print(stderr, "error: {}\n", trace.status().message());
      return 2;
    }
    std::vector<std::future<Result<Row>>> running;
    for (double share : shares)
      running.push_back(
          std::async(std::launch::async, [&trace, share] { return RunShare(*trace, share); }));
    std::vector<Row> rows;
    for (auto& future : running) {
      auto row = future.get();
      if (!row.ok()) {
        fmt::print(stderr, "error: {}: {}\n", path, row.status().message());
        return 1;
      }
      rows.push_back(*row);
    }
    const std::string name = std::filesystem::path(path).stem();
    Print(name, *trace, rows);
    document.push_back(ToJson(name, *trace, rows));
  }
  if (!json_path.empty()) {
    std::ofstream file(json_path);
    file << document.dump(2) << "\n";
    if (!file.flush()) {
      fmt::print(stderr, "error: {} cannot be written\n", json_path);
      return 1;
    }
  }
  return 0;
}
