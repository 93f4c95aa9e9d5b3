// Reads what the doctor judges from this machine and its network. Takes a few seconds at most.
#pragma once

#include <map>
#include <string>

#include "doctor/facts.h"

namespace peercache::doctor {

Facts Gather(const NodeConfig& config);

// The parts that read files; the arguments are the roots of the file systems, tests give their own.
std::optional<Duration> ReadHaltPoll(const std::string& sysfs);
std::vector<HugePagePool> ReadHugePagePools(const std::vector<NumaNode>& nodes,
                                            const std::string& sysfs);
// Counters of packets that came late, twice or not at all, if any did since the driver was loaded.
std::map<std::string, uint64_t> ReadLosses(const std::string& device, uint32_t port,
                                           const std::string& sysfs);
Uplink ReadUplink(const std::string& device, const std::string& sysfs);
std::string ReadSharedMemoryPages(const std::string& sysfs);
GpuFacts ReadGpu(const std::string& sysfs, const std::string& proc);

}  // namespace peercache::doctor
