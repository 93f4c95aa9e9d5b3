#include "base/seeded_hash.h"

#include "base/random.h"

namespace peercache {

const SeededHash::Seed& SeededHash::OfProcess() {
  static const Seed seed{RandomNumber(), RandomNumber(), RandomNumber(), RandomNumber()};
  return seed;
}

}  // namespace peercache
