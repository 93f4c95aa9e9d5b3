// An engine whose own node is killed while READs bring its pages. Its get may not return before
// none of them can land any more. Needs devices (hack/lab/soft-rdma).
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "node/integration/killed_reader_testing.h"
#include "node/report/http_get.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;
using testing::Eventually;

class KilledReaderFabricTest : public testing::KilledReader {
 protected:
  KilledReaderFabricTest()
      : testing::KilledReader(
            {"transport=rdma", fmt::format("device-name={}", std::getenv("PEERCACHE_TEST_RAILS")),
             "promotion-percent=0",       // replicas would be read instead
             "peer-timeout-ms=5000"}) {}  // a guest may get little of the processors
  void AwaitWay() override {
    // Some pages may have been kept from the get before.
    EXPECT_TRUE(Eventually(30s, [&] {
      const uint64_t before = RailBytes();
      return Get() == kPages && RailBytes() - before >= kPages * kPage / 2;
    })) << "pages come by READ";
  }

 private:
  uint64_t RailBytes() const {
    const auto answer =
        HttpGet("127.0.0.1", static_cast<uint16_t>(std::stoi(http_port_)), "/v1/status", 5s);
    EXPECT_TRUE(answer.ok()) << answer.status().ToString();
    uint64_t bytes = 0;
    if (!answer.ok()) return bytes;
    const auto status = nlohmann::json::parse(answer->body);
    for (const auto& rail : status["transport"]["rails"])
      bytes += rail["read_bytes"].get<uint64_t>();
    return bytes;
  }
};

TEST_F(KilledReaderFabricTest, NoReadLandsAfterTheGetHasReturned) { KillInTheMiddle(); }

}  // namespace
}  // namespace peercache
