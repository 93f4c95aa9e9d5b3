#include "node/report/disk_json.h"

#include "node/report/health_report.h"

namespace peercache {

using nlohmann::json;

json DiskJson(const DiskReport& report) {
  json devices = json::array();
  for (const disk::DeviceHealth& device : report.tier.devices) {
    devices.push_back({{"path", device.path},
                       {"io", device.io},
                       {"on", device.on},
                       {"why", device.why},
                       {"bytes", device.bytes},
                       {"used_bytes", device.used_bytes()},
                       {"recovered", device.recovered}});
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
