// How the threads of engines' connections are shared out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "node/tenant/tenants.h"

namespace peercache {
namespace {

using ::testing::HasSubstr;

// Of processes that are not told apart, until it is refused.
std::vector<Admission::Seat> TakeThreads(Tenants* tenants, const Tenant& tenant, Status* refused) {
  std::vector<Admission::Seat> seats;
  for (;;) {
    auto seat = tenants->AdmitThread(tenant, 0);
    *refused = seat.status();
    if (!seat.ok()) return seats;
    seats.push_back(std::move(*seat));
  }
}

TEST(TenantThreadsTest, OthersFindTheirReserveHoweverManyOneTakes) {
  TenantsOptions options;
  options.threads = {2048, "pids.max of a test"};
  auto made = Tenants::Create(options, nullptr);
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  Tenants& tenants = **made;
  const auto greedy = *tenants.Enter("greedy"), other = *tenants.Enter("other");
  Status refused;
  const auto taken = TakeThreads(&tenants, *greedy, &refused);
  EXPECT_EQ(taken.size(), 1024u - 8);
  EXPECT_EQ(refused.code(), Code::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("tenant greedy has 1016 connections"));
  EXPECT_THAT(refused.message(), HasSubstr("2048 in all (pids.max of a test)"));
  EXPECT_EQ(TakeThreads(&tenants, *other, &refused).size(), 8u);
  const auto late = *tenants.Enter("late");
  EXPECT_EQ(TakeThreads(&tenants, *late, &refused).size(), 8u);
}

TEST(TenantThreadsTest, WithoutALimitTheyAreBoundedByTheEnginesThatMayAttach) {
  TenantsOptions options;
  options.max_engines = 2;
  auto made = Tenants::Create(options, nullptr);
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  const auto tenant = *(*made)->Enter("a");
  Status refused;
  EXPECT_EQ(TakeThreads(made->get(), *tenant, &refused).size(), 256u);
  EXPECT_THAT(refused.message(), HasSubstr("256 in all (max-engines)"));
}

TEST(TenantThreadsTest, TheLeastLimitLetsEnginesAttach) {
  TenantsOptions options;
  options.threads = {0, "pids.max of a test"};
  auto made = Tenants::Create(options, nullptr);
  ASSERT_TRUE(made.ok()) << made.status().ToString();
  const auto tenant = *(*made)->Enter("a");
  Status refused;
  EXPECT_EQ(TakeThreads(made->get(), *tenant, &refused).size(), 4u);
}

}  // namespace
}  // namespace peercache
