// Nodes whose packets switches sort differently: both ends of a link see that, and say so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/rdma/fake/fake_testing.h"
#include "transport/rdma/peer_classes.h"

namespace peercache::rdma {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr LinkOptions kLossless{.traffic_class = 104, .service_level = 3};

class ClassesTest : public ::testing::Test {
 protected:
  ClassesTest() { fake.Reset(); }
  static std::unique_ptr<Rails> Node(LinkOptions link, uint8_t last_byte) {
    auto rails = FakeRails(2, link);
    for (const auto& rail : rails->all()) {
      RailAddress address = rail->state().address();
      address.gid.address = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last_byte};
      RailTesting::See(rail.get(), address);
    }
    return rails;
  }
  // A link between nodes of these options; `forget`: of which end's message a member of an older
  // release would know nothing.
  enum class Forgets : uint8_t { kNobody, kReader, kHolder };
  void Link(LinkOptions at_reader, LinkOptions at_holder, Forgets forgets = Forgets::kNobody) {
    reader = Node(at_reader, 1);
    holder = Node(at_holder, 2);
    TestHolder pool(holder.get(), 1 << 16);
    auto channel = ReadChannel::Make(*reader, ~0u);
    ASSERT_TRUE(channel.ok()) << channel.status().ToString();
    ConnectRequest request = (*channel)->request();
    if (forgets == Forgets::kReader)
      for (QueueAddress& queue : request.queues) queue.traffic_class = queue.service_level = 0;
    ConnectOk answer;
    const auto queues = AcceptNow(&pool.acceptor(), request, &answer);
    ASSERT_TRUE(queues.ok()) << queues.status().ToString();
    if (forgets == Forgets::kHolder)
      for (auto& served : answer.queues)
        served.queue.traffic_class = served.queue.service_level = 0;
    const Status s = (*channel)->Establish(answer, Clock::now() + std::chrono::seconds(5));
    ASSERT_TRUE(s.ok()) << s.ToString();
  }
  PeerClasses::Stats Seen(const std::unique_ptr<Rails>& by) { return by->classes().stats(); }

  FakeVerbs& fake = FakeVerbs::Get();
  std::unique_ptr<Rails> reader, holder;
};

TEST_F(ClassesTest, BothEndsSeeThatTheyDiffer) {
  Link(kLossless, {});
  EXPECT_EQ(Seen(reader).links, 1u) << "a link of two rails";
  EXPECT_THAT(Seen(reader).now,
              AllOf(HasSubstr("port 10.0.0.2: rdma-traffic-class is 104 here and 0 there, "
                              "rdma-service-level is 3 here and 0 there"),
                    HasSubstr("set the same on all nodes")));
  EXPECT_EQ(Seen(holder).links, 1u);
  EXPECT_THAT(Seen(holder).now, HasSubstr("port 10.0.0.1: rdma-traffic-class is 0 here and 104"));
}

TEST_F(ClassesTest, OneOfTheTwoSuffices) {
  Link(kLossless, {.traffic_class = 104});
  EXPECT_THAT(Seen(reader).now, HasSubstr("port 10.0.0.2: rdma-service-level is 3 here"));
  EXPECT_EQ(Seen(holder).links, 1u);
}

TEST_F(ClassesTest, ThoseThatAreAlikeSayNothing) {
  Link(kLossless, kLossless);
  for (const auto* end : {&reader, &holder}) {
    EXPECT_EQ(Seen(*end).links, 0u);
    EXPECT_THAT(Seen(*end).now, IsEmpty());
  }
}

TEST_F(ClassesTest, AMemberThatDoesNotSayIsNotBlamed) {
  Link(kLossless, {}, Forgets::kHolder);
  EXPECT_EQ(Seen(reader).links, 0u);
  Link(kLossless, {}, Forgets::kReader);
  EXPECT_EQ(Seen(holder).links, 0u);
}

QueueAddress QueueOf(LinkOptions link, uint8_t number, bool ethernet = true) {
  QueueAddress address;
  address.gid[15] = number;
  address.queue = number;
  address.ethernet = ethernet;
  TellClasses(link, &address);
  return address;
}

TEST(PeerClassesTest, APortThatIsMendedIsNamedNoMore) {
  PeerClasses classes;
  const QueueAddress here[] = {QueueOf(kLossless, 1)}, other[] = {QueueOf({}, 2)},
                     mended[] = {QueueOf(kLossless, 2)};
  classes.Compare(here, other);
  classes.Compare(here, other);
  EXPECT_EQ(classes.stats().links, 2u);
  EXPECT_THAT(classes.stats().now, HasSubstr("104 here and 0 there"));
  classes.Compare(here, mended);
  EXPECT_EQ(classes.stats().links, 2u);
  EXPECT_THAT(classes.stats().now, IsEmpty());
}

TEST(PeerClassesTest, PacketsWithinASubnetOfInfiniBandHaveNoTrafficClass) {
  const QueueAddress here = QueueOf({.traffic_class = 104}, 1, false);
  QueueAddress there = QueueOf({}, 2, false);
  EXPECT_EQ(ClassesDiffer(here, there), "");
  there.network[0] = 1;
  EXPECT_EQ(ClassesDiffer(here, there), "rdma-traffic-class is 104 here and 0 there");
}

TEST(PeerClassesTest, AQueueThatNobodyAnswersIsNoPeer) {
  PeerClasses classes;
  const QueueAddress here[] = {QueueOf(kLossless, 1)};
  const QueueAddress none[] = {QueueOf({}, 0)};
  classes.Compare(here, none);
  EXPECT_EQ(classes.stats().links, 0u);
}

}  // namespace
}  // namespace peercache::rdma
