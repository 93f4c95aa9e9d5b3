#include "node/pools.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "directory/fence.h"
#include "node/tenant/tenant_key.h"

namespace peercache {
namespace {

// A shard has about as many records as a node has pages, and a bucket takes four: with pages of
// 128 KiB one in three hundred finds no place.
size_t BucketBytes(size_t pool_bytes) {
  return std::clamp(pool_bytes / 512, size_t{64} << 10, size_t{1} << 30);
}

}  // namespace

Result<NodePools> MakePools(const NodeConfig& config, int numa_node, Sequence* generations,
                            bool rails) {
  const size_t replicas = Replicas::ShareOf(config.pool_bytes, config.promotion_percent);
  PoolOptions options;
  options.numa_node = numa_node;
  options.bytes = config.pool_bytes - replicas;
  options.huge_pages = config.huge_pages;
  options.eviction = config.eviction;
  options.generations = generations;
  if (!config.pool_file.empty()) {
    const auto secret = TenantSecretName(config.cluster, config.tenant_secret_file);
    if (!secret.ok()) return secret.status().Annotate("tenant-secret-file");
    // A shard that this process cannot reach may serve records of before for the ttl of then.
    options.file = {config.pool_file,
                    config.pool_file_name(),
                    {{"cluster", config.cluster},
                     {"node-id", config.node_id},
                     {"tenant-secret", *secret},
                     {"member-ttl-ms", fmt::format("{}", config.member_ttl.count())}},
                    Padded(config.lease)};
  }
  if (rails && config.one_sided_lookups()) options.beside = BucketBytes(config.pool_bytes);
  NodePools made;
  auto pool = Pool::Create(options);
  if (!pool.ok()) return pool.status();
  made.pool = std::move(*pool);
  if (replicas == 0) return made;
  options.beside = 0;
  options.file = {};
  options.generations = nullptr;
  options.bytes = replicas;
  options.eviction = EvictionPolicy::kLru;
  auto second = Pool::Create(options);
  if (!second.ok()) return second.status();
  made.replicas = std::move(*second);
  return made;
}

Replicas::Promotion PromotionOf(const NodeConfig& config, Pool* pool) {
  Replicas::Promotion promotion;
  const size_t promoted = pool->size() / 100 * config.promotion_percent;
  if (promoted == 0 || promoted < config.least_promotion_bytes) return promotion;
  promotion.pool = pool;
  promotion.bytes = promoted;
  // As much as may ever be kept free for sets.
  promotion.spare =
      static_cast<size_t>(static_cast<double>(pool->size()) * (1 - config.watermarks.low));
  return promotion;
}

}  // namespace peercache
