// Pages on this node's drives.
#include <algorithm>

#include "node/report/metric_series.h"

namespace peercache {
namespace {

// One line for each drive.
Series EachDrive(std::function<double(const disk::DeviceHealth&)> read) {
  return {{"folder of disk-path"}, {}, nullptr, {}, {}, {}, std::move(read), {}};
}
Series EachDriveTimes(disk::IoRequest::Op op, const char* name) {
  return {{"folder of disk-path", name},
          {},
          nullptr,
          {},
          {},
          {},
          {},
          [op](const disk::DeviceHealth& d) -> const LatencyCounts& { return d.counts.Of(op); }};
}
template <typename Read>
Series OfDisk(Read read, Values values = {}) {
  return Of([read](const Scrape& s) { return s.disk ? read(*s.disk) : 0; }, std::move(values));
}
Series Dropped(disk::Drop why) {
  return OfDisk([why](const DiskReport& d) { return d.dropped[static_cast<size_t>(why)]; },
                {std::string(disk::kDropNames[static_cast<size_t>(why)])});
}
Series Reads(disk::ReadOutcome how) {
  return OfDisk([how](const DiskReport& d) { return d.reads[static_cast<size_t>(how)]; },
                {std::string(disk::kReadOutcomeNames[static_cast<size_t>(how)])});
}
template <typename Reason>
std::vector<Series> ForAll(Series (*of)(Reason)) {
  std::vector<Series> all;
  for (size_t i = 0; i < static_cast<size_t>(Reason::kCount); ++i)
    all.push_back(of(static_cast<Reason>(i)));
  return all;
}
std::vector<Series> DroppedByReason() {
  std::vector<Series> all = ForAll(Dropped);
  all.push_back(OfDisk([](const DiskReport& d) { return d.overtaken_pages; }, {"overtaken"}));
  return all;
}

}  // namespace

MetricSection DiskMetrics() {
  return {
      "Disk",
      "Pages on this node's drives ([disk.md](disk.md)); all of it 0 or absent without "
      "`disk-path`.",
      {
          {"peercache_disk_pages", kGauge, "Pages on disk.", {}, {OfDisk([](const DiskReport& d) {
             return d.tier.pages;
           })}},
          {"peercache_disk_waiting_pages",
           kGauge,
           "Pages of the pool that are to be written.",
           {},
           {OfDisk([](const DiskReport& d) { return d.waiting_pages; })}},
          {"peercache_disk_up",
           kGauge,
           "1: the drive is in use; 0: it has failed, or could not be opened. /v1/status has the "
           "reason.",
           {"path"},
           {EachDrive([](const disk::DeviceHealth& d) { return d.on ? 1 : 0; })},
           "Which drives have failed?",
           "peercache_disk_up == 0"},
          {"peercache_disk_writes_paused",
           kGauge,
           "1: a write to the drive has failed, and none has worked since. Its pages are read; new "
           "ones wait, and one is tried now and then.",
           {"path"},
           {EachDrive([](const disk::DeviceHealth& d) { return d.writes_paused ? 1 : 0; })},
           "Which drives fail their writes?",
           "peercache_disk_writes_paused == 1"},
          {"peercache_disk_recovered",
           kGauge,
           "1: all that the drive had when the process started is known.",
           {"path"},
           {EachDrive([](const disk::DeviceHealth& d) { return d.recovered ? 1 : 0; })}},
          {"peercache_disk_recovery_regions",
           kGauge,
           "Regions with pages that the drive had when the process started.",
           {"path"},
           {EachDrive([](const disk::DeviceHealth& d) { return d.regions_found; })}},
          {"peercache_disk_recovery_regions_read",
           kGauge,
           "Of these, regions with known pages.",
           {"path"},
           {EachDrive([](const disk::DeviceHealth& d) { return d.regions_read; })},
           "How far is the recovery of drives? (of each drive that is not done)",
           "peercache_disk_recovery_regions_read / peercache_disk_recovery_regions < 1"},
          {"peercache_disk_capacity_bytes",
           kGauge,
           "Bytes that the drive has for pages; 0: it is off.",
           {"path"},
           {EachDrive([](const disk::DeviceHealth& d) { return d.on ? double(d.bytes) : 0; })}},
          {"peercache_disk_used_bytes",
           kGauge,
           "Of these, bytes in regions with pages.",
           {"path"},
           {EachDrive([](const disk::DeviceHealth& d) { return double(d.used_bytes()); })}},
          {"peercache_disk_read_bytes_total",
           kCounter,
           "Bytes read from the drive.",
           {"path"},
           {EachDrive([](const disk::DeviceHealth& d) { return double(d.counts.bytes_read); })}},
          {"peercache_disk_written_bytes_total",
           kCounter,
           "Bytes written to the drive, with all that the tier adds.",
           {"path"},
           {EachDrive([](const disk::DeviceHealth& d) { return double(d.counts.bytes_written); })},
           "How many bytes are written for each byte of a page?",
           "sum(rate(peercache_disk_written_bytes_total[1h])) / "
           "sum(rate(peercache_disk_page_bytes_total[1h]))"},
          {"peercache_disk_errors_total",
           kCounter,
           "Reads and writes that the drive has failed.",
           {"path"},
           {EachDrive([](const disk::DeviceHealth& d) { return double(d.counts.errors); })},
           "Which drives begin to fail?",
           "rate(peercache_disk_errors_total[15m]) > 0"},
          {"peercache_disk_io_latency_seconds",
           MetricType::kHistogram,
           "Time a request to the drive took, from when it was handed over until it ended.",
           {"path", "op"},
           {EachDriveTimes(disk::IoRequest::Op::kRead, "read"),
            EachDriveTimes(disk::IoRequest::Op::kWrite, "write"),
            EachDriveTimes(disk::IoRequest::Op::kSync, "sync")},
           "Which drives are slow? (reads, 99th percentile)",
           "histogram_quantile(0.99, sum by (instance, path, le) "
           "(rate(peercache_disk_io_latency_seconds_bucket{op=\"read\"}[5m])))"},
          {"peercache_disk_written_pages_total",
           kCounter,
           "Pages written to disk.",
           {},
           {OfDisk([](const DiskReport& d) { return d.stored_pages; })}},
          {"peercache_disk_page_bytes_total",
           kCounter,
           "Bytes of these pages.",
           {},
           {OfDisk([](const DiskReport& d) { return d.stored_bytes; })}},
          {"peercache_disk_dropped_pages_total",
           kCounter,
           "Pages that were not written, by reason: the write budget is spent (budget), it is "
           "longer than 16 MiB (length), no drive is on (off), the drive has failed to write it "
           "(write_error), it was cleared before (cleared), the index is full (index), or it was "
           "evicted before its turn came, because the drive does not keep up (overtaken).",
           {"reason"},
           DroppedByReason(),
           "Why do pages not get to disk?",
           "sum by (reason) (rate(peercache_disk_dropped_pages_total[5m])) > 0"},
          {"peercache_disk_reads_total",
           kCounter,
           "Pages asked of the drives, by how that ended. All but hit are misses.",
           {"outcome"},
           ForAll(Reads),
           "Do drives give wrong bytes?",
           "sum by (outcome) (rate(peercache_disk_reads_total{outcome=~\"checksum|error\"}[15m])) "
           "> 0"},
          {"peercache_disk_promoted_pages_total",
           kCounter,
           "Pages that came back from disk into the pool.",
           {},
           {OfDisk([](const DiskReport& d) { return d.loaded_pages; })}},
          {"peercache_disk_fetched_pages_total",
           kCounter,
           "Pages that this node got from the pools of others, which had them on disk when it "
           "asked.",
           {},
           {Of(&Counters::fetched_from_disk)}},
          {"peercache_disk_budget_bytes_a_day",
           kGauge,
           "What may be written in 24 hours (disk-write-budget); 0: unlimited.",
           {},
           {OfDisk([](const DiskReport& d) { return d.budget_a_day; })}},
          {"peercache_disk_budget_left_bytes",
           kGauge,
           "What may be written now; 0: nothing, or unlimited.",
           {},
           {OfDisk([](const DiskReport& d) { return std::max(0.0, d.tier.budget_left); })},
           "Does the write budget bound what gets to disk?",
           "peercache_disk_budget_left_bytes < peercache_disk_budget_bytes_a_day / 24"},
      }};
}

}  // namespace peercache
