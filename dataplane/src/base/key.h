// Key: the 32-byte name of a page. Digest of (namespace digest, SGLang page hash, rank identity),
// so its bytes are uniformly distributed, unless somebody chooses keys: seeded_hash.h.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>

namespace peercache {

struct Key {
  std::array<uint8_t, 32> bytes{};

  // By words: for so few bytes a call of memcmp takes longer than the comparison.
  friend bool operator==(const Key& a, const Key& b) {
    return ((a.Word(0) ^ b.Word(0)) | (a.Word(1) ^ b.Word(1)) | (a.Word(2) ^ b.Word(2)) |
            (a.Word(3) ^ b.Word(3))) == 0;
  }
  friend auto operator<=>(const Key&, const Key&) = default;

  // A uniformly distributed word of the key; `index` 0..3 gives independent words. Word 0 places
  // the key on the ring: a shard holds arcs of it, so a table by the same word would be lopsided.
  uint64_t Word(int index) const {
    uint64_t word;
    std::memcpy(&word, bytes.data() + 8 * index, sizeof(word));
    return word;
  }
  // First eight bytes in hex: enough for a log line.
  std::string ShortHex() const {
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    for (int i = 0; i < 8; ++i) {
      text += kDigits[bytes[i] >> 4];
      text += kDigits[bytes[i] & 15];
    }
    return text;
  }
};

}  // namespace peercache
