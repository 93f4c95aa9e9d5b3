// The network interfaces of this network namespace, as far as RDMA ports depend on them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "transport/rdma/gid.h"

namespace peercache::rdma {

struct Interface {
  std::string name;
  bool up = false;
  uint32_t mtu = 0;       // 0: unknown
  bool physical = false;  // has a device of its own; not a VLAN, bond, macvlan, veth
  std::vector<Address> addresses;
  std::vector<uint8_t> prefix_bits;  // of each address' network, of 128; may be shorter
  int numa_node = -1;                // -1: unknown, or the machine has one node only
  uint32_t bond_members = 0;         // of the bond that it is, or lies on; 0: of none
  std::string bond_mode;             // of that bond: "802.3ad", "active-backup"

  // 0: not known.
  uint8_t PrefixBitsOf(const Address& address) const;
};

// Names, states and addresses, from the kernel; empty with a message in the log when it refuses.
std::vector<Interface> ListInterfaces();

// Adds what /sys knows of an interface. One without a device of its own (VLAN, bond, bridge) has
// the NUMA node of the first interface below it that has one.
void DescribeInterface(const std::string& sysfs, Interface* interface);

// The NUMA node of a device in /sys/devices, or of the nearest device above it that has one (that
// of a virtio function is its PCI device's); -1 when there is none.
int NumaNodeOfDevice(const std::string& sysfs, const std::string& path);

}  // namespace peercache::rdma
