#include "transport/rdma/on_demand.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace peercache::rdma {
namespace {

using ::testing::HasSubstr;

TEST(OnDemandPagingTest, NeedsReadOverRc) {
  ibv_odp_caps caps{};
  EXPECT_THAT(CheckOnDemandPaging(caps).message(), HasSubstr("no on-demand paging"));
  caps.per_transport_caps.rc_odp_caps = IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_WRITE;
  EXPECT_FALSE(CheckOnDemandPaging(caps).ok());
  caps.general_caps = IBV_ODP_SUPPORT;
  EXPECT_TRUE(CheckOnDemandPaging(caps).ok());
  caps.per_transport_caps.rc_odp_caps = IBV_ODP_SUPPORT_SEND;
  caps.per_transport_caps.ud_odp_caps = IBV_ODP_SUPPORT_READ;
  EXPECT_THAT(CheckOnDemandPaging(caps).message(),
              HasSubstr("RDMA READ over RC (rc_odp_caps 0x1)"));
}

}  // namespace
}  // namespace peercache::rdma
