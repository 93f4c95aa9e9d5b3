#include "transport/rdma/acceptor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace peercache::rdma {
namespace {

using ::testing::ElementsAre;

// A RoCE port in network `network`; 0: not known.
QueueAddress In(uint8_t network) {
  QueueAddress address;
  address.ethernet = 1;
  address.network[15] = network;
  return address;
}

constexpr uint8_t kUp[] = {1, 1, 1, 1};

TEST(PairRailsTest, PortsOfOneNetworkFindEachOther) {
  const QueueAddress reader[] = {In(1), In(2)}, here[] = {In(2), In(1)};
  EXPECT_THAT(PairRails(reader, here, kUp), ElementsAre(1, 0));
}

TEST(PairRailsTest, InOneNetworkAllPortsAreUsed) {
  const QueueAddress reader[] = {In(1), In(1), In(1)}, here[] = {In(1), In(1), In(1)};
  EXPECT_THAT(PairRails(reader, here, kUp), ElementsAre(0, 1, 2));
}

TEST(PairRailsTest, WithARouterBetweenThemThePositionDecides) {
  const QueueAddress reader[] = {In(1), In(2)}, here[] = {In(11), In(12)};
  EXPECT_THAT(PairRails(reader, here, kUp), ElementsAre(0, 1));
  const QueueAddress unknown[] = {In(0), In(0)};
  EXPECT_THAT(PairRails(unknown, unknown, kUp), ElementsAre(0, 1));
}

TEST(PairRailsTest, FewerRailsHereAnswerMoreThere) {
  const QueueAddress reader[] = {In(1), In(2), In(3)}, here[] = {In(9), In(2)};
  EXPECT_THAT(PairRails(reader, here, kUp), ElementsAre(0, 1, 0));
}

TEST(PairRailsTest, ARailThatIsDownAnswersNobody) {
  const QueueAddress reader[] = {In(1), In(2)}, here[] = {In(1), In(2)};
  const uint8_t one[] = {0, 1}, none[] = {0, 0};
  EXPECT_THAT(PairRails(reader, here, one), ElementsAre(1, 1));
  EXPECT_THAT(PairRails(reader, here, none), ElementsAre(-1, -1));
}

TEST(PairRailsTest, EthernetAndInfiniBandDoNotMeet) {
  QueueAddress infiniband;
  EXPECT_THAT(PairRails(std::span(&infiniband, 1), std::vector{In(1)}, kUp), ElementsAre(-1));
}

}  // namespace
}  // namespace peercache::rdma
