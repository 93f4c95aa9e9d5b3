#include "pages.h"

#include <cstring>

#include "base/splitmix.h"

namespace peercache::perf {

Key KeyOf(uint64_t number) { return NumberedKey(number); }

void FillPage(uint64_t number, std::span<std::byte> page) {
  const uint64_t base = SplitMix64(number);
  for (size_t i = 0; i + 8 <= page.size(); i += 8) {
    const uint64_t word = base + i;
    std::memcpy(page.data() + i, &word, 8);
  }
}

}  // namespace peercache::perf
