// Tenants on real nodes: engines of one never see, change or drop pages of another, on no node.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "node/integration/node_testing.h"
#include "wire/messages.h"
#include "wire/stream.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;
using testing::Eventually;
using ::testing::HasSubstr;
using testing::TestCluster;
using testing::TestEngine;

constexpr size_t kPage = 64 << 10, kPages = 8;

class TenantsTest : public ::testing::Test {
 protected:
  TenantsTest() : secret_(dir_.path() + "/secret") {
    std::ofstream(secret_) << "of at least 16 bytes\n";
  }
  // With a folder for each tenant.
  std::unique_ptr<Node> Start(const std::string& id,
                              std::vector<std::string> tenants = {"a", "b"}) {
    MakeDirectory(Folder(id));
    for (const std::string& tenant : tenants) MakeDirectory(Folder(id) + "/" + tenant);
    return cluster_.Start(id);
  }
  static void MakeDirectory(const std::string& path) { std::filesystem::create_directory(path); }
  std::string Folder(const std::string& node) const { return dir_.path() + "/" + node; }
  // Of the node "n1": its own socket is called that, so those of tenants are.
  std::string Socket(const std::string& node, const std::string& tenant) const {
    return fmt::format("{}/{}/{}.sock", Folder(node), tenant, node);
  }
  TestEngine Engine(const std::string& node, const std::string& tenant) const {
    return TestEngine(Socket(node, tenant), 2 * kPages, kPage);
  }
  // Sets under the first keys the pages `number` and following, whose bytes differ from those that
  // TestEngine::Set stores under these keys.
  static size_t SetOthers(TestEngine* engine, uint64_t number) {
    for (size_t i = 0; i < kPages; ++i) engine->Write(i, number + i);
    std::vector<uint8_t> ok(kPages);
    engine->client().Set(TestEngine::Keys(0, kPages), engine->Segments(kPages), 2, 1, ok);
    return static_cast<size_t>(std::ranges::count(ok, 1));
  }
  // Pages under the first keys that are `number` and following; others that came are reported.
  static size_t GetOthers(TestEngine* engine, uint64_t number) {
    std::vector<uint8_t> ok(kPages);
    engine->client().Get(TestEngine::Keys(0, kPages), engine->Segments(kPages), 2, ok);
    size_t right = 0;
    for (size_t i = 0; i < kPages; ++i) {
      if (ok[i] == 0) continue;
      EXPECT_TRUE(engine->Holds(i, number + i)) << "page " << i;
      ++right;
    }
    return right;
  }
  static void ExpectNothing(TestEngine engine) {
    EXPECT_EQ(engine.Exists(0, kPages), 0u);
    EXPECT_EQ(engine.Get(0, kPages).hits, 0u);
    std::vector<uint8_t> there(kPages);
    EXPECT_TRUE(engine.client().Presence(TestEngine::Keys(0, kPages), there));
    EXPECT_EQ(std::ranges::count(there, 1), 0);
  }
  static nlohmann::json Status(const Node& node) {
    return nlohmann::json::parse(node.StatusJson());
  }

  testing::TempDir dir_;
  std::string secret_;
  std::function<void(NodeConfig*)> tweak_ = [](NodeConfig*) {};
  TestCluster cluster_{[this](NodeConfig* c) {
    c->tenants_dir = Folder(c->node_id);
    c->tenant_secret_file = secret_;
    tweak_(c);
  }};
};

TEST_F(TenantsTest, PagesOfAnotherTenantAreMissesOnEveryNode) {
  const auto one = Start("n1"), two = Start("n2");
  ASSERT_EQ(Engine("n1", "a").Set(0, kPages), kPages);
  for (const char* node : {"n1", "n2"}) {
    EXPECT_EQ(Engine(node, "a").Exists(0, kPages), kPages) << "the tenant shares across nodes";
    EXPECT_EQ(Engine(node, "a").Get(0, kPages).hits, kPages);
    ExpectNothing(Engine(node, "b"));
  }
  ExpectNothing(TestEngine(one->socket(), 2 * kPages, kPage));
  ExpectNothing(TestEngine(two->socket(), 2 * kPages, kPage));
}

