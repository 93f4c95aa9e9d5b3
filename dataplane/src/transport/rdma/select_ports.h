// Which ports become rails: those that the configuration lists, or all that are usable. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/rdma/choose_gid.h"
#include "transport/rdma/device.h"

namespace peercache::rdma {

struct DeviceSpec {
  std::string device;
  uint32_t port = 0;  // 0: every usable port of the device, the first one when none is
};
// "mlx5_0,mlx5_1:2"; empty text: no entries, which means all usable ports.
Result<std::vector<DeviceSpec>> ParseDeviceList(const std::string& text);

struct SelectedPort {
  const Device* device;  // of the devices given to SelectPorts
  const Port* port;
  Result<ChosenGid> usable;  // a port that was asked for may be unusable now and come back
};
struct Selection {
  std::vector<SelectedPort> ports;
  std::vector<std::string> left_out;  // why, for the log
};

// With a list: its entries in their order; a device or port that does not exist is an error that
// names those that do. Without: all that are usable now, of real devices; kUnavailable when there
// is none, with the reason of each.
Result<Selection> SelectPorts(std::span<const Device> devices, std::span<const DeviceSpec> list,
                              const GidPreference& preference);

}  // namespace peercache::rdma
