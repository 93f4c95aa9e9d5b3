// The descriptor of a pool that is handed to other processes: through it they read, and neither
// they nor whoever they pass it on to can write, cut the file short or change its mode. Opening it
// anew by way of /proc makes no difference.
//
// Memory of this process alone (a memfd) is sealed against new writable mappings. A file cannot be
// sealed. It is opened through a mount that is read-only: the kernel lets nothing be written there,
// whoever asks.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/memory.h"
#include "base/status.h"

namespace peercache {

// A memfd; sealed from now on.
Result<UniqueFd> ReadableMemory(const MappedRegion& pool);

// The file `path`, which the pool is in. `view` is the same file, or its folder, on a read-only
// mount. Errors begin with "pool-file-view", and say what to do.
Result<UniqueFd> ReadableFile(const MappedRegion& pool, const std::string& path,
                              const std::string& view);

}  // namespace peercache
