// TenantKey: what makes the pages of a tenant its own. Every key that an engine names is permuted
// under its tenant's key before the node uses it, and so is the tag of a set or a clear. Engines of
// another tenant that name the same keys therefore name other pages, on every node.
//
//   auto secret = ReadTenantSecret("/etc/peercache/tenant-secret");
//   auto key = TenantKey::Derive("serving/kv", "team-a", *secret);
//   auto binding = TenantBinding::Make(&*key);      // one for each thread
//   binding->Bind(keys);                            // in place
//   tag = *binding->BindTag(tag);
//
// The key is HMAC-SHA256 of the cluster's and the tenant's name under a secret that the nodes
// share. So the nodes agree without a word, and no engine can compute the key of another tenant.
// Of two tenants' keys neither tells anything of the other. To meet a page of somebody else, an
// engine would have to guess a name whose image is that of the page: one in 2^256.
//
// All tags of a tenant are of one group (base/tag.h), which follows from its key as well. The
// shared tenant's are of group 0, of which no other tenant has any.
//
// The permutation is AES-256 twice for each key: L' = E(L), R' = E(R ^ L'), and the result is
// (L' ^ R', R'). It is one to one, so there are no collisions within a tenant. Both halves depend
// on the whole key: ECB of the halves would let an engine choose pages that share a half, of which
// hash tables are made.
//
// The shared tenant, which has no name, has no key: its keys are used as they are.
//
// Costs: two AES blocks and some copies for each key, about 0.1 ms for 16,384 keys with AES
// instructions. A binding is made once for each connection; Bind and BindTag allocate nothing. A
// TenantBinding is for one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/key.h"
#include "base/status.h"

struct evp_cipher_ctx_st;

namespace peercache {

// The contents of the file, without the end of its line. Errors name path, need and fix.
Result<std::string> ReadTenantSecret(const std::string& path);

// A name for the secret in the file, of which nobody can tell the secret; "none" without a path.
Result<std::string> TenantSecretName(std::string_view cluster, const std::string& path);

// Whether the name can be that of a Kubernetes namespace: 1 to 63 lower-case letters, digits and
// '-', which neither begins nor ends it.
bool IsTenantName(std::string_view name);

struct TenantKey {
  std::array<uint8_t, 32> pages{}, tags{};

  // `secret` may be empty: then whoever knows the names can compute the key.
  static Result<TenantKey> Derive(std::string_view cluster, std::string_view tenant,
                                  std::string_view secret);
};

class TenantBinding {
 public:
  // `key` null: of the shared tenant.
  static Result<TenantBinding> Make(const TenantKey* key);

  // Fails if the cipher does, which it has no reason to; the keys must not be used then.
  Status Bind(std::span<Key> keys);
  Result<uint64_t> BindTag(uint64_t tag);

 private:
  struct Free {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  using Cipher = std::unique_ptr<evp_cipher_ctx_st, Free>;
  static Result<Cipher> MakeCipher(const std::array<uint8_t, 32>& key);
  Result<uint64_t> EncryptTag(std::array<uint64_t, 2> block);

  Cipher pages_, tags_;  // null: the shared tenant
  uint64_t group_ = 0;   // of its tags
};

}  // namespace peercache
