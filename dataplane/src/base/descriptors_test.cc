#include "base/descriptors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>

namespace peercache {
namespace {

// Ends the process, whose limits these are: with 0 when all is well.
[[noreturn]] void RaiseFrom(const rlimit& low) {
  const bool set = setrlimit(RLIMIT_NOFILE, &low) == 0;
  const auto before = RaiseDescriptorLimit();
  const DescriptorLimit after = ReadDescriptorLimit();
  const bool again = RaiseDescriptorLimit().ok();
  const bool well = set && before.ok() && before->soft == low.rlim_cur &&
                    before->hard == low.rlim_max && after.soft == low.rlim_max &&
                    after.hard == low.rlim_max && again;
  std::_Exit(well ? 0 : 1);
}

TEST(DescriptorsDeathTest, TheSoftLimitIsRaisedToTheHardOne) {
  const rlimit low{128, 256};
  EXPECT_EXIT(RaiseFrom(low), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace peercache
