// peercache-perf rdma-read over the fake device, whose queue pairs have a rate: what bounds the
// steps of `peercache-bench ladder` is known. READs of that device stay in one process, so the
// reader serves itself, and whoever was to serve does nothing.
#include <thread>

#include "bench/perf/rdma.h"
#include "node/integration/on_fake/machine_testing.h"

namespace peercache::rdma {

DeviceSources SystemSources() {
  static const FakeMachine machine("400 Gb/sec (4X NDR)");  // two queue pairs (QueuesFor)
  return machine.Probed();
}

}  // namespace peercache::rdma

namespace peercache::perf {

// Those of rdma.cc, which is compiled with these names (CMakeLists.txt).
Result<nlohmann::json> RdmaServeHere(const RdmaShape& shape);
Result<nlohmann::json> RdmaReadHere(const RdmaShape& shape);

Result<nlohmann::json> RdmaServe(const RdmaShape&) { return nlohmann::json::object(); }

Result<nlohmann::json> RdmaRead(const RdmaShape& shape) {
  rdma::FakeVerbs::Get().bytes_per_second = 50'000'000;  // so slow that nothing else bounds them
  RdmaShape served = shape;
  served.host.clear();
  std::thread serving([served] { (void)RdmaServeHere(served); });
  Result<nlohmann::json> result = Unavailable("not tried");
  for (int i = 0; i < 100 && !result.ok(); ++i) {
    result = RdmaReadHere(shape);
    if (!result.ok()) std::this_thread::sleep_for(milliseconds(50));  // nobody listens yet
  }
  if (!result.ok()) {
    serving.detach();  // it waits for a reader
    return result;
  }
  serving.join();
  return result;
}

}  // namespace peercache::perf
