// What libibverbs says of a device: the limits and MTUs that /sys does not show.
#pragma once

#include <string>

#include "transport/rdma/device.h"

namespace peercache::rdma {

// Opens the device for as long as it takes. The status of a failure names the library, the device
// file or the permission that is missing.
Result<ProbedDevice> ProbeWithVerbs(const std::string& device, size_t ports);

}  // namespace peercache::rdma
