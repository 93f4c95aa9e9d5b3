// EvictionPolicy: which pages go first. eviction.h says what each does.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace peercache {

enum class EvictionPolicy : uint8_t { kLru, kS3Fifo };

Result<EvictionPolicy> ParseEvictionPolicy(std::string_view text);  // lru | s3fifo
std::string_view EvictionPolicyName(EvictionPolicy policy);

}  // namespace peercache
