// Load: engines that set, get or look for pages through a node, or the bare limits that bound
// them, for a number of seconds or for one pass over the pages.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "base/status.h"
#include "measure.h"
#include "pages.h"

namespace peercache::perf {

enum class Op { kSet, kGet, kExists, kPresence };

// Every page that Drive has set has this tag.
inline constexpr uint64_t kTag = 0x70657266;
Result<nlohmann::json> Clear(const std::string& socket);

Result<Measurement> Drive(const std::string& socket, Op op, const Shape& shape);

// Gets in turns with another process, so that a host that slows down slows both: reads a number of
// calls from standard input, makes them, and prints the seconds that they took; until its end.
// `keys`, where not empty, is a file with the 32 bytes of each page's key: of the very pages that
// the other process gets, as one page's memory may be slower than another's.
Status GetInTurns(const std::string& socket, const std::string& keys, Shape shape);

}  // namespace peercache::perf
