// The rails of this machine: the ports that a list of devices names, or all usable ones.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "transport/rdma/rail.h"
#include "transport/rdma/select_ports.h"

namespace peercache::rdma {

// `devices` as ParseDeviceList and `gid` as ParseGidPreference have it.
Result<std::vector<RailSpec>> FindRails(const std::string& devices, const std::string& gid);

// Of ports that were selected, those that can be used now; the others are said in the log. When
// none is left, the error says why of the first.
Result<std::vector<RailSpec>> RailsOf(const Selection& selection);

}  // namespace peercache::rdma
