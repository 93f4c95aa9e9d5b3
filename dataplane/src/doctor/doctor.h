// peercached doctor: what this machine offers to a node with this configuration, what is wrong, and
// what to do about it. Changes nothing, and works where there is no RDMA, no node and no cluster.
#pragma once

#include "doctor/facts.h"
#include "doctor/report.h"

namespace peercache::doctor {

// Pure.
Report Diagnose(const Facts& facts);

// Looks, prints to standard output, returns the exit code (report.h).
int Run(const NodeConfig& config, bool json);
// Prints what the node that runs here says of itself; the exit code is 1 when there is none.
int PrintStatus(const NodeConfig& config);

}  // namespace peercache::doctor
