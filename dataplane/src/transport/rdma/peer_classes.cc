#include "transport/rdma/peer_classes.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "transport/rdma/gid.h"

namespace peercache::rdma {
namespace {

// Of the links of more ports only the count tells.
constexpr size_t kMostPorts = 64;

// "rdma-traffic-class is 104 here and 0 there"; empty: they are alike, or one is not said.
std::string Differs(const char* option, uint8_t here, uint8_t there) {
  if (here == there || here == 0 || there == 0) return "";
  return fmt::format("{} is {} here and {} there", option, here - 1, there - 1);
}

}  // namespace

void TellClasses(const LinkOptions& link, QueueAddress* address) {
  // 255, which no network has, is 0 then: not said.
  address->traffic_class = static_cast<uint8_t>(link.traffic_class + 1);
  address->service_level = static_cast<uint8_t>(link.service_level + 1);
}

std::string ClassesDiffer(const QueueAddress& here, const QueueAddress& there) {
  // Packets within a subnet of InfiniBand have no traffic class.
  const bool has_class = here.ethernet != 0 || here.network != there.network;
  const std::string by_class =
      has_class ? Differs("rdma-traffic-class", here.traffic_class, there.traffic_class) : "";
  const std::string by_level =
      Differs("rdma-service-level", here.service_level, there.service_level);
  return by_class + (by_class.empty() || by_level.empty() ? "" : ", ") + by_level;
}

void PeerClasses::Compare(std::span<const QueueAddress> here, std::span<const QueueAddress> there) {
  bool counted = false;
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < here.size() && i < there.size(); ++i) {
    if (there[i].queue == 0) continue;
    const std::string what = ClassesDiffer(here[i], there[i]);
    if (what.empty()) {
      differ_.erase(there[i].gid);
      continue;
    }
    if (counted) continue;  // its other rails are configured as this one
    counted = true;
    ++links_;
    if (differ_.size() >= kMostPorts && !differ_.contains(there[i].gid)) continue;
    std::string text = fmt::format(
        "a peer's port {}: {}; READs between them lose packets in full switches: set the same on "
        "all nodes",
        FormatAddress(there[i].gid), what);
    const auto [known, added] = differ_.insert_or_assign(there[i].gid, std::move(text));
    if (added) spdlog::warn("{}", known->second);
  }
}

PeerClasses::Stats PeerClasses::stats() const {
  std::lock_guard lock(mutex_);
  return {links_, differ_.empty() ? std::string() : differ_.begin()->second};
}

}  // namespace peercache::rdma
