#include "pages.h"

#include <cstring>

namespace peercache::perf {
namespace {

uint64_t Mix(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

Key KeyOf(uint64_t number) {
  Key key;
  for (uint64_t i = 0; i < 4; ++i) {
    const uint64_t word = Mix(number * 4 + i);
    std::memcpy(key.bytes.data() + 8 * i, &word, 8);
  }
  return key;
}

void FillPage(uint64_t number, std::span<std::byte> page) {
  const uint64_t base = Mix(number);
  for (size_t i = 0; i + 8 <= page.size(); i += 8) {
    const uint64_t word = base + i;
    std::memcpy(page.data() + i, &word, 8);
  }
}

}  // namespace peercache::perf
