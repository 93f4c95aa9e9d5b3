#include "base/random.h"

#include <sys/random.h>

#include <cerrno>
#include <cstdlib>

namespace peercache {

uint64_t RandomNumber() {
  uint64_t number = 0;
  while (getrandom(&number, sizeof(number), 0) != sizeof(number))
    if (errno != EINTR) std::abort();  // never for so few bytes
  return number;
}

}  // namespace peercache
