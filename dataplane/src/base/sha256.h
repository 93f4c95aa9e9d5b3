// SHA-256 (FIPS 180-4), for libraries that cannot bring OpenSSL into an engine's process. About 250
// MB/s: for names and identities, not for pages (checksum.h).
//
//   const Digest digest = Sha256().Add(purpose).Add(name).Finish();
//
// Not thread-safe; each digest has an object of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace peercache {

class Sha256 {
 public:
  using Digest = std::array<uint8_t, 32>;

  Sha256& Add(std::span<const std::byte> bytes);
  Sha256& Add(std::string_view text) { return Add(std::as_bytes(std::span(text))); }
  // Of all that was added. The object is at its end.
  Digest Finish();

 private:
  static constexpr size_t kBlock = 64;

  void Block(const std::byte* block);

  std::array<uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, kBlock> rest_;  // the first total_ % kBlock bytes: not in state_ yet
  uint64_t total_ = 0;
};

}  // namespace peercache