TEST_F(TenantsTest, EachTenantHasItsOwnPageUnderAKey) {
  const auto one = Start("n1"), two = Start("n2");
  TestEngine a = Engine("n1", "a"), b = Engine("n1", "b"), shared(one->socket(), kPages, kPage);
  ASSERT_EQ(a.Set(0, kPages), kPages);
  ASSERT_EQ(SetOthers(&b, 1000), kPages);
  ASSERT_EQ(SetOthers(&shared, 2000), kPages);
  for (const char* node : {"n1", "n2"}) {
    TestEngine other = Engine(node, "b");
    EXPECT_EQ(Engine(node, "a").Get(0, kPages).hits, kPages);
    EXPECT_EQ(GetOthers(&other, 1000), kPages);
  }
  TestEngine far(two->socket(), kPages, kPage);
  EXPECT_EQ(GetOthers(&far, 2000), kPages);
}

TEST_F(TenantsTest, AClearDropsPagesOfItsTenantOnly) {
  const auto one = Start("n1"), two = Start("n2");
  TestEngine a = Engine("n1", "a"), b = Engine("n2", "b"), shared(two->socket(), kPages, kPage);
  ASSERT_EQ(a.Set(0, kPages, 7), kPages);
  ASSERT_EQ(b.Set(0, kPages, 7), kPages);
  ASSERT_EQ(shared.Set(0, kPages, 7), kPages);
  EXPECT_TRUE(b.client().Clear(7).ok());
  EXPECT_TRUE(shared.client().Clear(7).ok());
  EXPECT_EQ(b.Exists(0, kPages), 0u);
  EXPECT_EQ(shared.Exists(0, kPages), 0u);
  for (const char* node : {"n1", "n2"}) EXPECT_EQ(Engine(node, "a").Exists(0, kPages), kPages);
  EXPECT_TRUE(Engine("n2", "a").client().Clear(7).ok());
  for (const char* node : {"n1", "n2"}) EXPECT_EQ(Engine(node, "a").Exists(0, kPages), 0u);
}

TEST_F(TenantsTest, TheNodesOwnSocketMayBeATenantsToo) {
  tweak_ = [](NodeConfig* c) { c->tenant = "a"; };
  const auto one = Start("n1"), two = Start("n2");
  TestEngine own(one->socket(), kPages, kPage);
  ASSERT_EQ(own.Set(0, kPages), kPages);
  EXPECT_EQ(Engine("n2", "a").Get(0, kPages).hits, kPages);
  ExpectNothing(Engine("n1", "b"));
  EXPECT_EQ(Status(*one)["engines"][0]["tenant"], "a");
}

TEST_F(TenantsTest, WithoutAnOwnSocketThereAreThoseOfTenants) {
  tweak_ = [](NodeConfig* c) { c->socket.clear(), c->group = "n1"; };
  const auto node = Start("n1");
  EXPECT_EQ(Engine("n1", "a").Set(0, kPages), kPages);
}

TEST_F(TenantsTest, NodesOfOtherSecretsHaveOtherPages) {
  const auto one = Start("n1");
  ASSERT_EQ(Engine("n1", "a").Set(0, kPages), kPages);
  std::ofstream(secret_) << "another one of 16 bytes";
  const auto two = Start("n2");
  ExpectNothing(Engine("n2", "a"));
  tweak_ = [](NodeConfig* c) { c->tenant_secret_file.clear(); };
  const auto three = Start("n3");
  ExpectNothing(Engine("n3", "a"));
}

TEST_F(TenantsTest, ASecretThatIsNoneKeepsTheNodeFromStarting) {
  MakeDirectory(Folder("n1"));
  std::ofstream(secret_, std::ios::trunc) << "short";
  const auto node = Node::Start(cluster_.Config("n1"));
  ASSERT_FALSE(node.ok());
  for (const std::string& part : {std::string("tenant-secret-file"), secret_, std::string("128"),
                                  std::string("openssl rand -hex 32")})
    EXPECT_THAT(node.status().message(), HasSubstr(part));
}

