#include "transport/hmac.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

namespace peercache {

Result<HmacDigest> Hmac(std::span<const uint8_t> key, std::span<const uint8_t> text) {
  HmacDigest digest{};
  unsigned size = 0;
  // A null pointer would mean the key of the call before.
  static constexpr uint8_t kNoBytes = 0;
  const uint8_t* const bytes = key.empty() ? &kNoBytes : key.data();
  if (HMAC(EVP_sha256(), bytes, static_cast<int>(key.size()), text.data(), text.size(),
           digest.data(), &size) == nullptr ||
      size != digest.size())
    return ResourceExhausted("no memory for HMAC-SHA256");
  return digest;
}

}  // namespace peercache
