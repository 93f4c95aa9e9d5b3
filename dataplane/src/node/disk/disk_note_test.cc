#include "node/disk/disk_note.h"

#include <gtest/gtest.h>

namespace peercache {
namespace {

PublishedTo To(std::initializer_list<uint16_t> peers) {
  PublishedTo to;
  for (const uint16_t peer : peers) to.Add(peer);
  return to;
}

TEST(DiskNoteTest, NamesUpToTwoShardsAndElseAll) {
  EXPECT_EQ(ToNote({}), 0u);
  EXPECT_EQ(FromNote(0).count, 0);
  for (const PublishedTo& to : {To({0}), To({7}), To({0, 7}), To({65534, 65533})}) {
    const PublishedTo back = FromNote(ToNote(to));
    EXPECT_EQ(back.count, to.count);
    EXPECT_FALSE(back.everywhere);
    for (int i = 0; i < to.count; ++i) EXPECT_TRUE(back.Contains(to.peers[i]));
  }
  EXPECT_TRUE(FromNote(ToNote(To({1, 2, 3}))).everywhere);
  EXPECT_TRUE(FromNote(ToNote(To({UINT16_MAX}))).everywhere);
}

}  // namespace
}  // namespace peercache
