// The devices of this program: fake0 with two ports, in place of those of the system.
#include <fmt/format.h>

#include "transport/rdma/device.h"
#include "transport/rdma/fake/fake_verbs.h"
#include "transport/rdma/probe.h"
#include "transport/rdma/sysfs_testing.h"

namespace peercache::rdma {
namespace {

// Two RoCE ports of one PCI function, each with an interface and an address.
struct Machine : testing::FakeSysfs {
  Machine() {
    FakeVerbs::Get().addressed = FakeVerbs::Get().both_ends = true;
    const std::string pci = AddPci("0000:3b:00.0", 0);
    const std::string device = AddDevice("fake0", pci);
    for (const uint8_t number : {uint8_t{1}, uint8_t{2}}) {
      const std::string address = fmt::format("::ffff:10.0.0.{}", FakeVerbs::GidByte(number));
      const std::string interface = fmt::format("fake{}", number);
      AddInterface(interface, 9000, pci, {testing::Ip(address)});
      AddGid(AddPort(device, number, "Ethernet"), 0, address, "RoCE v2", interface);
    }
  }
};

}  // namespace

DeviceSources SystemSources() {
  static const Machine machine;
  DeviceSources sources = machine.Sources();
  sources.probe = ProbeWithVerbs;
  return sources;
}

}  // namespace peercache::rdma
