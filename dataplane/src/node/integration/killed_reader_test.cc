// An engine whose own node is killed while it reads over TCP.
#include "node/integration/killed_reader_testing.h"

namespace peercache {
namespace {

class KilledReader : public testing::KilledReader {};

TEST_F(KilledReader, IsAMissAtOnceAndThePagesAreTheEngines) { KillInTheMiddle(); }

}  // namespace
}  // namespace peercache
