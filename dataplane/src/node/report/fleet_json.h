// What a discovery host shows of the members that send it heartbeats, in /v1/status. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "membership/fleet.h"

namespace peercache {

// Who pages were read from is named by its id where `name_of` knows one, and is left out otherwise.
using NameOfNode = std::function<std::string(uint64_t node)>;

nlohmann::json ActivityJson(const Activity& activity, const NameOfNode& name_of);
// `warming`: members may be missing.
nlohmann::json FleetJson(const FleetSummary& fleet, bool warming);
nlohmann::json HealthJson(const MemberReport& report, const NameOfNode& name_of);

}  // namespace peercache
