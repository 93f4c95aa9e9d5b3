// RandomNumber: 64 bits from the kernel. A system call: for what is rare.
#pragma once

#include <cstdint>

namespace peercache {

uint64_t RandomNumber();

}  // namespace peercache
