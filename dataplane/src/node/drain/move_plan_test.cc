#include "node/drain/move_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace peercache {
namespace {

using ::testing::ElementsAre;

MovePage Page(uint8_t n, uint32_t heat, uint64_t last_use, uint32_t length = 100) {
  MovePage page;
  page.item.key.bytes.fill(n);
  page.item.heat = heat;
  page.item.length = length;
  page.last_use = last_use;
  return page;
}
std::vector<int> Numbers(const std::vector<OfferItem>& items) {
  std::vector<int> numbers;
  for (const OfferItem& item : items) numbers.push_back(item.key.bytes[0]);
  return numbers;
}

TEST(MovePlanTest, MostReadPagesFirstAndOfEqualOnesTheLatest) {
  const std::vector<MovePage> pages{Page(1, 0, 50), Page(2, 3, 10), Page(3, 3, 20), Page(4, 9, 1)};
  EXPECT_THAT(Numbers(ChooseForMove(pages, 1000)), ElementsAre(4, 3, 2, 1));
}

TEST(MovePlanTest, NotAByteMoreThanTheBudget) {
  const std::vector<MovePage> pages{Page(1, 1, 1), Page(2, 2, 1), Page(3, 3, 1)};
  EXPECT_THAT(Numbers(ChooseForMove(pages, 300)), ElementsAre(3, 2, 1));
  EXPECT_THAT(Numbers(ChooseForMove(pages, 299)), ElementsAre(3, 2));
  EXPECT_THAT(Numbers(ChooseForMove(pages, 99)), ElementsAre());
  EXPECT_THAT(Numbers(ChooseForMove(pages, 0)), ElementsAre());
}

TEST(MovePlanTest, WhatIsForgottenOnTheWayWasReadLess) {
  std::vector<MovePage> pages;
  for (uint8_t n = 0; n < 100; ++n) pages.push_back(Page(n, n % 16, n));
  const auto all = ChooseForMove(pages, 20 * 100);
  KeepHottest(20, &pages);
  EXPECT_EQ(Numbers(ChooseForMove(pages, 10'000)), Numbers(all));
  KeepHottest(200, &pages);
  EXPECT_EQ(pages.size(), 20u);
}

std::vector<OfferItem> Items(size_t count, uint32_t length) {
  std::vector<OfferItem> items(count);
  for (size_t i = 0; i < count; ++i) {
    for (size_t b = 0; b < 32; ++b)
      items[i].key.bytes[b] = static_cast<uint8_t>((i + 1) * 2654435761u >> (b % 4 * 8) ^ b);
    items[i].length = length;
  }
  return items;
}
std::map<size_t, size_t> Shares(const std::vector<size_t>& to) {
  std::map<size_t, size_t> shares;
  for (const size_t peer : to) ++shares[peer];
  return shares;
}

TEST(MovePlanTest, PeersTakeByTheRoomThatTheyHave) {
  const std::vector<OfferItem> items = Items(4000, 100);
  const MovePeer peers[] = {{11, 1 << 30}, {22, 3 << 29}, {33, 0}};
  auto shares = Shares(SpreadOver(peers, items));
  EXPECT_NEAR(static_cast<double>(shares[0]), 1600, 400);
  EXPECT_NEAR(static_cast<double>(shares[1]), 2400, 400);
  EXPECT_LE(shares[2], 4u) << "one without room takes nothing while others have some";
}

TEST(MovePlanTest, FullPeersTakeAlike) {
  const std::vector<OfferItem> items = Items(4000, 100);
  const MovePeer peers[] = {{11, 0}, {22, 0}};
  auto shares = Shares(SpreadOver(peers, items));
  EXPECT_NEAR(static_cast<double>(shares[0]), 2000, 400);
}

TEST(MovePlanTest, AnOfferIsOneThatCanBeDecoded) {
  constexpr uint64_t kMost = kMaxOfferedBytes;
  EXPECT_EQ(OneOffer({}, kMost), 0u);
  EXPECT_EQ(OneOffer(Items(5000, 100), kMost), kMaxOffered);
  EXPECT_EQ(OneOffer(Items(100, 8 << 20), kMost), 4u);
  EXPECT_EQ(OneOffer(Items(100, 64 << 20), kMost), 1u);
  EXPECT_EQ(OneOffer(Items(100, 5 << 20), kMost), 6u);
  EXPECT_EQ(OneOffer(Items(100, 5 << 20), 10 << 20), 2u);
  EXPECT_EQ(OneOffer(Items(100, 5 << 20), 0), 1u) << "or nothing would ever move";
  const auto items = Items(6, 5 << 20);
  FrameWriter w;
  w.Start(MessageType::kOffer, 1);
  EncodeOffer(1, 2, items, &w);
  FrameReader body(w.Finish().subspan(sizeof(FrameHeader)));
  OfferRequest offer;
  EXPECT_TRUE(offer.Decode(&body));
}

TEST(MovePlanTest, AllOffersTogetherAreBounded) {
  EXPECT_EQ(ShareOfOffers(0, 1), kMaxOfferedBytes);
  EXPECT_EQ(ShareOfOffers(0, 2), kMaxOfferedBytes);
  EXPECT_EQ(ShareOfOffers(0, 64), kUnderWay / 64);
  EXPECT_EQ(ShareOfOffers(kUnderWay - 100, 2), 50u);
  EXPECT_EQ(ShareOfOffers(kUnderWay, 2), 0u);
  EXPECT_EQ(ShareOfOffers(kUnderWay + 1, 2), 0u) << "of large pages, one each";
  EXPECT_EQ(ShareOfOffers(0, 0), kMaxOfferedBytes);
}

}  // namespace
}  // namespace peercache