TEST_F(TenantsTest, ADirectoryThatIsMissingKeepsTheNodeFromStarting) {
  const auto node = Node::Start(cluster_.Config("n1"));
  ASSERT_FALSE(node.ok());
  EXPECT_THAT(node.status().message(), HasSubstr("tenants-dir"));
  EXPECT_THAT(node.status().message(), HasSubstr(Folder("n1")));
  EXPECT_FALSE(std::filesystem::exists(cluster_.Config("n1").socket)) << "nothing is left behind";
}

TEST_F(TenantsTest, FoldersThatComeAreServedAndThoseThatGoAreNot) {
  const auto node = Start("n1", {"a"});
  MakeDirectory(Folder("n1") + "/late");
  EXPECT_TRUE(Eventually(20s, [&] { return ConnectUnix(Socket("n1", "late")).ok(); }));
  TestEngine late = Engine("n1", "late"), a = Engine("n1", "a");
  ASSERT_EQ(late.Set(0, kPages), kPages);
  std::filesystem::remove_all(Folder("n1") + "/late");
  EXPECT_TRUE(Eventually(20s, [&] {
    // The reserve of a tenant that is gone is nobody's; its engine is still there.
    return !std::filesystem::exists(Socket("n1", "late")) && Status(*node)["tenants"].size() == 3;
  }));
  EXPECT_EQ(late.Get(0, kPages).hits, kPages) << "engines that are attached stay";
  MakeDirectory(Folder("n1") + "/late");
  EXPECT_TRUE(Eventually(20s, [&] { return ConnectUnix(Socket("n1", "late")).ok(); }));
  EXPECT_EQ(Engine("n1", "late").Get(0, kPages).hits, kPages) << "its pages are its own again";
  EXPECT_EQ(a.Exists(0, kPages), 0u);
}

TEST_F(TenantsTest, ASocketThatWasDeletedIsMadeAgain) {
  const auto node = Start("n1", {"a"});
  std::filesystem::remove(Socket("n1", "a"));
  EXPECT_TRUE(Eventually(20s, [&] { return ConnectUnix(Socket("n1", "a")).ok(); }));
}

TEST_F(TenantsTest, LinksAndOtherNamesAreLeftAlone) {
  MakeDirectory(Folder("n1"));
  const std::string elsewhere = dir_.path() + "/elsewhere";
  MakeDirectory(elsewhere);
  std::filesystem::create_directory_symlink(elsewhere, Folder("n1") + "/link");
  std::ofstream(Folder("n1") + "/file") << "x";
  const auto node = Start("n1", {"a", "Team_A", ".hidden"});
  EXPECT_TRUE(ConnectUnix(Socket("n1", "a")).ok());
  EXPECT_TRUE(std::filesystem::is_empty(elsewhere));
  EXPECT_TRUE(std::filesystem::is_empty(Folder("n1") + "/Team_A"));
  EXPECT_EQ(Status(*node)["unserved_tenants"], 0);
}

// A tenant that may write into its folder gets nothing by it.
TEST_F(TenantsTest, ALinkInPlaceOfTheSocketIsNotFollowed) {
  const std::string victim = dir_.path() + "/victim";
  std::ofstream(victim) << "x";
  std::filesystem::permissions(victim, std::filesystem::perms::owner_read);
  MakeDirectory(Folder("n1"));
  MakeDirectory(Folder("n1") + "/a");
  std::filesystem::create_symlink(victim, Socket("n1", "a"));
  const auto node = Start("n1", {});
  EXPECT_TRUE(ConnectUnix(Socket("n1", "a")).ok()) << "it was replaced";
  EXPECT_EQ(std::filesystem::status(victim).permissions(), std::filesystem::perms::owner_read);
}

