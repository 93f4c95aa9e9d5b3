// What a pool that is a file is made with, and how it began (pool_file.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/clock.h"
#include "pool/fingerprint.h"

namespace peercache {

enum class PoolStart : uint8_t {
  kMemory,     // no file: memory of this process alone
  kNew,        // there was no file, or an empty one
  kAdopted,    // with the pages of the process before
  kDifferent,  // emptied: another fingerprint
  kCrashed,    // emptied: a fault ended the process before, which may have written anywhere
  kDamaged,    // emptied: no pool writes this
};
inline constexpr size_t kPoolStarts = 6;
const char* PoolStartName(PoolStart start);

struct PoolFileOptions {
  std::string path;      // the file, or a folder for it
  std::string name;      // of the file in such a folder
  Fingerprint identity;  // whose pool it is; the pool adds what its layout depends on
  // Slots that have no page in a pool that is taken over are not written before this has passed,
  // or more where a process before had more (PoolFile::rest): what that was sending from them, or
  // receiving into them, and what others copy out of them (node/mapped), is over then.
  Duration rest{};
};

}  // namespace peercache
