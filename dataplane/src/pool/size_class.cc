#include "pool/size_class.h"

#include <bit>

#include "base/divide.h"
#include "pool/slot_header.h"

namespace peercache {
namespace {

constexpr size_t kSmallest = 4096;
constexpr size_t kSteps = 8;                   // per doubling, up to kFineFrom
constexpr size_t kFineFrom = size_t{2} << 20;  // from here on linear
constexpr size_t kFineStep = size_t{64} << 10;
constexpr SizeClass kFineClass = kSteps * (std::bit_width(kFineFrom / kSmallest) - 1);

}  // namespace

SizeClass SizeClassOf(size_t length) {
  if (length <= kSmallest) return 0;
  if (length > kFineFrom)
    return static_cast<SizeClass>(kFineClass + DivideUp(length - kFineFrom, kFineStep));
  const size_t octave = std::bit_width((length - 1) / kSmallest) - 1;
  const size_t start = kSmallest << octave;
  return static_cast<SizeClass>(kSteps * octave + DivideUp(length - start, start / kSteps));
}

size_t PayloadBytes(SizeClass size_class) {
  if (size_class > kFineClass) return kFineFrom + (size_class - kFineClass) * kFineStep;
  const size_t start = kSmallest << (size_class / kSteps);
  return start + size_class % kSteps * (start / kSteps);
}

size_t SlotBytes(SizeClass size_class) { return kPageAlignment + PayloadBytes(size_class); }

}  // namespace peercache
