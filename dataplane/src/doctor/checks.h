// The doctor's judgement. Pure: facts in, findings out, each with what to do about it.
//
// How bad a thing is depends on what was asked for: without a usable RDMA port, transport rdma does
// not start (fault), auto uses TCP (warning where there is hardware or a device is named, else a
// note), and tcp is fine.
#pragma once

#include <vector>

#include "base/status.h"
#include "doctor/facts.h"
#include "doctor/report.h"
#include "transport/rdma/select_ports.h"

namespace peercache::doctor {

// The rails that a node with this configuration would open.
Result<rdma::Selection> ChooseRails(const Facts& facts);

using Findings = std::vector<Finding>;
Findings CheckRails(const Facts& facts, const Result<rdma::Selection>& rails);
Findings CheckClasses(const Facts& facts);  // of the node that runs here, and of its peers
Findings CheckPci(const Facts& facts, const Result<rdma::Selection>& rails);
Findings CheckNuma(const Facts& facts, const Result<rdma::Selection>& rails);
Findings CheckMemory(const Facts& facts);  // the pool, its pages
Findings CheckIdle(const Facts& facts);    // what processors of a guest do when idle
Findings CheckMemlock(const Facts& facts, const Result<rdma::Selection>& rails);
Findings CheckDescriptors(const Facts& facts, const Result<rdma::Selection>& rails);
Findings CheckGpu(const Facts& facts, const Result<rdma::Selection>& rails);
Findings CheckReach(const Facts& facts);

}  // namespace peercache::doctor
