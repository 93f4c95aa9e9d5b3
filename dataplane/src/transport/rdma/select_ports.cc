#include "transport/rdma/select_ports.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace peercache::rdma {
namespace {

Status BadEntry(const std::string& entry, const std::string& text) {
  return InvalidArgument(
      fmt::format("\"{}\" of \"{}\" is not a device; write NAME or NAME:PORT, separated by commas, "
                  "e.g. mlx5_0,mlx5_1:2",
                  entry, text));
}

Result<DeviceSpec> ParseEntry(const std::string& entry, const std::string& text) {
  DeviceSpec spec;
  const size_t colon = entry.find(':');
  spec.device = entry.substr(0, colon);
  const auto allowed = [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-' || c == '.';
  };
  if (spec.device.empty() || !std::all_of(spec.device.begin(), spec.device.end(), allowed))
    return BadEntry(entry, text);
  if (colon == std::string::npos) return spec;
  const char* end = entry.data() + entry.size();
  const auto [rest, error] = std::from_chars(entry.data() + colon + 1, end, spec.port);
  if (error != std::errc() || rest != end || spec.port < 1 || spec.port > 254)
    return BadEntry(entry, text);
  return spec;
}

std::string ListDevices(std::span<const Device> devices) {
  if (devices.empty())
    return "there is none: check that its driver is loaded (ls /sys/class/infiniband)";
  std::vector<std::string> names;
  for (const Device& device : devices) names.push_back(device.name);
  return fmt::format("there are {}", fmt::join(names, ", "));
}

Status AddListed(std::span<const Device> devices, const DeviceSpec& spec,
                 const GidPreference& preference, Selection* selection) {
  const auto device = std::find_if(devices.begin(), devices.end(),
                                   [&](const Device& d) { return d.name == spec.device; });
  if (device == devices.end()) {
    return InvalidArgument(fmt::format("no RDMA device {}; {}", spec.device, ListDevices(devices)));
  }
  std::vector<SelectedPort> found;
  for (const Port& port : device->ports) {
    if (spec.port == 0 || port.number == spec.port)
      found.push_back({&*device, &port, CheckUsable(*device, port, preference)});
  }
  if (found.empty()) {
    return InvalidArgument(
        fmt::format("{} has no port {}; it has {}", spec.device, spec.port, device->ports.size()));
  }
  const auto usable = [](const SelectedPort& p) { return p.usable.ok(); };
  if (spec.port == 0 && std::any_of(found.begin(), found.end(), usable)) {
    for (const SelectedPort& p : found)
      if (!usable(p)) selection->left_out.push_back(p.usable.status().message());
    std::erase_if(found, [&](const SelectedPort& p) { return !usable(p); });
  } else {
    found.erase(found.begin() + 1, found.end());
  }
  for (SelectedPort& p : found) {
    const bool twice = std::any_of(selection->ports.begin(), selection->ports.end(),
                                   [&](const SelectedPort& other) { return other.port == p.port; });
    if (twice)
      return InvalidArgument(fmt::format("{} is listed twice; remove one", p.port->Name()));
    selection->ports.push_back(std::move(p));
  }
  return {};
}

}  // namespace

Result<std::vector<DeviceSpec>> ParseDeviceList(const std::string& text) {
  std::vector<DeviceSpec> specs;
  if (text.empty()) return specs;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(',', start), text.size());
    auto spec = ParseEntry(text.substr(start, end - start), text);
    if (!spec.ok()) return spec.status();
    specs.push_back(std::move(*spec));
    start = end + 1;
  }
  return specs;
}

Result<Selection> SelectPorts(std::span<const Device> devices, std::span<const DeviceSpec> list,
                              const GidPreference& preference) {
  Selection selection;
  if (!list.empty()) {
    for (const DeviceSpec& spec : list)
      if (Status s = AddListed(devices, spec, preference, &selection); !s.ok()) return s;
    return selection;
  }
  for (const Device& device : devices) {
    if (device.software()) {
      selection.left_out.push_back(fmt::format(
          "{} is a device in software, slower than TCP; list it to use it anyway", device.name));
      continue;
    }
    for (const Port& port : device.ports) {
      auto usable = CheckUsable(device, port, preference);
      if (usable.ok())
        selection.ports.push_back({&device, &port, std::move(usable)});
      else
        selection.left_out.push_back(usable.status().message());
    }
  }
  if (!selection.ports.empty()) return selection;
  if (devices.empty())
    return Unavailable(
        "no RDMA device: check that its driver is loaded (ls /sys/class/infiniband)");
  return Unavailable(fmt::format("no usable RDMA port: {}", fmt::join(selection.left_out, "; ")));
}

}  // namespace peercache::rdma