TEST_F(TenantsTest, WhatCannotBeServedIsTriedAgain) {
  MakeDirectory(Folder("n1"));
  MakeDirectory(Folder("n1") + "/a");
  MakeDirectory(Socket("n1", "a"));  // in the way
  const auto node = Start("n1", {"b"});
  EXPECT_EQ(Status(*node)["unserved_tenants"], 1);
  std::filesystem::remove(Socket("n1", "a"));
  EXPECT_TRUE(Eventually(20s, [&] { return ConnectUnix(Socket("n1", "a")).ok(); }));
  EXPECT_TRUE(Eventually(20s, [&] { return Status(*node)["unserved_tenants"] == 0; }));
}

TEST_F(TenantsTest, TheSixtyFifthTenantWaitsForAPlace) {
  std::vector<std::string> tenants;
  for (size_t i = 0; i < kMostTenants + 1; ++i) tenants.push_back(fmt::format("t{}", i));
  const auto node = Start("n1", tenants);
  const auto served = [&] {
    return std::ranges::count_if(
        tenants, [&](const std::string& t) { return ConnectUnix(Socket("n1", t)).ok(); });
  };
  EXPECT_EQ(served(), static_cast<long>(kMostTenants));
  EXPECT_EQ(Status(*node)["unserved_tenants"], 1);
  for (const std::string& tenant : tenants) {
    if (!ConnectUnix(Socket("n1", tenant)).ok()) continue;
    std::filesystem::remove_all(Folder("n1") + "/" + tenant);
    break;
  }
  EXPECT_TRUE(Eventually(20s, [&] { return Status(*node)["unserved_tenants"] == 0; }));
  EXPECT_EQ(served(), static_cast<long>(kMostTenants));
}

Result<uint64_t> Attach(int fd, uint64_t session) {
  FrameWriter w;
  w.Start(MessageType::kAttach, 1);
  AttachRequest{session, "engine", "0"}.Encode(&w);
  if (peercache::Status s = SendFrame(fd, w.Finish(), -1, Clock::now() + 5s); !s.ok()) return s;
  ReceivedFrame frame;
  if (peercache::Status s = ReceiveFrame(fd, Clock::now() + 20s, &frame); !s.ok()) return s;
  FrameReader body(frame.body);
  ErrorMessage error;
  if (frame.header.type == MessageType::kError && error.Decode(&body)) return error.status;
  AttachOk ok;
  if (!ok.Decode(&body)) return Corrupt("malformed AttachOk");
  return ok.session;
}

TEST_F(TenantsTest, NobodyJoinsTheSessionOfAnotherTenant) {
  const auto node = Start("n1");
  const auto a = ConnectUnix(Socket("n1", "a")), b = ConnectUnix(Socket("n1", "b")),
             also_a = ConnectUnix(Socket("n1", "a")), own = ConnectUnix(node->socket());
  ASSERT_TRUE(a.ok() && b.ok() && also_a.ok() && own.ok());
  const auto session = Attach(a->get(), 0);
  ASSERT_TRUE(session.ok());
  EXPECT_EQ(Attach(b->get(), *session).status().code(), Code::kAborted);
  EXPECT_EQ(Attach(own->get(), *session).status().code(), Code::kAborted);
  EXPECT_TRUE(Attach(also_a->get(), *session).ok());
}

TEST_F(TenantsTest, TheMemoryOfATenantsEnginesTogetherIsBounded) {
  tweak_ = [](NodeConfig* c) { c->max_tenant_memory = 3 * kPages * kPage; };
  const auto node = Start("n1");
  TestEngine first = Engine("n1", "a");  // 2 * kPages
  auto second = Client::Connect({.socket = Socket("n1", "a"), .engine = "second"});
  ASSERT_TRUE(second.ok());
  const auto memory = MappedRegion::Create("second", 2 * kPages * kPage, HugePages::kOff);
  ASSERT_TRUE(memory.ok());
  const auto refused = (*second)->RegisterRegion(memory->fd(), memory->data(), memory->size());
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.ToString(), HasSubstr("--max-tenant-memory"));
  EXPECT_TRUE((*second)->RegisterRegion(memory->fd(), memory->data(), kPages * kPage).ok());
  TestEngine other = Engine("n1", "b");
  EXPECT_EQ(other.Set(0, kPages), kPages);
  const nlohmann::json status = Status(*node);
  for (const auto& tenant : status["tenants"]) {
    if (tenant["name"] != "a") continue;
    EXPECT_EQ(tenant["shared_bytes"], 3 * kPages * kPage);
    EXPECT_EQ(tenant["engines"], 2);
    EXPECT_EQ(tenant["refused"]["memory"], 1);
  }
}

