#include "pool/eviction.h"

#include <fmt/format.h>

#include "pool/lru.h"
#include "pool/s3fifo.h"

namespace peercache {

Result<EvictionPolicy> ParseEvictionPolicy(std::string_view text) {
  for (EvictionPolicy policy : {EvictionPolicy::kLru, EvictionPolicy::kS3Fifo})
    if (text == EvictionPolicyName(policy)) return policy;
  return InvalidArgument(fmt::format("\"{}\" is none of lru, s3fifo", text));
}

std::string_view EvictionPolicyName(EvictionPolicy policy) {
  switch (policy) {
    case EvictionPolicy::kLru: return "lru";
    case EvictionPolicy::kS3Fifo: return "s3fifo";
  }
  return "unknown";
}

std::unique_ptr<EvictionOrder> MakeEvictionOrder(EvictionPolicy policy, Ghost* ghost) {
  if (policy == EvictionPolicy::kS3Fifo) return std::make_unique<S3FifoOrder>(ghost);
  return std::make_unique<LruOrder>();
}

}  // namespace peercache
