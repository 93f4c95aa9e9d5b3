#include "transport/peer_key.h"

#include <gtest/gtest.h>

#include <set>

namespace peercache {
namespace {

const Hello kHello{"kv", "10.0.0.2:31998", 1, 11, 5, 77, {1, 2, 3}};
const Challenge kChallenge{2, 22, 6, {4, 5, 6}, {}};

PeerKey KeyOf(std::string_view cluster, std::string_view secret) {
  const auto key = DeriveKey(cluster, secret);
  EXPECT_TRUE(key.ok());
  return *key;
}

Proof ProofOf(const PeerKey& key, PeerRole role, const Hello& hello, const Challenge& challenge) {
  const auto proof = Prove(key, role, hello, challenge);
  EXPECT_TRUE(proof.ok());
  return *proof;
}

TEST(PeerKeyTest, AKeyIsOfOneClusterAndOneSecret) {
  const PeerKey key = KeyOf("inference/kv", "a secret of the two");
  EXPECT_NE(key.id, 0u);
  EXPECT_EQ(key.bytes, KeyOf("inference/kv", "a secret of the two").bytes);
  for (const PeerKey& other : {KeyOf("inference/kv", "another secret"),
                               KeyOf("other/kv", "a secret of the two"), KeyOf("", "")}) {
    EXPECT_NE(key.id, other.id);
    EXPECT_NE(key.bytes, other.bytes);
  }
}

// A proof is good for nothing but what it was made for: every word of both messages counts.
TEST(PeerKeyTest, AProofIsOfOneConnectionInOneDirection) {
  const PeerKey key = KeyOf("kv", "a secret of the two");
  std::set<Proof> proofs = {ProofOf(key, PeerRole::kCaller, kHello, kChallenge),
                            ProofOf(key, PeerRole::kAnswerer, kHello, kChallenge),
                            ProofOf(KeyOf("kv", "b"), PeerRole::kCaller, kHello, kChallenge)};
  EXPECT_EQ(proofs.size(), 3u);
  const auto differs = [&](auto change) {
    Hello hello = kHello;
    Challenge challenge = kChallenge;
    change(&hello, &challenge);
    return proofs.insert(ProofOf(key, PeerRole::kCaller, hello, challenge)).second;
  };
  EXPECT_TRUE(differs([](Hello* h, Challenge*) { h->cluster = "kw"; }));
  EXPECT_TRUE(differs([](Hello* h, Challenge*) { h->to = "10.0.0.3:31998"; }));
  EXPECT_TRUE(differs([](Hello* h, Challenge*) { h->to = ""; }));
  EXPECT_TRUE(differs([](Hello* h, Challenge*) { ++h->node; }));
  EXPECT_TRUE(differs([](Hello* h, Challenge*) { ++h->incarnation; }));
  EXPECT_TRUE(differs([](Hello* h, Challenge*) { ++h->machine; }));
  EXPECT_TRUE(differs([](Hello* h, Challenge*) { h->nonce[31] = 1; }));
  EXPECT_TRUE(differs([](Hello*, Challenge* c) { ++c->node; }));
  EXPECT_TRUE(differs([](Hello*, Challenge* c) { ++c->incarnation; }));
  EXPECT_TRUE(differs([](Hello*, Challenge* c) { ++c->machine; }));
  EXPECT_TRUE(differs([](Hello*, Challenge* c) { c->nonce[31] = 1; }));
  EXPECT_FALSE(differs([](Hello*, Challenge* c) { c->proof[0] = 1; })) << "it is no part of it";
}

TEST(PeerKeyTest, EqualIsEveryByte) {
  const Proof a{1, 2, 3};
  for (size_t i = 0; i < a.size(); ++i) {
    Proof b = a;
    b[i] ^= 0x80;
    EXPECT_FALSE(Same(a, b)) << i;
  }
  EXPECT_TRUE(Same(a, Proof{1, 2, 3}));
}

TEST(PeerKeyTest, NoncesDoNotComeAgain) {
  std::set<Nonce> seen;
  for (int i = 0; i < 1000; ++i) {
    const auto nonce = FreshNonce();
    ASSERT_TRUE(nonce.ok());
    EXPECT_TRUE(seen.insert(*nonce).second);
  }
}

}  // namespace
}  // namespace peercache
