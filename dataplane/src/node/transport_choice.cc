#include "node/transport_choice.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "transport/rdma/find_rails.h"

namespace peercache {

FoundRails FindRails(const NodeConfig& config) {
  if (config.transport == "tcp") return Unavailable("TCP, as configured");
  auto rails = rdma::FindRails(config.device_name, config.rdma_gid);
  if (!rails.ok() || config.transport != "rdma") return rails;
  if (Status s = rdma::AnyUsable(*rails); !s.ok()) return s;
  return rails;
}

Result<Transport> OpenFabric(const NodeConfig& config, const FoundRails& rails,
                             std::span<std::byte> pool) {
  if (config.transport == "tcp") return Transport{nullptr, rails.status().message()};
  const FabricOptions options{config.peer_timeout, config.rdma_queue_stall(), config.rdma_spin,
                              config.rdma_max_queues, config.rdma_link};
  auto fabric = rails.ok() ? Fabric::Open(options, *rails, pool)
                           : Result<std::unique_ptr<Fabric>>(rails.status());
  if (fabric.ok()) {
    return Transport{std::move(*fabric),
                     fmt::format("RDMA over {} rails as far as they are up, TCP where that does "
                                 "not reach",
                                 rails->size())};
  }
  if (config.transport == "rdma") return fabric.status();
  Transport tcp{nullptr, fmt::format("TCP, as RDMA cannot be used: {}", fabric.status().message())};
  // Whoever names a device expects it to be used.
  spdlog::log(config.device_name.empty() ? spdlog::level::info : spdlog::level::warn,
              "transport: {}", tcp.why);
  return tcp;
}

}  // namespace peercache
