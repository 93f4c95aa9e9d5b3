#include "node/engine/uid_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace peercache {
namespace {

TEST(UidListTest, AnyIsTheDefault) {
  EXPECT_TRUE(UidList().Allows(0));
  auto any = UidList::Parse("any");
  ASSERT_TRUE(any.ok());
  EXPECT_TRUE(any->Allows(4'294'967'294));
  EXPECT_EQ(any->ToString(), "any");
}

TEST(UidListTest, OthersThanTheListedAreRefused) {
  auto list = UidList::Parse("1000,0");
  ASSERT_TRUE(list.ok());
  EXPECT_TRUE(list->Allows(1000));
  EXPECT_TRUE(list->Allows(0));
  EXPECT_FALSE(list->Allows(1));
  EXPECT_FALSE(list->Allows(65534));
  EXPECT_EQ(list->ToString(), "1000,0");
}

TEST(UidListTest, SameIsTheUserOfThisProcess) {
  auto list = UidList::Parse("4000000000,same");
  ASSERT_TRUE(list.ok());
  EXPECT_TRUE(list->Allows(geteuid()));
  EXPECT_FALSE(list->Allows(geteuid() + 1));
}

TEST(UidListTest, WhatIsNoUserIsRefusedByName) {
  for (const char* text :
       {"", "all", "1000,", ",1", "-1", "4294967296", "1000 ", "0x10", "any,1"}) {
    auto list = UidList::Parse(text);
    ASSERT_FALSE(list.ok()) << text;
    EXPECT_THAT(list.status().message(), ::testing::HasSubstr("is not a user")) << text;
  }
}

}  // namespace
}  // namespace peercache
