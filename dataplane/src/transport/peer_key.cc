#include "transport/peer_key.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <cerrno>
#include <cstring>
#include <span>
#include <vector>

namespace peercache {
namespace {

// Other uses of a secret get other words.
constexpr std::string_view kKeyOf = "peercache peers 1 ", kIdOf = "id";

using Digest = std::array<uint8_t, 32>;

// Fails for want of memory. That must not look like a digest, which both sides would agree on.
Result<Digest> Hmac(std::span<const uint8_t> key, std::span<const uint8_t> text) {
  Digest digest{};
  unsigned size = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), text.data(), text.size(),
           digest.data(), &size) == nullptr ||
      size != digest.size())
    return ResourceExhausted("no memory for HMAC-SHA256");
  return digest;
}

std::span<const uint8_t> Bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace

Result<PeerKey> DeriveKey(std::string_view cluster, std::string_view secret) {
  std::string words(kKeyOf);
  words += cluster;
  const auto bytes = Hmac(Bytes(secret), Bytes(words));
  if (!bytes.ok()) return bytes.status();
  const auto id = Hmac(*bytes, Bytes(kIdOf));
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
