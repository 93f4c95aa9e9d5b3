// arc4random, which glibc has since 2.36: the C++ runtime of the build machine uses it for
// std::random_device, and images with glibc 2.35 (Ubuntu 22.04) must be able to load the extension.
// Seen by the linker before glibc's; shown to nobody.
#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

extern "C" __attribute__((visibility("hidden"))) uint32_t arc4random() noexcept {
  uint32_t value = 0;
  if (getrandom(&value, sizeof(value), 0) != sizeof(value)) std::abort();  // never for <= 256 bytes
  return value;
}
