// Sizes as people write them, and as messages print them.
//
//   ParseSize("4Gi") == ParseSize("4gb") == ParseSize("4GiB") == ParseSize("4294967296") == 4 << 30
//
// All units are powers of 1024 and case does not matter. A bare K, M, G or T is refused: Kubernetes
// reads it as a power of 1000, most cache tools as a power of 1024, and guessing costs memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace peercache {

// Bytes. Errors quote the text and say what to write instead.
Result<uint64_t> ParseSize(std::string_view text);

// The shortest exact form: "4Gi", "1536Mi", "1000" (no unit divides it).
std::string FormatSize(uint64_t bytes);

}  // namespace peercache
