// A /sys of a test's own, with the RDMA devices and network interfaces that it asks for.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/temp_dir_testing.h"
#include "transport/rdma/device.h"

namespace peercache::testing {

inline rdma::Address Ip(const std::string& text) {
  auto address = rdma::ParseAddress(text);
  return address.ok() ? *address : rdma::Address{};
}

class FakeSysfs {
 public:
  const std::string& path() const { return dir_.path(); }
  void Write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(path() + "/" + name).parent_path());
    dir_.Write(name, text + "\n");
  }
  // `name` becomes a link to `target`; both are below the root.
  void Link(const std::string& name, const std::string& target) {
    const std::filesystem::path link = path() + "/" + name;
    std::filesystem::create_directories(link.parent_path());
    std::filesystem::create_directories(path() + "/" + target);
    std::filesystem::create_directory_symlink(path() + "/" + target, link);
  }
  // A PCI function, on which AddDevice and AddInterface may sit.
  std::string AddPci(const std::string& address, int numa_node) {
    const std::string device = "devices/pci0000:3a/" + address;
    Write(device + "/numa_node", std::to_string(numa_node));
    return device;
  }
  // `below`: what AddPci returned; empty for soft-RoCE.
  std::string AddDevice(const std::string& name, const std::string& below,
                        const std::string& node_type = "1: CA") {
    const std::string device = "class/infiniband/" + name;
    Write(device + "/node_type", node_type);
    Write(device + "/node_guid", "506b:4b03:00c1:2a3c");
    Write(device + "/fw_ver", "22.39.1002");
    if (!below.empty()) {
      Write(device + "/board_id", "MT_0000000359");
      Link(device + "/device", below);
    }
    return device;
  }
  std::string AddPort(const std::string& device, int number, const std::string& link_layer,
                      const std::string& state = "4: ACTIVE", const std::string& lid = "0x0") {
    const std::string port = fmt::format("{}/ports/{}", device, number);
    Write(port + "/state", state);
    Write(port + "/phys_state", "5: LinkUp");
    Write(port + "/link_layer", link_layer);
    Write(port + "/rate", "200 Gb/sec (4X HDR)");
    Write(port + "/lid", lid);
    Write(port + "/pkeys/0", "0xffff");
    Write(port + "/pkeys/1", "0x0000");
    return port;
  }
  // The address in the long form of the kernel. Empty: an entry that is not in use.
  void AddGid(const std::string& port, int index, const std::string& address,
              const std::string& type, const std::string& interface) {
    const rdma::Address bytes = address.empty() ? rdma::Address{} : Ip(address);
    std::string text;
    for (size_t i = 0; i < bytes.size(); ++i)
      text += fmt::format("{}{:02x}", i > 0 && i % 2 == 0 ? ":" : "", bytes[i]);
    Write(fmt::format("{}/gids/{}", port, index), text);
    if (address.empty()) return;  // the kernel answers the reads of its attributes with an error
    Write(fmt::format("{}/gid_attrs/types/{}", port, index), type);
    if (!interface.empty()) Write(fmt::format("{}/gid_attrs/ndevs/{}", port, index), interface);
  }
  // `prefix_bits`: of the networks of all its addresses, of 128; 0: not known.
  void AddInterface(const std::string& name, int mtu, const std::string& below,
                    std::vector<rdma::Address> addresses, uint8_t prefix_bits = 0) {
    Write("class/net/" + name + "/mtu", std::to_string(mtu));
    if (!below.empty()) Link("class/net/" + name + "/device", below);
    rdma::Interface interface;
    interface.name = name;
    interface.up = true;
    interface.prefix_bits.assign(addresses.size(), prefix_bits);
    interface.addresses = std::move(addresses);
    interfaces_.push_back(std::move(interface));
  }
  // A device without an answer here does not open.
  std::map<std::string, rdma::ProbedDevice> probes;

  std::vector<rdma::Device> Read() const { return rdma::ReadDevices(Sources()); }
  rdma::DeviceSources Sources() const {
    rdma::DeviceSources sources;
    sources.sysfs = path();
    sources.interfaces = [this] { return interfaces_; };
    sources.probe = [this](const std::string& device, size_t) -> Result<rdma::ProbedDevice> {
      const auto found = probes.find(device);
      if (found == probes.end()) return Unavailable(device + ": opening: Permission denied");
      return found->second;
    };
    return sources;
  }

 private:
  TempDir dir_;
  std::vector<rdma::Interface> interfaces_;
};

}  // namespace peercache::testing
