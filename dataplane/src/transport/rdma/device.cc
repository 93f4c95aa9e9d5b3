#include "transport/rdma/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/small_file.h"
#include "transport/rdma/probe.h"

namespace peercache::rdma {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> Names(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

// Entries that are numbers, in their order.
std::vector<uint32_t> Numbers(const fs::path& directory) {
  std::vector<uint32_t> numbers;
  for (const std::string& name : Names(directory)) {
    if (const auto number = ParseLeadingNumber<uint32_t>(name)) numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// The text behind the number: "4: ACTIVE" is ACTIVE.
std::string AfterColon(const std::string& text) {
  const size_t colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

Transport ParseNodeType(const std::string& text) {
  switch (ParseLeadingNumber<int>(text).value_or(0)) {
    case 1: return Transport::kInfiniBand;  // channel adapter
    case 4: return Transport::kIwarp;       // RNIC
    default: return Transport::kUnknown;  // switches, usNIC and EFA, which have no such queue pairs
  }
}

LinkLayer ParseLinkLayer(const std::string& text) {
  if (text == "InfiniBand") return LinkLayer::kInfiniBand;
  if (text == "Ethernet") return LinkLayer::kEthernet;
  return LinkLayer::kUnknown;
}

GidType ParseGidType(const std::string& text, LinkLayer layer) {
  if (text == "RoCE v2") return GidType::kRoceV2;
  if (text != "IB/RoCE v1") return GidType::kUnknown;
  return layer == LinkLayer::kInfiniBand ? GidType::kInfiniBand : GidType::kRoceV1;
}

// A queue pair names the GID it speaks with by 8 bits (ibv_global_route.sgid_index); tables of
// cards with many VLANs and containers are longer.
constexpr uint32_t kLastGid = UINT8_MAX;

void ReadGids(const std::string& path, Port* port) {
  for (const uint32_t index : Numbers(path + "/gids")) {
    if (index > kLastGid) continue;
    const auto address = ParseAddress(ReadSmallFile(fmt::format("{}/gids/{}", path, index)));
    if (!address.ok() || *address == Address{}) continue;  // an entry that is not in use
    Gid gid;
    gid.index = index;
    gid.address = *address;
    gid.type = ParseGidType(ReadSmallFile(fmt::format("{}/gid_attrs/types/{}", path, index)),
                            port->link_layer);
    gid.interface = ReadSmallFile(fmt::format("{}/gid_attrs/ndevs/{}", path, index));
    port->gids.push_back(std::move(gid));
  }
}

Port ReadPort(const std::string& path, const Device& device, uint32_t number,
              const std::vector<Interface>& interfaces, const std::string& parent) {
  Port port;
  port.device = device.name;
  port.number = number;
  port.transport = device.transport;
  const std::string state = ReadSmallFile(path + "/state");
  const auto value = ParseLeadingNumber<int>(state).value_or(0);
  if (value >= 1 && value <= 4) port.state = static_cast<PortState>(value);
  port.state_text = AfterColon(state);
  port.physical_state = AfterColon(ReadSmallFile(path + "/phys_state"));
  port.link_layer = ParseLinkLayer(ReadSmallFile(path + "/link_layer"));
  port.rate_text = ReadSmallFile(path + "/rate");
  port.gbps = ParseLeadingNumber<double>(port.rate_text).value_or(0);
  port.lid = ReadNumber<uint16_t>(path + "/lid").value_or(0);
  for (const uint32_t index : Numbers(path + "/pkeys")) {
    const auto pkey = ReadNumber<uint16_t>(fmt::format("{}/pkeys/{}", path, index));
    if (pkey && *pkey != 0) port.pkeys.push_back(*pkey);
  }
  ReadGids(path, &port);
  for (const Interface& interface : interfaces) {
    const bool named = interface.name == parent ||
                       std::any_of(port.gids.begin(), port.gids.end(),
                                   [&](const Gid& gid) { return gid.interface == interface.name; });
    if (named) port.interfaces.push_back(interface);
  }
  // Software without a device above it sits where its interface does.
  port.numa_node = device.numa_node;
  for (const Interface& interface : port.interfaces)
    if (port.numa_node < 0) port.numa_node = interface.numa_node;
  return port;
}

// DOMAIN:BUS:SLOT.FUNCTION; the domain has four digits or more.
bool IsPciAddress(const std::string& name) {
  const size_t end = name.size();
  return end >= 12 && name[end - 8] == ':' && name[end - 5] == ':' && name[end - 2] == '.';
}

Device FromSysfs(const DeviceSources& sources, const std::string& name,
                 const std::vector<Interface>& interfaces) {
  const std::string path = sources.sysfs + "/class/infiniband/" + name;
  Device device;
  device.name = name;
  device.node_guid = ReadSmallFile(path + "/node_guid");
  device.firmware = ReadSmallFile(path + "/fw_ver");
  device.board = ReadSmallFile(path + "/board_id");
  device.transport = ParseNodeType(ReadSmallFile(path + "/node_type"));
  std::error_code error;
  const fs::path parent = fs::canonical(path + "/device", error);
  if (!error && IsPciAddress(parent.filename())) device.pci_address = parent.filename();
  device.virtual_function = fs::exists(path + "/device/physfn", error);
  device.numa_node = NumaNodeOfDevice(sources.sysfs, path + "/device");
  const std::string interface = ReadSmallFile(path + "/parent");  // soft-RoCE
  for (const uint32_t number : Numbers(path + "/ports")) {
    device.ports.push_back(
        ReadPort(fmt::format("{}/ports/{}", path, number), device, number, interfaces, interface));
    if (device.numa_node < 0) device.numa_node = device.ports.back().numa_node;
  }
  return device;
}

void Probe(const DeviceSources& sources, Device* device) {
  auto probed = sources.probe(device->name, device->ports.size());
  device->opens = probed.status();
  if (!probed.ok()) return;
  device->limits = probed->limits;
  device->dmabuf = probed->dmabuf;
  for (Port& port : device->ports) {
    if (port.number == 0 || port.number > probed->ports.size()) continue;
    port.active_mtu = probed->ports[port.number - 1].active;
    port.max_mtu = probed->ports[port.number - 1].max;
  }
}

}  // namespace

const char* LinkLayerName(LinkLayer layer) {
  switch (layer) {
    case LinkLayer::kInfiniBand: return "InfiniBand";
    case LinkLayer::kEthernet: return "Ethernet";
    case LinkLayer::kUnknown: break;
  }
  return "unknown";
}

const char* TransportName(Transport transport) {
  switch (transport) {
    case Transport::kInfiniBand: return "InfiniBand";
    case Transport::kIwarp: return "iWARP";
    case Transport::kUnknown: break;
  }
  return "unknown";
}

const char* SupportName(Support support) {
  switch (support) {
    case Support::kNo: return "no";
    case Support::kYes: return "yes";
    case Support::kUnknown: break;
  }
  return "unknown";
}

std::string Port::Name() const { return fmt::format("{} port {}", device, number); }

const Interface* Port::FindInterface(const std::string& name) const {
  const auto found = std::find_if(interfaces.begin(), interfaces.end(),
                                  [&](const Interface& i) { return i.name == name; });
  return found == interfaces.end() ? nullptr : &*found;
}

std::vector<Device> ReadDevices(const DeviceSources& sources) {
  std::vector<Interface> interfaces = sources.interfaces();
  for (Interface& interface : interfaces) DescribeInterface(sources.sysfs, &interface);
  std::vector<Device> devices;
  for (const std::string& name : Names(sources.sysfs + "/class/infiniband")) {
    devices.push_back(FromSysfs(sources, name, interfaces));
    Probe(sources, &devices.back());
  }
  return devices;
}

Device ReadDevice(const DeviceSources& sources, const std::string& name) {
  // A host has hundreds of interfaces; those of the device's ports are described.
  Device device = FromSysfs(sources, name, sources.interfaces());
  for (Port& port : device.ports)
    for (Interface& interface : port.interfaces) DescribeInterface(sources.sysfs, &interface);
  return device;
}

}  // namespace peercache::rdma
