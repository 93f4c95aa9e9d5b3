// A machine whose RDMA device is fake0, with two ports.
#pragma once

#include <fmt/format.h>

#include <string>

#include "transport/rdma/device.h"
#include "transport/rdma/fake/fake_verbs.h"
#include "transport/rdma/probe.h"
#include "transport/rdma/sysfs_testing.h"

namespace peercache::rdma {

// Two RoCE ports of one PCI function, each with an interface and an address.
struct FakeMachine : testing::FakeSysfs {
  // `rate` as in /sys.
  explicit FakeMachine(const std::string& rate) {
    FakeVerbs::Get().addressed = FakeVerbs::Get().both_ends = true;
    const std::string pci = AddPci("0000:3b:00.0", 0);
    const std::string device = AddDevice("fake0", pci);
    for (const uint8_t number : {uint8_t{1}, uint8_t{2}}) {
      const std::string address = fmt::format("::ffff:10.0.0.{}", FakeVerbs::GidByte(number));
      const std::string interface = fmt::format("fake{}", number);
      AddInterface(interface, 9000, pci, {testing::Ip(address)});
      const std::string port = AddPort(device, number, "Ethernet");
      Write(port + "/rate", rate);
      AddGid(port, 0, address, "RoCE v2", interface);
    }
  }
  DeviceSources Probed() const {
    DeviceSources sources = Sources();
    sources.probe = ProbeWithVerbs;
    return sources;
  }
};

}  // namespace peercache::rdma
