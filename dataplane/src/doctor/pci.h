// PciLink: how a device sits in its slot, and what stands between it and memory.
#pragma once

#include <cstdint>
#include <string>

namespace peercache::doctor {

struct PciLink {
  // GT/s of each lane, and lanes: now, and the most that the device can. 0: not known.
  double speed = 0, most_speed = 0;
  uint32_t lanes = 0, most_lanes = 0;
  uint32_t read_request = 0;  // most bytes that it asks memory for at once; 0: only root may see it
  bool relaxed_ordering = false;  // it may ask for that; known where read_request is
  std::string iommu;  // type of its group: "identity", "DMA", "DMA-FQ"; empty: it has none

  // What the slot carries, without the headers of its packets; 0: not known.
  double gbps() const;
};

// `device` as in /sys/class/infiniband; `sysfs`: the root of that file system.
PciLink ReadPciLink(const std::string& device, const std::string& sysfs);

// Device Control in the configuration space of a PCI function (PCI Express Base 6.0, 7.5.3.4):
// MaxReadReq, and Enable Relaxed Ordering. 0 and false: it is not all there, or the function has no
// such capability.
struct DeviceControl {
  uint32_t read_request = 0;
  bool relaxed_ordering = false;
};
DeviceControl DeviceControlOf(const std::string& configuration);

}  // namespace peercache::doctor
