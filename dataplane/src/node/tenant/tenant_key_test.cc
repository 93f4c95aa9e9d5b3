#include "node/tenant/tenant_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <set>

#include "base/tag.h"
#include "base/temp_dir_testing.h"

namespace peercache {
namespace {

using ::testing::HasSubstr;

constexpr const char* kSecret = "of at least 16 bytes";

Key KeyOf(uint64_t number) {
  Key key;
  for (size_t i = 0; i < key.bytes.size(); i += 8) {
    number = number * 6364136223846793005u + 1442695040888963407u;
    std::memcpy(key.bytes.data() + i, &number, 8);
  }
  return key;
}

TenantBinding BindingOf(const char* tenant, const char* secret = kSecret,
                        const char* cluster = "serving/kv") {
  const auto key = TenantKey::Derive(cluster, tenant, secret);
  EXPECT_TRUE(key.ok());
  auto binding = TenantBinding::Make(&*key);
  EXPECT_TRUE(binding.ok());
  return std::move(*binding);
}

std::vector<Key> Bound(TenantBinding binding, std::vector<Key> keys) {
  EXPECT_TRUE(binding.Bind(keys).ok());
  return keys;
}

std::vector<Key> SomeKeys(size_t count = 1000) {
  std::vector<Key> keys;
  for (size_t i = 0; i < count; ++i) keys.push_back(KeyOf(i));
  return keys;
}

TEST(TenantKeyTest, AKeyDependsOnTenantClusterAndSecret) {
  const std::vector<Key> keys = SomeKeys();
  const auto a = Bound(BindingOf("team-a"), keys);
  EXPECT_EQ(a, Bound(BindingOf("team-a"), keys)) << "nodes agree";
  std::set<Key> all(keys.begin(), keys.end());
  all.insert(a.begin(), a.end());
  for (auto& others :
       {Bound(BindingOf("team-b"), keys), Bound(BindingOf("team-a", "another of 16 bytes"), keys),
        Bound(BindingOf("team-a", ""), keys),
        Bound(BindingOf("team-a", kSecret, "serving/other"), keys)})
    all.insert(others.begin(), others.end());
  EXPECT_EQ(all.size(), 6 * keys.size());
}

TEST(TenantKeyTest, WhereTheNamesMeetMatters) {
  const std::vector<Key> keys = SomeKeys(1);
  EXPECT_NE(Bound(BindingOf("b", kSecret, "a/c"), keys),
            Bound(BindingOf("cb", kSecret, "a/"), keys));
}

// A batch is as its keys one by one, whatever its length.
TEST(TenantKeyTest, KeysOfABatchDoNotTouchEachOther) {
  TenantBinding binding = BindingOf("team-a");
  const std::vector<Key> keys = SomeKeys(600);
  const auto together = Bound(BindingOf("team-a"), keys);
  for (size_t i = 0; i < keys.size(); i += 37) {
    std::vector<Key> one = {keys[i]};
    ASSERT_TRUE(binding.Bind(one).ok());
    EXPECT_EQ(one[0], together[i]) << i;
  }
}

// Whoever chooses keys chooses neither half of what they become, of which hash tables are made.
TEST(TenantKeyTest, NoHalfOfTheResultComesOfOneHalfOfTheKey) {
  Key a = KeyOf(1), same_left = KeyOf(2), same_right = KeyOf(3);
  std::copy_n(a.bytes.begin(), 16, same_left.bytes.begin());
  std::copy_n(a.bytes.begin() + 16, 16, same_right.bytes.begin() + 16);
  const auto bound = Bound(BindingOf("team-a"), {a, same_left, same_right});
  for (int word = 0; word < 4; ++word) {
    EXPECT_NE(bound[0].Word(word), bound[1].Word(word));
    EXPECT_NE(bound[0].Word(word), bound[2].Word(word));
  }
}

TEST(TenantKeyTest, TagsAreBoundToo) {
  TenantBinding a = BindingOf("team-a"), b = BindingOf("team-b");
  std::set<uint64_t> all;
  for (uint64_t tag = 0; tag < 100; ++tag) {
    EXPECT_EQ(*a.BindTag(tag), *a.BindTag(tag));
    all.insert({tag, *a.BindTag(tag), *b.BindTag(tag)});
  }
  EXPECT_EQ(all.size(), 300u);
}

// What clears cost is of a group (base/tag.h).
TEST(TenantKeyTest, TagsOfATenantAreOfAGroupThatIsNotTheSharedTenants) {
  std::set<uint64_t> groups;
  auto shared = TenantBinding::Make(nullptr);
  ASSERT_TRUE(shared.ok());
  for (const char* tenant : {"team-a", "team-b", "team-c"}) {
    TenantBinding binding = BindingOf(tenant);
    const uint64_t group = GroupOf(*binding.BindTag(0));
    for (const uint64_t tag : {uint64_t{1}, uint64_t{2}, UINT64_MAX}) {
      EXPECT_EQ(GroupOf(*binding.BindTag(tag)), group);
      EXPECT_EQ(GroupOf(*shared->BindTag(tag)), 0u);
    }
    EXPECT_NE(group, 0u);
    groups.insert(group);
  }
  EXPECT_EQ(groups.size(), 3u);
}

TEST(TenantKeyTest, TheSharedTenantUsesKeysAsTheyAre) {
  auto shared = TenantBinding::Make(nullptr);
  ASSERT_TRUE(shared.ok());
  EXPECT_EQ(*shared->BindTag(77), 77u);
  EXPECT_EQ(Bound(std::move(*shared), SomeKeys()), SomeKeys());
}

TEST(TenantKeyTest, NamesAreThoseOfNamespaces) {
  for (const char* good : {"a", "team-a", "7", "kube-system"}) EXPECT_TRUE(IsTenantName(good));
  EXPECT_TRUE(IsTenantName(std::string(63, 'x')));
  EXPECT_FALSE(IsTenantName(std::string(64, 'x')));
  for (const char* bad : {"", "..", "A", "a.b", "a_b", "-a", "a-", "a/b", "\xc3\xa4"})
    EXPECT_FALSE(IsTenantName(bad)) << bad;
}

TEST(TenantKeyTest, ASecretIsReadWithoutItsLineEndAndRefusedWhenItIsNone) {
  const testing::TempDir dir;
  const auto file = [&](const std::string& contents) {
    const std::string path = dir.path() + "/secret";
    std::ofstream(path) << contents;
    return ReadTenantSecret(path);
  };
  EXPECT_EQ(*file(std::string(kSecret) + "\r\n"), kSecret);
  for (const auto& refused : {file(""), file("short\n"), file("fifteen bytes!!"),
                              file("0123456789abcdef"), ReadTenantSecret("/does/not/exist")}) {
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(refused.status().message(), HasSubstr("at least 128"));
    EXPECT_THAT(refused.status().message(), HasSubstr("openssl rand -hex 32"));
  }
  EXPECT_THAT(ReadTenantSecret("/does/not/exist").status().message(), HasSubstr("/does/not/exist"));
}

TEST(TenantKeyTest, ASecretHasANameThatDoesNotTellIt) {
  const testing::TempDir dir;
  const std::string path = dir.Write("secret", "of sixteen bytes and more");
  const auto name = TenantSecretName("a", path);
  ASSERT_TRUE(name.ok());
  EXPECT_EQ(name->size(), 16u);
  EXPECT_EQ(*TenantSecretName("a", path), *name);
  EXPECT_NE(*TenantSecretName("b", path), *name);
  EXPECT_EQ(*TenantSecretName("a", ""), "none");
  dir.Write("secret", "of sixteen bytes, another one");
  EXPECT_NE(*TenantSecretName("a", path), *name);
  dir.Write("secret", "short");
  EXPECT_FALSE(TenantSecretName("a", path).ok());
}

}  // namespace
}  // namespace peercache
