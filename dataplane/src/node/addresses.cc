#include "node/addresses.h"

#include <utility>

#include "base/interface_address.h"
#include "node/config/exposure.h"

namespace peercache {

Result<Listener> ListenForPeers(const NodeConfig& config, const std::string& bind_addr,
                                std::span<const HostPort> discovery) {
  if (config.peer_port != 0) return Listen(bind_addr, config.peer_port);
  // Bare metal: the process whose address is named in discovery_addr hosts discovery; of several on
  // the same machine the first one does.
  for (const HostPort& entry : discovery) {
    const auto addresses = Resolve(entry.host);
    if (!addresses.ok() || addresses->empty() || !IsLocalAddress(addresses->front())) continue;
    auto listener = Listen(bind_addr, entry.port);
    if (listener.ok()) return listener;
  }
  return Listen(bind_addr, 0);
}

Result<std::string> AdvertisedAddress(const NodeConfig& config,
                                      std::span<const HostPort> discovery) {
  const std::string& told = config.advertise_addr;
  if (!told.empty()) return IsAddress(told) ? told : InterfaceAddress(told);
  for (const HostPort& entry : discovery) {
    const auto addresses = Resolve(entry.host);
    if (!addresses.ok() || addresses->empty()) continue;
    std::string local = LocalAddressTowards(addresses->front(), entry.port);
    if (!local.empty()) return local;
  }
  return OwnAddress(config);
}

}  // namespace peercache
