// Apart from device.cc, so that a program of tests can have other sources
// (node/integration/on_fake).
#include "transport/rdma/device.h"
#include "transport/rdma/interfaces.h"
#include "transport/rdma/probe.h"

namespace peercache::rdma {

DeviceSources SystemSources() {
  DeviceSources sources;
  sources.interfaces = ListInterfaces;
  sources.probe = ProbeWithVerbs;
  return sources;
}

}  // namespace peercache::rdma
