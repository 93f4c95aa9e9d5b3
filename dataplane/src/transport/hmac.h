// HMAC-SHA256, of which this system makes its proofs and keys.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.h"

namespace peercache {

using HmacDigest = std::array<uint8_t, 32>;

// Fails for want of memory. That must not look like a digest, which both sides would agree on.
Result<HmacDigest> Hmac(std::span<const uint8_t> key, std::span<const uint8_t> text);

inline std::span<const uint8_t> TextBytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace peercache
