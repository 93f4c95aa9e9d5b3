#include "node/report/metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <limits>
#include <utility>

#include "node/report/metric_families.h"

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

prometheus::ClientMetric::Histogram Export(const LatencyCounts& from) {
  prometheus::ClientMetric::Histogram histogram;
  for (size_t b = 0; b <= LatencyCounts::kBounds; ++b) {
    histogram.sample_count += from.buckets[b];
    const bool last = b == LatencyCounts::kBounds;
    histogram.bucket.push_back(
        {histogram.sample_count,
         last ? std::numeric_limits<double>::infinity() : LatencyCounts::BoundSeconds(b)});
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
    case MetricType::kHistogram:
      metric.histogram = Export((scrape.counters->*series.histogram).counts());
  }
  return metric;
}

// One line for a rail, a tenant or a drive, whose name is the value of the first label.
prometheus::ClientMetric Named(const MetricFamily& family, const Series& series,
                               const std::string& name) {
  prometheus::ClientMetric metric;
  metric.label.push_back({family.labels.front(), name});
  for (size_t l = 1; l < family.labels.size(); ++l)
    metric.label.push_back({family.labels[l], series.values[l]});
  return metric;
}

void ExportNamed(const MetricFamily& family, const Series& series, const std::string& name,
                 double value, std::vector<prometheus::ClientMetric>* to) {
  prometheus::ClientMetric metric = Named(family, series, name);
  (family.type == MetricType::kCounter ? metric.counter.value : metric.gauge.value) = value;
  to->push_back(std::move(metric));
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
          for (const RailInfo& rail : scrape.fabric.rails)
            ExportNamed(family, series, rail.name, series.each_rail(rail), &exported.metric);
        } else if (series.each_tenant) {
          // An empty label would be none. No namespace has this name.
          for (const TenantInfo& tenant : scrape.tenants)
            ExportNamed(family, series, tenant.name.empty() ? "(shared)" : tenant.name,
                        series.each_tenant(tenant), &exported.metric);
        } else if (series.each_drive) {
          if (!scrape.disk) continue;
          for (const disk::DeviceHealth& drive : scrape.disk->tier.devices)
            ExportNamed(family, series, drive.path, series.each_drive(drive), &exported.metric);
        } else if (series.each_drive_times) {
          if (!scrape.disk) continue;
          for (const disk::DeviceHealth& drive : scrape.disk->tier.devices) {
            prometheus::ClientMetric metric = Named(family, series, drive.path);
            metric.histogram = Export(series.each_drive_times(drive));
            exported.metric.push_back(std::move(metric));
          }
        } else {
          exported.metric.push_back(Export(family, series, scrape));
        }
      }
      families.push_back(std::move(exported));
    }
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace peercache
