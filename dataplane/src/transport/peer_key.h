// PeerKey: what nodes of a cluster prove to each other that they have, and never send.
//
//   caller                                      answerer
//   Hello{key id, nonce, to}          ->
//                                     <-        Challenge{nonce, proof of the answerer}
//   Prove{proof of the caller}        ->
//                                     <-        ProveOk; from now on requests are answered
//
// A proof is HMAC-SHA256 under the key, of the role and of all that Hello and Challenge say. So a
// proof is good for one connection, of these two nodes, in one direction: both have drawn a nonce.
// The caller sees the answerer's proof before it says anything else.
//
// The key is derived of the cluster's name and its secret, so equal secrets of two clusters are
// two keys. Its id tells which of several secrets is meant while one replaces another. Who
// listens can try secrets against a proof, as many as it can compute: a secret is to be drawn at
// random (node/peer/secret.h has the least length).
//
// What the proofs do not cover are the bytes that follow. Who can change packets on their way can
// take over a connection: against that there is TLS. `to` keeps others out of the middle: a node
// refuses who has dialled an address that is not its own.
//
// Costs: an HMAC of 200 bytes for each side of each proof, some microseconds, when a connection is
// made. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "wire/messages.h"

namespace peercache {

struct PeerKey {
  uint64_t id = 0;  // not 0
  std::array<uint8_t, 32> bytes{};
};

enum class PeerRole : uint8_t { kCaller = 1, kAnswerer = 2 };

Result<PeerKey> DeriveKey(std::string_view cluster, std::string_view secret);
// `challenge.proof` is not looked at.
Result<Proof> Prove(const PeerKey& key, PeerRole role, const Hello& hello,
                    const Challenge& challenge);

// What a caller has to prove before it is answered anything.
struct ProofAsked {
  Challenge challenge;
  Proof expected{};  // from the caller
  uint64_t key = 0;  // PeerKey::id
};
// The answerer's part. `self`: who it is; nonce and proof are filled in.
Result<ProofAsked> Ask(const PeerKey& key, const Hello& hello, const Challenge& self);
// The caller's part: its own proof, once the challenge has proven that the answerer has the key.
Result<Proof> Respond(const PeerKey& key, const Hello& hello, const Challenge& challenge);

// Takes as long wherever the two differ.
bool Same(const Proof& a, const Proof& b);
Result<Nonce> FreshNonce();

}  // namespace peercache
