// The memory of a node: its pool, and out of the same memory the one of the replicas.
#pragma once

#include <memory>

#include "base/sequence.h"
#include "base/status.h"
#include "node/config/config.h"
#include "node/read/replicas.h"
#include "pool/pool.h"

namespace peercache {

struct NodePools {
  std::unique_ptr<Pool> pool;
  std::unique_ptr<Pool> replicas;  // null: there are none
};

// On `numa_node`, -1: anywhere. `generations`, which may be null, outlive the pool. With `rails`
// peers may look into the shard's buckets, which lie beside the pages and are registered with them.
Result<NodePools> MakePools(const NodeConfig& config, int numa_node, Sequence* generations,
                            bool rails);

// What of the pool replicas that are read often may take.
Replicas::Promotion PromotionOf(const NodeConfig& config, Pool* pool);

}  // namespace peercache
