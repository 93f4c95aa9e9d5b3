// How much of a mapping is in huge pages: those of hugetlb, and transparent ones that the kernel
// maps as such. Devices with which the mapping is registered get it in the same pages: of memory in
// one piece they use as much at once as its addresses in this process are aligned to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace peercache {

// Of pages that have been brought in. Nothing where the kernel does not tell: before Linux 6.7, and
// without /proc. Costs a few nanoseconds for each small page, so for once, not for every scrape; it
// keeps nobody from mapping memory for longer than a millisecond or two at a time.
std::optional<uint64_t> HugeBytes(std::span<const std::byte> mapping);

}  // namespace peercache
