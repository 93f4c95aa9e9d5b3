// Division of sizes that rounds up.
#pragma once

#include <cstddef>

namespace peercache {

constexpr size_t DivideUp(size_t a, size_t b) { return (a + b - 1) / b; }

}  // namespace peercache
