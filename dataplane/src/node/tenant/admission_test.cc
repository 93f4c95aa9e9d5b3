#include "node/tenant/admission.h"

#include <gtest/gtest.h>

#include <vector>

namespace peercache {
namespace {

using Refusal = Admission::Refusal;

// Seats of one tenant, of ever new processes, until it is refused.
std::vector<Admission::Seat> TakeAll(Admission* admission, TenantNumber tenant,
                                     uint64_t process = 0) {
  std::vector<Admission::Seat> seats;
  for (;;) {
    seats.push_back(admission->Admit(tenant, process));
    if (seats.back().refusal() == Refusal::kNone) continue;
    seats.pop_back();
    return seats;
  }
}

TEST(AdmissionTest, ATenantAloneHasAll) {
  Admission admission(64);
  admission.SetKnown(0, true);
  auto seats = TakeAll(&admission, 0);
  EXPECT_EQ(seats.size(), 64u);
  const auto refused = admission.Admit(0, 0);
  EXPECT_EQ(refused.refusal(), Refusal::kFull);
  EXPECT_EQ(refused.limit(), 64u);
  seats.pop_back();
  EXPECT_EQ(admission.Admit(0, 0).refusal(), Refusal::kNone);
  EXPECT_EQ(admission.SessionsOf(0), 63u) << "seats that are given up are free";
}

TEST(AdmissionTest, OthersFindTheirReserveHoweverManyAreTaken) {
  Admission admission(64);
  for (TenantNumber tenant = 0; tenant <= 2; ++tenant) admission.SetKnown(tenant, true);
  const auto greedy = TakeAll(&admission, 1);
  EXPECT_EQ(greedy.size(), 64u - 2 * Admission::kReserve);
  EXPECT_EQ(TakeAll(&admission, 2).size(), size_t{Admission::kReserve});
  EXPECT_EQ(TakeAll(&admission, 0).size(), size_t{Admission::kReserve});
}

TEST(AdmissionTest, WhoComesWhenAllIsTakenStillHasItsReserve) {
  Admission admission(64);
  const auto first = TakeAll(&admission, 1);
  ASSERT_EQ(first.size(), 64u);
  std::vector<std::vector<Admission::Seat>> all;
  for (TenantNumber tenant = 2; tenant < kTenantNumbers; ++tenant) {
    admission.SetKnown(tenant, true);
    all.push_back(TakeAll(&admission, tenant));
    ASSERT_EQ(all.back().size(), size_t{Admission::kReserve});
  }
}

TEST(AdmissionTest, WhatAReserveHasNotUsedIsKeptWhileItsTenantIsKnown) {
  Admission admission(16);
  admission.SetKnown(1, true);
  EXPECT_EQ(TakeAll(&admission, 0).size(), 8u);
  admission.SetKnown(1, false);
  EXPECT_EQ(TakeAll(&admission, 0).size(), 16u);
}

TEST(AdmissionTest, AProcessHasHalfAtMost) {
  Admission admission(64);
  const auto one = TakeAll(&admission, 0, 4711);
  EXPECT_EQ(one.size(), 32u);
  const auto refused = admission.Admit(0, 4711);
  EXPECT_EQ(refused.refusal(), Refusal::kProcess);
  EXPECT_EQ(refused.limit(), 32u);
  EXPECT_EQ(TakeAll(&admission, 0, 4712).size(), 32u);
}

TEST(AdmissionTest, SmallLimitsAreWhatTheySay) {
  for (const uint32_t most : {1u, 2u, 5u}) {
    Admission admission(most);
    EXPECT_EQ(TakeAll(&admission, 0).size(), most);
    EXPECT_EQ(TakeAll(&admission, 0, 4711).size(), (most + 1) / 2);
  }
}

}  // namespace
}  // namespace peercache
