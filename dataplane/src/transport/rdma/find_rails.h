// The rails of this machine: the ports that a list of devices names, or all usable ones.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "transport/rdma/rail.h"

namespace peercache::rdma {

// `devices` as ParseDeviceList and `gid` as ParseGidPreference have it. Ports that cannot be used
// now are left out and said in the log; when none is left, the error says why of the first.
Result<std::vector<RailSpec>> FindRails(const std::string& devices, const std::string& gid);

}  // namespace peercache::rdma
