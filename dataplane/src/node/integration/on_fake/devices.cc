// The devices of this program: fake0 with two ports, in place of those of the system.
#include "node/integration/on_fake/machine_testing.h"

namespace peercache::rdma {

DeviceSources SystemSources() {
  static const FakeMachine machine("200 Gb/sec (4X HDR)");
  return machine.Probed();
}

}  // namespace peercache::rdma
