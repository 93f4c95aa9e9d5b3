// The table of metrics keeps its own rules; the page made from it shows all of it.
#include "node/report/metric_families.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <string_view>

#include "node/report/metrics_markdown.h"

namespace peercache {
namespace {

std::vector<const MetricFamily*> AllFamilies() {
  std::vector<const MetricFamily*> all;
  for (const MetricSection& section : MetricSections())
    for (const MetricFamily& family : section.families) all.push_back(&family);
  return all;
}

bool IsName(std::string_view name) {
  return !name.empty() && name.front() != '_' && name.back() != '_' &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return std::islower(c) || std::isdigit(c) || c == '_';
         });
}

// Names of metrics in a query.
std::vector<std::string> NamesIn(std::string_view query) {
  std::vector<std::string> names;
  for (size_t at = query.find("peercache_"); at != query.npos; at = query.find("peercache_", at)) {
    size_t end = at;
    while (end < query.size() && IsName(query.substr(at, 1)) &&
           (std::isalnum(static_cast<unsigned char>(query[end])) || query[end] == '_'))
      ++end;
    names.emplace_back(query.substr(at, end - at));
    at = end;
  }
  return names;
}

// What a query may name: families, and of histograms their parts only.
std::set<std::string> Queryable() {
  std::set<std::string> names;
  for (const MetricFamily* family : AllFamilies()) {
    const std::string name = family->name;
    if (family->type == MetricType::kHistogram) {
      for (const char* part : {"_bucket", "_count", "_sum"}) names.insert(name + part);
    } else {
      names.insert(name);
    }
  }
  return names;
}

TEST(MetricFamiliesTest, NamesFollowPrometheusConventions) {
  for (const MetricFamily* family : AllFamilies()) {
    SCOPED_TRACE(family->name);
    const std::string_view name = family->name;
    EXPECT_TRUE(IsName(name));
    EXPECT_TRUE(name.starts_with("peercache_") || name.starts_with("process_"));
    EXPECT_EQ(name.ends_with("_total"), family->type == MetricType::kCounter);
    for (const char* reserved : {"_count", "_sum", "_bucket"})
      EXPECT_FALSE(name.ends_with(reserved));
    for (const char* other : {"_ms", "_millis", "_milliseconds", "_us", "_micros", "_nanos", "_ns",
                              "_kb", "_mb", "_mib", "_gib", "_percent", "_minutes"}) {
      EXPECT_FALSE(name.ends_with(other)) << "base units: seconds, bytes, ratios";
      EXPECT_EQ(name.find(std::string(other) + "_"), name.npos);
    }
    if (family->type == MetricType::kHistogram) {
      EXPECT_TRUE(name.ends_with("_seconds"));
    }
  }
}

TEST(MetricFamiliesTest, EveryFamilyHasOneNameAHelpTextAndItsSeries) {
  std::set<std::string> names;
  for (const MetricFamily* family : AllFamilies()) {
    SCOPED_TRACE(family->name);
    EXPECT_TRUE(names.insert(family->name).second) << "listed twice";
    const std::string_view help = family->help;
    EXPECT_GE(help.size(), 10u);
    EXPECT_FALSE(std::islower(static_cast<unsigned char>(help.front())));
    EXPECT_EQ(help.back(), '.');
    EXPECT_EQ(help.find('\n'), help.npos);
    EXPECT_FALSE(family->series.empty());
    EXPECT_EQ(*family->question == '\0', *family->query == '\0');
    std::set<std::vector<std::string>> values;
    for (const Series& series : family->series) {
      EXPECT_EQ(series.values.size(), family->labels.size());
      EXPECT_TRUE(values.insert(series.values).second) << "the same labels twice";
      const bool histogram = family->type == MetricType::kHistogram;
      EXPECT_EQ(series.histogram != nullptr || series.each_drive_times, histogram);
      const bool of_each =
          series.each_rail || series.each_tenant || series.each_drive || series.each_drive_times;
      EXPECT_EQ(series.number != nullptr || (of_each && !series.each_drive_times), !histogram);
      if (series.named) {
        EXPECT_TRUE(std::string_view(family->name).ends_with("_info"));
        EXPECT_EQ(family->series.size(), 1u);
        EXPECT_EQ(family->labels.size(), 1u);
      } else if (of_each) {
        ASSERT_FALSE(family->labels.empty());
        EXPECT_STREQ(family->labels.front(), series.each_rail     ? "rail"
                                             : series.each_tenant ? "tenant"
                                                                  : "path");
        for (size_t i = 1; i < series.values.size(); ++i)
          EXPECT_TRUE(IsName(series.values[i])) << series.values[i];
      } else {
        for (const std::string& value : series.values) EXPECT_TRUE(IsName(value)) << value;
      }
    }
    for (const char* label : family->labels) EXPECT_TRUE(IsName(label)) << label;
  }
}

TEST(MetricFamiliesTest, QueriesNameMetricsThatExist) {
  const auto queryable = Queryable();
  const auto check = [&](std::string_view query) {
    for (const std::string& name : NamesIn(query))
      EXPECT_TRUE(queryable.contains(name)) << name << " in " << query;
  };
  for (const MetricFamily* family : AllFamilies()) check(family->query);
  for (const FormerMetric& former : FormerMetrics()) {
    check(former.now);
    EXPECT_FALSE(NamesIn(former.now).empty()) << former.name;
  }
}

TEST(MetricFamiliesTest, ThePageShowsEveryFamilyWithAllItsValues) {
  const std::string page = MetricsMarkdown();
  for (const MetricFamily* family : AllFamilies()) {
    const size_t row = page.find("\n| `" + std::string(family->name) + "` |");
    ASSERT_NE(row, page.npos) << family->name;
    const std::string line = page.substr(row + 1, page.find('\n', row + 1) - row - 1);
    for (const Series& series : family->series)
      for (const std::string& value : series.values)
        EXPECT_NE(line.find(value), line.npos) << family->name << " " << value;
  }
}

}  // namespace
}  // namespace peercache
