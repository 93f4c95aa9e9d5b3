// TierBehind: what the upkeep does for a tier that pages go to when the pool evicts them
// (node/disk). Of a page that both have, the directory knows the pool's.
#pragma once

#include <span>

#include "pool/pool.h"

namespace peercache {

class TierBehind {
 public:
  virtual ~TierBehind() = default;
  // These are out of the pool, and no shard has a record of them. By the room's thread.
  virtual void Evicted(std::span<const Victim> victims) = 0;
  // Tells the directory what has changed since the last call. By the directory's thread.
  virtual void TellDirectory() = 0;
};

}  // namespace peercache
