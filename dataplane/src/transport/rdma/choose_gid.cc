#include "transport/rdma/choose_gid.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

namespace peercache::rdma {
namespace {

bool HasPrefix(const Address& address, const Address& subnet, unsigned bits) {
  const unsigned whole = bits / 8, rest = bits % 8;
  if (!std::equal(address.begin(), address.begin() + whole, subnet.begin())) return false;
  return rest == 0 || (address[whole] ^ subnet[whole]) >> (8 - rest) == 0;
}

bool Fits(const GidPreference& preference, const Address& address) {
  using Family = GidPreference::Family;
  if (preference.family == Family::kIpv4 && !IsIpv4(address)) return false;
  if (preference.family == Family::kIpv6 && IsIpv4(address)) return false;
  return HasPrefix(address, preference.subnet, preference.prefix_bits);
}

bool IsAny(const GidPreference& preference) {
  return preference.family == GidPreference::Family::kAny && preference.prefix_bits == 0;
}

std::string PreferenceText(const GidPreference& preference) {
  if (preference.prefix_bits > 0) {
    const bool ipv4 = IsIpv4(preference.subnet);
    const unsigned whole = ipv4 ? 32 : 128;
    const unsigned bits = preference.prefix_bits - (ipv4 ? 96u : 0u);
    const std::string address = FormatAddress(preference.subnet);
    return bits == whole ? address : fmt::format("{}/{}", address, bits);
  }
  switch (preference.family) {
    case GidPreference::Family::kIpv4: return "IPv4";
    case GidPreference::Family::kIpv6: return "IPv6";
    case GidPreference::Family::kAny: break;
  }
  return "auto";
}

// Lower is better.
int Rank(const Address& address) { return IsIpv4(address) ? 0 : IsLinkLocal(address) ? 2 : 1; }
const char* RankName(int rank) {
  return rank == 0 ? "IPv4" : rank == 1 ? "global IPv6" : "link-local IPv6";
}

std::string ListGids(const Port& port) {
  constexpr size_t kMost = 8;  // a table may have hundreds
  std::vector<std::string> texts;
  for (size_t i = 0; i < std::min(kMost, port.gids.size()); ++i)
    texts.push_back(FormatGid(port.gids[i]));
  if (port.gids.size() > kMost) texts.push_back(fmt::format("{} more", port.gids.size() - kMost));
  return fmt::format("{}", fmt::join(texts, ", "));
}

// The interfaces that the port's GIDs name, whether or not they are in this network namespace.
std::string InterfaceNames(const Port& port) {
  std::set<std::string> names;
  for (const Gid& gid : port.gids)
    if (!gid.interface.empty()) names.insert(gid.interface);
  for (const Interface& interface : port.interfaces) names.insert(interface.name);
  return names.empty() ? "its interface" : fmt::format("{}", fmt::join(names, ", "));
}

bool IsOwn(const Port& port, const Gid& gid) {
  const Interface* interface = port.FindInterface(gid.interface);
  return interface != nullptr && std::find(interface->addresses.begin(), interface->addresses.end(),
                                           gid.address) != interface->addresses.end();
}

Result<ChosenGid> ChooseInfiniBand(const Port& port, const GidPreference& preference) {
  if (port.lid == 0) {
    return Unavailable(fmt::format(
        "{}: no LID: no subnet manager has configured the port; start one (opensm) or check the "
        "switch's",
        port.Name()));
  }
  for (const Gid& gid : port.gids) {
    // Families are of IP; a GID of InfiniBand has none.
    if (!HasPrefix(gid.address, preference.subnet, preference.prefix_bits)) continue;
    return ChosenGid{gid, fmt::format("InfiniBand, by LID {}", port.lid)};
  }
  return Unavailable(fmt::format("{}: none of its GIDs ({}) is {}; correct the GID asked for",
                                 port.Name(), ListGids(port), PreferenceText(preference)));
}

Status NoRoceGid(const Port& port, const GidPreference& preference,
                 const std::vector<const Gid*>& own) {
  const std::string name = port.Name();
  if (!own.empty()) {
    std::vector<std::string> texts;
    for (const Gid* gid : own) texts.push_back(FormatGid(*gid));
    return Unavailable(fmt::format(
        "{}: none of its usable GIDs is {}: they are {}; ask for one of "
        "these, or add such an address to {}",
        name, PreferenceText(preference), fmt::join(texts, ", "), InterfaceNames(port)));
  }
  if (port.gids.empty()) {
    return Unavailable(fmt::format("{}: no GIDs: bring {} up and give it an IP address", name,
                                   InterfaceNames(port)));
  }
  if (std::none_of(port.gids.begin(), port.gids.end(),
                   [](const Gid& gid) { return gid.type == GidType::kRoceV2; })) {
    return Unavailable(
        fmt::format("{}: no RoCEv2 GID, only {}: enable RoCEv2 in the device or its driver", name,
                    ListGids(port)));
  }
  if (port.interfaces.empty()) {
    return Unavailable(fmt::format(
        "{}: its GIDs belong to {}, which this network namespace does not have: attach an "
        "interface of this device to the pod (macvlan, host-device or SR-IOV), or use the host's "
        "network",
        name, InterfaceNames(port)));
  }
  return Unavailable(
      fmt::format("{}: no RoCEv2 GID belongs to an address of {} (GIDs: {}): give the interface an "
                  "IP address",
                  name, InterfaceNames(port), ListGids(port)));
}

Result<ChosenGid> ChooseRoce(const Port& port, const GidPreference& preference,
                             const Address* present) {
  std::vector<const Gid*> own, fitting;
  for (const Gid& gid : port.gids) {
    if (gid.type != GidType::kRoceV2 || !IsOwn(port, gid)) continue;
    own.push_back(&gid);
    if (Fits(preference, gid.address)) fitting.push_back(&gid);
  }
  if (fitting.empty()) return NoRoceGid(port, preference, own);
  const auto order = [present](const Gid* gid) {
    return std::pair(Rank(gid->address), present == nullptr || gid->address != *present);
  };
  const Gid* best =
      *std::min_element(fitting.begin(), fitting.end(),
                        [&](const Gid* a, const Gid* b) { return order(a) < order(b); });
  std::string why =
      fmt::format("RoCEv2, {} address of {}", RankName(Rank(best->address)), best->interface);
  if (!IsAny(preference)) why += fmt::format(", {} was asked for", PreferenceText(preference));
  if (fitting.size() > 1) why += fmt::format(", best of {}", fitting.size());
  return ChosenGid{*best, std::move(why)};
}

}  // namespace

Result<GidPreference> ParseGidPreference(const std::string& text) {
  GidPreference preference;
  if (text.empty() || text == "auto") return preference;
  if (text == "ipv4" || text == "ipv6") {
    preference.family =
        text == "ipv4" ? GidPreference::Family::kIpv4 : GidPreference::Family::kIpv6;
    return preference;
  }
  const Status bad = InvalidArgument(
      fmt::format("GID \"{}\" is none of auto, ipv4, ipv6, an IP address or a subnet such as "
                  "10.1.0.0/16; indexes are not accepted, they differ between machines",
                  text));
  const size_t slash = text.find('/');
  const auto address = ParseAddress(text.substr(0, slash));
  if (!address.ok()) return bad;
  const unsigned lead = IsIpv4(*address) ? 96 : 0;  // bits of ::ffff:
  unsigned bits = 128 - lead;
  if (slash != std::string::npos) {
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + slash + 1, end, bits);
    if (error != std::errc() || rest != end || bits == 0 || bits > 128 - lead) return bad;
  }
  preference.subnet = *address;
  preference.prefix_bits = static_cast<uint8_t>(lead + bits);
  return preference;
}

