// ChecksumPolicy: which pages carry a checksum and are verified when they are read. The protocol
// alone keeps readers from wrong bytes; checksums guard against what it cannot see: memory errors,
// a broken NIC, a bug.
//
// Sampling is decided by the key, so that the writer computes exactly the checksums that readers
// will want, and a page is verified always or never.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

#include "base/key.h"
#include "base/status.h"

namespace peercache {

enum class ChecksumPolicy : uint8_t { kOff, kSampled, kAll };

inline constexpr uint64_t kChecksumSample = 16;  // one page in so many

inline Result<ChecksumPolicy> ParseChecksumPolicy(std::string_view text) {
  if (text == "off") return ChecksumPolicy::kOff;
  if (text == "sampled") return ChecksumPolicy::kSampled;
  if (text == "all") return ChecksumPolicy::kAll;
  return InvalidArgument(fmt::format("\"{}\" is none of off, sampled, all", text));
}

inline std::string_view ChecksumPolicyName(ChecksumPolicy policy) {
  switch (policy) {
    case ChecksumPolicy::kOff: return "off";
    case ChecksumPolicy::kSampled: return "sampled";
    case ChecksumPolicy::kAll: return "all";
  }
  return "unknown";
}

inline bool ChecksumWanted(ChecksumPolicy policy, const Key& key) {
  return policy == ChecksumPolicy::kAll ||
         (policy == ChecksumPolicy::kSampled && key.Word(2) % kChecksumSample == 0);
}

}  // namespace peercache
