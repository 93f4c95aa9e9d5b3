// Counts what a whole test program allocates, by replacing operator new. To be included by one file
// of the program.
//
//   const uint64_t before = testing::allocations;          // by all threads
//   const uint64_t mine = testing::allocations_here;       // by this one
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace peercache::testing {

std::atomic<uint64_t> allocations{0};
thread_local uint64_t allocations_here = 0;

}  // namespace peercache::testing

// Every form that is not for aligned memory, or one that allocates would meet one of another kind
// that frees. Not inlined: the compiler would take malloc and delete, or new and free, for a
// mismatch.
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  peercache::testing::allocations.fetch_add(1, std::memory_order_relaxed);
  ++peercache::testing::allocations_here;
  return std::malloc(size);
}
[[gnu::noinline]] void* operator new(size_t size) {
  if (void* memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