class TenantsRaceTest : public TenantsTest, public ::testing::WithParamInterface<uint32_t> {};

// One of a tenant writes into its pages while they arrive. What comes of it stays in its tenant,
// though another one gets pages of the same keys at the same time, whether pages that are read
// often are kept (promotion-percent) or brought anew each time.
TEST_P(TenantsRaceTest, WhatAnEngineWritesDuringItsGetReachesNoOtherTenant) {
  tweak_ = [](NodeConfig* c) {
    c->least_promotion_bytes = kPage;
    c->promotion_percent = GetParam();
    c->checksums = ChecksumPolicy::kOff;
  };
  const auto holder = Start("n1"), node = Start("n2");
  TestEngine set_a = Engine("n1", "a"), set_b = Engine("n1", "b");
  ASSERT_EQ(set_a.Set(0, kPages), kPages);
  ASSERT_EQ(SetOthers(&set_b, 1000), kPages);
  TestEngine a = Engine("n2", "a"), b = Engine("n2", "b");
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> gets{0};
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    const auto segments = a.Segments(kPages);
    std::vector<uint8_t> ok(kPages);
    for (; !stop; ++gets) a.client().Get(TestEngine::Keys(0, kPages), segments, 2, ok);
  });
  threads.emplace_back([&] {
    for (uint64_t n = 5000; !stop; ++n)
      for (const Segment& s : a.Segments(kPages))
        reinterpret_cast<std::atomic<uint64_t>*>(s.address)->store(n, std::memory_order_relaxed);
  });
  size_t hits = 0;
  const auto read = [&] {
    for (int i = 0; i < 20; ++i) hits += GetOthers(&b, 1000);
    return HasFailure() || (hits > 100 * kPages && gets > 100);
  };
  EXPECT_TRUE(Eventually(60s, read)) << hits << " hits, " << gets << " gets of the other";
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(Promotion, TenantsRaceTest, ::testing::Values(0u, 50u));

class TenantsPoolTest : public TenantsTest, public ::testing::WithParamInterface<EvictionPolicy> {};

TEST_P(TenantsPoolTest, AWorkingSetOutlastsAnotherTenantsFlood) {
  tweak_ = [](NodeConfig* c) {
    c->eviction = GetParam();
    c->lease = 50ms;
    c->promotion_percent = 0;
  };
  const auto node = Start("n1");
  constexpr size_t kPool = 32 << 20, kWorkingSet = kPool / 4 / kPage, kBatch = 16;
  TestEngine quiet(Socket("n1", "a"), kWorkingSet, kPage), hog(Socket("n1", "b"), kBatch, kPage);
  ASSERT_EQ(quiet.Set(0, kWorkingSet), kWorkingSet);
  size_t stored = 0;
  uint64_t next = 100'000;
  for (size_t i = 0; i < 200 && stored < 4 * kPool / kPage; ++i, next += kBatch)
    stored += hog.Set(next, kBatch);
  EXPECT_GT(stored, kPool / kPage) << "it is a flood";
  const auto got = quiet.Get(0, kWorkingSet);
  EXPECT_GE(got.hits, kWorkingSet * 95 / 100);
  EXPECT_EQ(got.wrong, 0u);
  uint64_t of_hog = 0;
  const nlohmann::json status = Status(*node);
  for (const auto& tenant : status["tenants"])
    if (tenant["name"] == "b") of_hog = tenant["pool_bytes"];
  EXPECT_GT(of_hog, kPool / 3) << "what nobody else uses is the flood's";
}

INSTANTIATE_TEST_SUITE_P(Policies, TenantsPoolTest,
                         ::testing::Values(EvictionPolicy::kLru, EvictionPolicy::kS3Fifo));

}  // namespace
}  // namespace peercache
