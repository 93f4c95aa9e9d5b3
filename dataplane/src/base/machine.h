// Which machine this is: nodes of one kernel, in whatever containers, have the same number.
#pragma once

#include <cstdint>

namespace peercache {

// 0 when it cannot be told. Two machines have the same one by a chance of one in 2^32.
uint32_t ThisMachine();

}  // namespace peercache
