// What outlives the process of clears: in the pool's file and on the drives.
#pragma once

#include "node/clear/clears.h"
#include "node/disk/disk_pages.h"
#include "pool/pool.h"

namespace peercache {

// `options` with what the pool's file and the drives know of clears, and with keeping it there.
// `disk` is null without drives. `others`: there may be members that have heard of clears
// meanwhile.
ClearsOptions KeptClears(ClearsOptions options, const Pool& pool, DiskPages* disk, bool others);

}  // namespace peercache
