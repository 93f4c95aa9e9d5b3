// The disk tier in /v1/status.
#pragma once

#include <nlohmann/json.hpp>

#include "node/disk/disk_pages.h"

namespace peercache {

nlohmann::json DiskJson(const DiskReport& report);

}  // namespace peercache