Result<ChosenGid> ChooseGid(const Port& port, const GidPreference& preference,
                            const Address* present) {
  switch (port.link_layer) {
    case LinkLayer::kInfiniBand: return ChooseInfiniBand(port, preference);
    case LinkLayer::kEthernet: return ChooseRoce(port, preference, present);
    case LinkLayer::kUnknown: break;
  }
  return Unavailable(
      fmt::format("{}: its link layer is neither InfiniBand nor Ethernet; choose "
                  "another device",
                  port.Name()));
}

Status CheckActive(const Port& port) {
  if (port.state == PortState::kActive) return {};
  return Unavailable(
      fmt::format("{}: the port is {} ({}): {}", port.Name(), port.state_text, port.physical_state,
                  port.link_layer == LinkLayer::kInfiniBand
                      ? "check the cable and that a subnet manager runs"
                      : fmt::format("check the cable and set {} up", InterfaceNames(port))));
}

Result<ChosenGid> CheckUsable(const Device& device, const Port& port,
                              const GidPreference& preference) {
  if (device.transport != Transport::kInfiniBand) {
    return Unavailable(fmt::format(
        "{}: its transport ({}) lacks the queue pairs that pages are read through; choose a "
        "device that speaks RoCE or InfiniBand, or transport tcp",
        device.name, TransportName(device.transport)));
  }
  if (!device.opens.ok()) return device.opens;
  if (Status s = CheckActive(port); !s.ok()) return s;
  return ChooseGid(port, preference);
}

}  // namespace peercache::rdma
