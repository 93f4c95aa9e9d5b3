// Which options go together.
#pragma once

#include "base/status.h"
#include "node/config/config.h"

namespace peercache {

constexpr milliseconds kMostPeerTimeout{60'000};

// A queue that waits for an acknowledgement makes no progress, and must not be given up for that.
// `timeout` as of rdma-timeout.
bool OutlastsLostPacket(Duration queue_stall, uint8_t timeout);

// The options together, each of them good by itself. The error names option, value and fix.
Status CheckWhole(const NodeConfig& config);

}  // namespace peercache
