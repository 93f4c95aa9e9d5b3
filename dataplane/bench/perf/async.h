// Async: what single requests cost that are made one by one, submitted and awaited together, or
// sent as one batch: N requests of one page each, in rounds.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/status.h"
#include "load.h"

namespace peercache::perf {

enum class AsyncMode {
  kSync,   // one blocking call after the other
  kAsync,  // all submitted to an AsyncClient, then all awaited
  kBatch,  // one blocking call with all pages
};
Result<AsyncMode> ParseAsyncMode(const std::string& name);

// shape.batch is N. A call of the result is a round: the time until all N are done. `window` is the
// AsyncClient's: how many requests are at work at once.
Result<nlohmann::json> Async(const std::string& socket, Op op, AsyncMode mode, size_t window,
                             const Shape& shape);

}  // namespace peercache::perf
