// What a discovery host shows of the members that send it heartbeats, in /v1/status. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "membership/fleet.h"

namespace peercache {

// `warming`: members may be missing.
nlohmann::json FleetJson(const FleetSummary& fleet, bool warming);
nlohmann::json HealthJson(const MemberReport& report);

}  // namespace peercache
