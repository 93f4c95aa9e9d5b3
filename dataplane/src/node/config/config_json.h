// What a node goes by, in /v1/status: every option under its name, as a configuration file would
// have to say it. Files with secrets are named, not read. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "node/config/config.h"

namespace peercache {

nlohmann::json ConfigJson(const NodeConfig& config);

}  // namespace peercache
