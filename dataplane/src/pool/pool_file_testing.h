// Pools that are files, for tests.
#pragma once

#include <string>

#include "base/temp_dir_testing.h"
#include "pool/pool_testing.h"

namespace peercache {

// In a folder of the test's own. What is not said is the same each time.
class PoolFolder {
 public:
  std::unique_ptr<Pool> Start(size_t bytes = 16 * kMiB, Fingerprint identity = {{"node", "a"}},
                              Duration rest = {}) const {
    auto pool = Pool::Create(Options(bytes, std::move(identity), rest));
    EXPECT_TRUE(pool.ok()) << pool.status().ToString();
    return pool.ok() ? std::move(*pool) : nullptr;
  }
  PoolOptions Options(size_t bytes, Fingerprint identity = {{"node", "a"}},
                      Duration rest = {}) const {
    PoolOptions options;
    options.bytes = bytes;
    options.huge_pages = HugePages::kOff;
    options.file = {dir_.path(), "a.pool", std::move(identity), rest};
    return options;
  }
  std::string path() const { return dir_.path() + "/a.pool"; }

 private:
  testing::TempDir dir_{"/dev/shm"};
};

}  // namespace peercache
