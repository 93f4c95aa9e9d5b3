#include "node/report/places.h"

#include <gtest/gtest.h>

namespace peercache {
namespace {

TEST(Places, OfPathsTheLastPartStays) {
  EXPECT_EQ(WithoutPlaces("/disks/nvme0"), "nvme0");
  EXPECT_EQ(WithoutPlaces("opening /disks/nvme0/: Input/output error (is \"/disks\" mounted?)"),
            "opening nvme0: Input/output error (is \"disks\" mounted?)");
  EXPECT_EQ(WithoutPlaces("disk-path=/a/b,/c/d; remove /c/d."), "disk-path=b,d; remove d.");
}

TEST(Places, AddressesAndHostsAreHidden) {
  EXPECT_EQ(WithoutPlaces("10.0.0.7:31998: connection refused"), "...: connection refused");
  EXPECT_EQ(WithoutPlaces("none (kv.inference.svc:31998, [fd00::7]:31998) answers"),
            "none (..., [...]:31998) answers");
  EXPECT_EQ(WithoutPlaces("its GIDs are ::ffff:10.0.0.7 and fe80::; ask for 10.1.0.0/16."),
            "its GIDs are ... and ...; ask for ....");
}

TEST(Places, TheRestOfTheTextStays) {
  for (const char* text :
       {"", " ", "joining: waiting for the members to prepare",
        "mlx5_0:1: the port is DOWN (2: Polling): check the cable and set eth0 up",
        "fake0:1: no RoCEv2 GID, only RoCEv1: Linux 5.12 or later, rdma-core 28.0.",
        "TCP, as configured", "0 addresses, 50% of 200 Gb/s and/or 1:2"})
    EXPECT_EQ(WithoutPlaces(text), text);
}

}  // namespace
}  // namespace peercache
