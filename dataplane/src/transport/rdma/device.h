// The RDMA devices of this machine and their ports, with what an operator and the choice of rails
// need to know of them.
//
//   for (const Device& device : ReadDevices(SystemSources()))
//     for (const Port& port : device.ports) ...
//
// Most comes from /sys, which can be read where a device cannot be opened; limits and MTUs come
// from libibverbs. Each value that could not be had says so (0, -1, empty, kUnknown). A snapshot:
// read again after an event.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/rdma/gid.h"
#include "transport/rdma/interfaces.h"

namespace peercache::rdma {

enum class LinkLayer : uint8_t { kUnknown, kInfiniBand, kEthernet };
const char* LinkLayerName(LinkLayer layer);
enum class Transport : uint8_t { kUnknown, kInfiniBand, kIwarp };  // RoCE's is InfiniBand
const char* TransportName(Transport transport);
enum class PortState : uint8_t { kUnknown = 0, kDown = 1, kInit = 2, kArmed = 3, kActive = 4 };
// Whether memory of a GPU can be registered through a dmabuf descriptor.
enum class Support : uint8_t { kUnknown, kNo, kYes };
const char* SupportName(Support support);

struct Port {
  std::string device;
  uint32_t number = 1;
  PortState state = PortState::kUnknown;
  std::string state_text;      // "ACTIVE"
  std::string physical_state;  // "LinkUp"
  LinkLayer link_layer = LinkLayer::kUnknown;
  Transport transport = Transport::kUnknown;
  uint32_t active_mtu = 0, max_mtu = 0;  // bytes of payload in a packet; 0: unknown
  double gbps = 0;
  std::string rate_text;  // "100 Gb/sec (4X EDR)"
  uint16_t lid = 0;       // InfiniBand: 0 until a subnet manager has given one
  std::vector<uint16_t> pkeys;
  std::vector<Gid> gids;              // those that are set
  std::vector<Interface> interfaces;  // of the GIDs, those that this network namespace has
  int numa_node = -1;

  // "mlx5_0 port 1"
  std::string Name() const;
  const Interface* FindInterface(const std::string& name) const;
};

struct DeviceLimits {
  uint32_t max_qp = 0;
  uint32_t max_qp_wr = 0;            // work requests of one queue
  uint32_t max_sge = 0;              // segments of a work request
  uint32_t max_sge_rd = 0;           // of a READ; 0: the device makes no difference
  uint32_t max_cqe = 0;              // of one completion queue
  uint32_t max_mr = 0;               // registrations
  uint64_t max_mr_size = 0;          // bytes of one
  uint32_t max_qp_rd_atom = 0;       // READs that a QP answers at once
  uint32_t max_qp_init_rd_atom = 0;  // READs that a QP has outstanding
  Status on_demand_paging = Unavailable("the device was not asked");  // on_demand.h
};

struct Device {
  std::string name;
  std::string node_guid;  // "506b:4b03:00c1:2a3c"
  std::string firmware;
  std::string board;        // of the maker; empty for software
  std::string pci_address;  // "0000:3b:00.1"; empty for software
  bool virtual_function = false;
  Transport transport = Transport::kUnknown;
  int numa_node = -1;
  std::vector<Port> ports;
  // Whether libibverbs can open it; when not, the two below and the ports' MTUs are unknown.
  Status opens = Unavailable("it was not tried");
  DeviceLimits limits;
  Support dmabuf = Support::kUnknown;

  // Made by a driver in software (soft-RoCE): for tests, slower than TCP.
  bool software() const { return pci_address.empty() && board.empty(); }
};

// What libibverbs says of a device.
struct ProbedDevice {
  DeviceLimits limits;
  Support dmabuf = Support::kUnknown;
  struct Mtu {
    uint32_t active = 0, max = 0;
  };
  std::vector<Mtu> ports;  // port 1 first
};

// Where the facts come from; tests bring their own.
struct DeviceSources {
  std::string sysfs = "/sys";
  std::function<std::vector<Interface>()> interfaces;
  std::function<Result<ProbedDevice>(const std::string& device, size_t ports)> probe;
};
DeviceSources SystemSources();

// Sorted by name; empty when there are none.
std::vector<Device> ReadDevices(const DeviceSources& sources);

// One of them, without what libibverbs says; it has no ports when it is gone.
Device ReadDevice(const DeviceSources& sources, const std::string& name);

}  // namespace peercache::rdma
