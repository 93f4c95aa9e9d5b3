#include "node/tenant/tenant_key.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cstring>

#include "base/entropy.h"
#include "base/file_watch.h"
#include "base/tag.h"
#include "transport/hmac.h"

namespace peercache {
namespace {

constexpr size_t kMaxSecretBytes = 4096;
constexpr const char* kMakeOne = "make one with \"openssl rand -hex 32\", the same for all nodes";
// Other uses of a secret get other words.
constexpr std::string_view kKeyOf = "peercache tenants 1 ", kTagsOf = "tags";
constexpr size_t kMaxName = 63;  // of a DNS label
constexpr size_t kBlock = 16;    // of AES
// Keys at once: their halves stay in the first cache.
constexpr size_t kAtOnce = 256;

Status Encrypt(EVP_CIPHER_CTX* cipher, uint8_t* bytes, size_t size) {
  int written = 0;
  if (EVP_EncryptUpdate(cipher, bytes, &written, bytes, static_cast<int>(size)) != 1 ||
      static_cast<size_t>(written) != size)
    return {Code::kInternal, "AES-256 failed"};
  return {};
}

}  // namespace

Result<std::string> ReadTenantSecret(const std::string& path) {
  auto contents = ReadSmallFile(path, kMaxSecretBytes);
  if (!contents.ok()) {
    return InvalidArgument(fmt::format("{}; it needs at least {} bits of secret: {}",
                                       contents.status().message(), kMinSecretBits, kMakeOne));
  }
  while (!contents->empty() && (contents->back() == '\n' || contents->back() == '\r'))
    contents->pop_back();
  if (const double bits = EntropyBits(*contents); bits < kMinSecretBits) {
    return InvalidArgument(
        fmt::format("\"{}\" has at most {:.0f} bits of secret and needs at least {}: {}", path,
                    bits, kMinSecretBits, kMakeOne));
  }
  return contents;
}

Result<std::string> TenantSecretName(std::string_view cluster, const std::string& path) {
  if (path.empty()) return std::string("none");
  const auto secret = ReadTenantSecret(path);
  if (!secret.ok()) return secret.status();
  const auto key = TenantKey::Derive(cluster, ".name", *secret);  // no tenant is called so
  if (!key.ok()) return key.status();
  return fmt::format("{:02x}", fmt::join(key->tags.begin(), key->tags.begin() + 8, ""));
}

bool IsTenantName(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  return !name.empty() && name.size() <= kMaxName && std::ranges::all_of(name, allowed) &&
         name.front() != '-' && name.back() != '-';
}

Result<TenantKey> TenantKey::Derive(std::string_view cluster, std::string_view tenant,
                                    std::string_view secret) {
  std::string words(kKeyOf);
  words += cluster;
  words += '\0';  // in neither name
  words += tenant;
  const auto pages = Hmac(TextBytes(secret), TextBytes(words));
  if (!pages.ok()) return pages.status();
  const auto tags = Hmac(*pages, TextBytes(kTagsOf));
  if (!tags.ok()) return tags.status();
  return TenantKey{*pages, *tags};
}

void TenantBinding::Free::operator()(evp_cipher_ctx_st* context) const {
  EVP_CIPHER_CTX_free(context);
}

Result<TenantBinding::Cipher> TenantBinding::MakeCipher(const std::array<uint8_t, 32>& key) {
  Cipher cipher(EVP_CIPHER_CTX_new());
  if (!cipher ||
      EVP_EncryptInit_ex(cipher.get(), EVP_aes_256_ecb(), nullptr, key.data(), nullptr) != 1 ||
      EVP_CIPHER_CTX_set_padding(cipher.get(), 0) != 1)
    return ResourceExhausted("no memory for AES-256");
  return cipher;
}

Result<TenantBinding> TenantBinding::Make(const TenantKey* key) {
  TenantBinding binding;
  if (key == nullptr) return binding;
  auto pages = MakeCipher(key->pages), tags = MakeCipher(key->tags);
  if (!pages.ok()) return pages.status();
  if (!tags.ok()) return tags.status();
  binding.pages_ = std::move(*pages);
  binding.tags_ = std::move(*tags);
  auto group = binding.EncryptTag({0, 1});  // of no tag
  if (!group.ok()) return group.status();
  binding.group_ = 1 + *group % (kTagGroups - 1);
  return binding;
}

Status TenantBinding::Bind(std::span<Key> keys) {
  if (!pages_) return {};
  using Half = std::array<uint64_t, 2>;
  static_assert(sizeof(Half) == kBlock && sizeof(Key) == 2 * kBlock);
  std::array<Half, kAtOnce> left, right;
  for (size_t at = 0; at < keys.size(); at += kAtOnce) {
    const auto some = keys.subspan(at, std::min(kAtOnce, keys.size() - at));
    const auto encrypt = [&](std::array<Half, kAtOnce>& halves) {
      return Encrypt(pages_.get(), reinterpret_cast<uint8_t*>(halves.data()), some.size() * kBlock);
    };
    for (size_t i = 0; i < some.size(); ++i) left[i] = {some[i].Word(0), some[i].Word(1)};
    if (Status s = encrypt(left); !s.ok()) return s;
    for (size_t i = 0; i < some.size(); ++i)
      right[i] = {some[i].Word(2) ^ left[i][0], some[i].Word(3) ^ left[i][1]};
    if (Status s = encrypt(right); !s.ok()) return s;
    for (size_t i = 0; i < some.size(); ++i) {
      const Half mixed = {left[i][0] ^ right[i][0], left[i][1] ^ right[i][1]};
      std::memcpy(some[i].bytes.data(), mixed.data(), kBlock);
      std::memcpy(some[i].bytes.data() + kBlock, right[i].data(), kBlock);
    }
  }
  return {};
}

Result<uint64_t> TenantBinding::BindTag(uint64_t tag) {
  if (!tags_) return TagIn(group_, tag);
  auto number = EncryptTag({tag, 0});
  if (!number.ok()) return number.status();
  return TagIn(group_, *number);
}

Result<uint64_t> TenantBinding::EncryptTag(std::array<uint64_t, 2> block) {
  static_assert(sizeof(block) == kBlock);
  Status s = Encrypt(tags_.get(), reinterpret_cast<uint8_t*>(block.data()), sizeof(block));
  if (!s.ok()) return s;
  return block[0];
}

}  // namespace peercache
