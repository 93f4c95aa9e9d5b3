#include "node/report/disk_json.h"

#include <chrono>

#include "node/report/health_report.h"

namespace peercache {

using nlohmann::json;
using Op = disk::IoRequest::Op;

namespace {

json TimesJson(const LatencyCounts& times) {
  return {{"count", times.count()}, {"seconds", times.SumSeconds()}};
}

}  // namespace

json DiskJson(const DiskReport& report) {
  json devices = json::array();
  for (const disk::DeviceHealth& device : report.tier.devices) {
    devices.push_back(
        {{"path", device.path},
         {"io", device.io},
         {"on", device.on},
         {"why", device.why},
         {"writes_paused", device.writes_paused},
         {"bytes", device.bytes},
         {"used_bytes", device.used_bytes()},
         {"recovered", device.recovered},
         {"regions_found", device.regions_found},
         {"regions_read", device.regions_read},
         {"read_times", TimesJson(device.counts.Of(Op::kRead))},
         {"write_times", TimesJson(device.counts.Of(Op::kWrite))},
         {"sync_times", TimesJson(device.counts.Of(Op::kSync))},
         {"longest_seconds", std::chrono::duration<double>(device.counts.longest).count()}});
  }
  const Activity::Drives drives = DrivesOf(report);
  json disk{{"pages", report.tier.pages},          {"capacity_bytes", drives.capacity_bytes},
            {"used_bytes", drives.used_bytes},     {"waiting_pages", report.waiting_pages},
            {"loaded_pages", report.loaded_pages}, {"devices", devices}};
  if (report.budget_a_day != 0) {
    disk["budget_bytes_a_day"] = report.budget_a_day;
    disk["budget_left_bytes"] = report.tier.budget_left;
  }
  return disk;
}

}  // namespace peercache
