#include "node/metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <limits>
#include <utility>

#include "node/metric_families.h"

namespace peercache {
namespace {

prometheus::MetricType TypeOf(MetricType type) {
  switch (type) {
    case MetricType::kCounter: return prometheus::MetricType::Counter;
    case MetricType::kGauge: return prometheus::MetricType::Gauge;
    case MetricType::kHistogram: return prometheus::MetricType::Histogram;
  }
  return prometheus::MetricType::Untyped;
}

prometheus::ClientMetric::Histogram Export(const LatencyHistogram& from) {
  prometheus::ClientMetric::Histogram histogram;
  for (size_t b = 0; b <= LatencyHistogram::kBounds; ++b) {
    histogram.sample_count += from.InBucket(b);
    const bool last = b == LatencyHistogram::kBounds;
    histogram.bucket.push_back(
        {histogram.sample_count,
         last ? std::numeric_limits<double>::infinity() : LatencyHistogram::BoundSeconds(b)});
  }
  histogram.sample_sum = from.SumSeconds();
  return histogram;
}

prometheus::ClientMetric Export(const MetricFamily& family, const Series& series,
                                const Scrape& scrape) {
  prometheus::ClientMetric metric;
  for (size_t l = 0; l < family.labels.size(); ++l)
    metric.label.push_back(
        {family.labels[l], series.named ? series.named(scrape) : series.values[l]});
  switch (family.type) {
    case MetricType::kCounter: metric.counter.value = series.number(scrape); break;
    case MetricType::kGauge: metric.gauge.value = series.number(scrape); break;
    case MetricType::kHistogram: metric.histogram = Export(scrape.counters->*series.histogram);
  }
  return metric;
}

void ExportRails(const MetricFamily& family, const Series& series, const Scrape& scrape,
                 std::vector<prometheus::ClientMetric>* to) {
  for (const RailInfo& rail : scrape.fabric.rails) {
    prometheus::ClientMetric metric;
    metric.label.push_back({family.labels.front(), rail.name});
    for (size_t l = 1; l < family.labels.size(); ++l)
      metric.label.push_back({family.labels[l], series.values[l]});
    (family.type == MetricType::kCounter ? metric.counter.value : metric.gauge.value) =
        series.each_rail(rail);
    to->push_back(std::move(metric));
  }
}

}  // namespace

std::string MetricsText(const Scrape& scrape) {
  std::vector<prometheus::MetricFamily> families;
  for (const MetricSection& section : MetricSections()) {
    for (const MetricFamily& family : section.families) {
      prometheus::MetricFamily exported;
      exported.name = family.name;
      exported.help = family.help;
      exported.type = TypeOf(family.type);
      for (const Series& series : family.series) {
        if (series.each_rail) {
          ExportRails(family, series, scrape, &exported.metric);
        } else {
          exported.metric.push_back(Export(family, series, scrape));
        }
      }
      families.push_back(std::move(exported));
    }
  }
  return prometheus::TextSerializer().Serialize(families);
}

Metrics::Metrics(Counters* counters, std::function<Scrape()> scrape)
    : op_latency_{&counters->op_set, &counters->op_get, &counters->op_exists,
                  &counters->op_presence},
      scrape_(std::move(scrape)) {}

std::string Metrics::Text() const { return MetricsText(scrape_()); }

}  // namespace peercache
