#include "transport/peer_key.h"

#include <openssl/crypto.h>
#include <sys/random.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "transport/hmac.h"

namespace peercache {
namespace {

// Other uses of a secret get other words.
constexpr std::string_view kKeyOf = "peercache peers 1 ", kIdOf = "id";

}  // namespace

Result<PeerKey> DeriveKey(std::string_view cluster, std::string_view secret) {
  std::string words(kKeyOf);
  words += cluster;
  const auto bytes = Hmac(TextBytes(secret), TextBytes(words));
  if (!bytes.ok()) return bytes.status();
  const auto id = Hmac(*bytes, TextBytes(kIdOf));
  if (!id.ok()) return id.status();
  PeerKey key{0, *bytes};
  std::memcpy(&key.id, id->data(), sizeof(key.id));
  if (key.id == 0) key.id = 1;
  return key;
}

Result<Proof> Prove(const PeerKey& key, PeerRole role, const Hello& hello,
                    const Challenge& challenge) {
  // The bytes as they travel, which say where each part ends.
  FrameWriter words;
  words.Start(MessageType::kProve, 0);
  words.Put(role);
  words.Put(hello.machine);
  hello.Encode(&words);
  words.Put(challenge.machine);
  Challenge unproven = challenge;
  unproven.proof = {};
  unproven.Encode(&words);
  const auto text = words.bytes().subspan(sizeof(FrameHeader));
  return Hmac(key.bytes, {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

Result<ProofAsked> Ask(const PeerKey& key, const Hello& hello, const Challenge& self) {
  const auto nonce = FreshNonce();
  if (!nonce.ok()) return nonce.status();
  ProofAsked asked{self, {}, key.id};
  asked.challenge.nonce = *nonce;
  const auto own = Prove(key, PeerRole::kAnswerer, hello, asked.challenge);
  const auto expected = Prove(key, PeerRole::kCaller, hello, asked.challenge);
  if (!own.ok()) return own.status();
  if (!expected.ok()) return expected.status();
  asked.challenge.proof = *own;
  asked.expected = *expected;
  return asked;
}

Result<Proof> Respond(const PeerKey& key, const Hello& hello, const Challenge& challenge) {
  const auto expected = Prove(key, PeerRole::kAnswerer, hello, challenge);
  if (!expected.ok()) return expected.status();
  if (!Same(*expected, challenge.proof))
    return Status(Code::kUnauthenticated, "it does not have the cluster's secret");
  return Prove(key, PeerRole::kCaller, hello, challenge);
}

bool Same(const Proof& a, const Proof& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Result<Nonce> FreshNonce() {
  Nonce nonce;
  ssize_t n = 0;
  do n = getrandom(nonce.data(), nonce.size(), 0);
  while (n < 0 && errno == EINTR);
  if (n != static_cast<ssize_t>(nonce.size())) return FromErrno("drawing a random number", errno);
  return nonce;
}

}  // namespace peercache
