// The rails of this machine: the ports that a list of devices names, whether or not they can be
// used already, or all usable ones.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/rdma/rail.h"
#include "transport/rdma/select_ports.h"

namespace peercache::rdma {

// `devices` as ParseDeviceList and `gid` as ParseGidPreference have it.
Result<std::vector<RailSpec>> FindRails(const std::string& devices, const std::string& gid);

// Of ports that were selected, those that can be used, now or when their port is up and has an
// address; the others are said in the log. When none is left, the error says why of the first.
Result<std::vector<RailSpec>> RailsOf(const Selection& selection, const GidPreference& preference);

// Queue pairs towards one peer that fill the port. One reaches about 320 of 400 Gb/s, and stays on
// one member of a bond.
uint32_t QueuesFor(const Port& port);

// Fails when all of them have to wait; the error says for what, and the remedy.
Status AnyUsable(std::span<const RailSpec> rails);

}  // namespace peercache::rdma
