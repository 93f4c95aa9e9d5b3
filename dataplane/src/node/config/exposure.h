// Where a node may listen for peers. Whoever reaches the peer port of a node without a secret is a
// peer: it reads and clears pages. So such a node can be reached by its own machine only, unless it
// is told otherwise.
#pragma once

#include <span>
#include <string>

#include "base/status.h"
#include "node/config/config.h"
#include "transport/tcp/socket.h"

namespace peercache {

// bind-addr is each address of the machine.
bool BindsAll(const NodeConfig& config);
// Where this machine itself reaches what listens to bind-addr.
std::string OwnAddress(const NodeConfig& config);
// The address to listen to. Where peers prove nothing (neither auth-token-file nor TLS) and
// insecure-peers is off, that is the loopback address; an option that names an address of the
// network is then an error.
Result<std::string> PeerBindAddress(const NodeConfig& config, std::span<const HostPort> discovery);

}  // namespace peercache
