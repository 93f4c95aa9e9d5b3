#include "node/report/metrics_markdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "node/report/metric_families.h"

namespace peercache {
namespace {

constexpr char kHead[] = R"(# Metrics

<!-- Written by `make generate-metrics-doc` from dataplane/src/node/report/metric_families*.cc; do not edit. -->

Every node shows these at `/metrics` of its HTTP port (`http-port`, 31997), in Prometheus text format. Counters begin at
the start of the process. No label ever names a peer, an engine or a key, so the number of series of a node is fixed (some
are per rail): it does not grow with the cluster or its users.

Observing costs an engine's call a few clock reads and atomic additions per stage; no lock is taken and nothing is
allocated. Each family below comes with its labels, all values of these, and what it means. What to do about what they
show is in [monitoring.md](monitoring.md).
)";

constexpr char kFormer[] = R"(
## Dashboards of the original PeerCache

Its names, and what to ask for now:

| before | now |
|---|---|
)";

const char* TypeName(MetricType type) {
  switch (type) {
    case MetricType::kCounter: return "counter";
    case MetricType::kGauge: return "gauge";
    case MetricType::kHistogram: return "histogram";
  }
  return "unknown";
}

// In a table, a bar ends the cell, also within `code`.
std::string Cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// Values of several labels belong together (not every stage is one of every op), so they are listed
// as they occur: "op/stage: `set`/`copy`, ...".
std::string Labels(const MetricFamily& family) {
  if (family.labels.empty()) return "";
  std::vector<std::string> values;
  for (const Series& series : family.series) {
    // The first may only be described.
    const bool known = !series.named && !series.each_rail && !series.each_tenant;
    std::string text = known ? fmt::format("`{}`", series.values.front()) : series.values.front();
    for (size_t i = 1; i < series.values.size(); ++i)
      text += fmt::format("/`{}`", series.values[i]);
    values.push_back(std::move(text));
  }
  return fmt::format("`{}`: {}", fmt::join(family.labels, "`/`"), fmt::join(values, ", "));
}

}  // namespace

std::string MetricsMarkdown() {
  std::string page = kHead;
  page += "\n## Questions\n\n| question | PromQL |\n|---|---|\n";
  for (const MetricSection& section : MetricSections())
    for (const MetricFamily& family : section.families)
      if (*family.question != '\0')
        page += fmt::format("| {} | `{}` |\n", Cell(family.question), Cell(family.query));
  for (const MetricSection& section : MetricSections()) {
    page += fmt::format("\n## {}\n\n", section.title);
    if (*section.about != '\0') page += fmt::format("{}\n\n", section.about);
    page += "| metric | type | labels | meaning |\n|---|---|---|---|\n";
    for (const MetricFamily& family : section.families)
      page += fmt::format("| `{}` | {} | {} | {} |\n", family.name, TypeName(family.type),
                          Labels(family), Cell(family.help));
  }
  page += kFormer;
  for (const FormerMetric& former : FormerMetrics())
    page += fmt::format("| `{}` | `{}` |\n", Cell(former.name), Cell(former.now));
  return page;
}

}  // namespace peercache
