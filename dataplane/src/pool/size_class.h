// Size classes: the few payload sizes that slots come in. Pure arithmetic.
//
// Pages of up to 4 KiB share class 0. From there to 2 MiB each doubling has eight steps, above that
// steps are 64 KiB, so rounding wastes at most 12.5 % of the payload, at most 3.2 % over 2 MiB, and
// nothing for powers of two, which is why the classes are of payloads. A slot has 512 bytes more
// (slot_header.h): 0.4 % at 128 KiB, 3.1 % at 16 KiB, 12.5 % at 4 KiB. All class sizes are
// multiples of 512, so every page is aligned to that.
#pragma once

#include <cstddef>
#include <cstdint>

namespace peercache {

using SizeClass = uint32_t;

// Smallest class that holds `length` payload bytes; length >= 1.
SizeClass SizeClassOf(size_t length);
// Largest payload of the class.
size_t PayloadBytes(SizeClass size_class);
// Payload, header and what is before it.
size_t SlotBytes(SizeClass size_class);

}  // namespace peercache
