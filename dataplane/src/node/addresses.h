// Where peers reach this node: what it listens to, and the address that it tells others.
#pragma once

#include <span>
#include <string>

#include "base/status.h"
#include "node/config/config.h"
#include "transport/tcp/socket.h"

namespace peercache {

// At peer-port; without one, at the port of the entry of discovery-addr that is this machine, or at
// any free one.
Result<Listener> ListenForPeers(const NodeConfig& config, const std::string& bind_addr,
                                std::span<const HostPort> discovery);

// advertise-addr, or the address from which this machine reaches the hosts of discovery.
Result<std::string> AdvertisedAddress(const NodeConfig& config,
                                      std::span<const HostPort> discovery);

}  // namespace peercache
