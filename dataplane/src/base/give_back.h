// GiveBack: what is reused from one piece of work to the next does not keep the memory of the
// largest.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace peercache {

// Enough for ordinary work.
inline constexpr size_t kKeptBytes = 64 << 10;

// Empties each vector that has room for more than `most` bytes.
template <typename... T>
void GiveBack(size_t most, std::vector<T>*... vectors) {
  const auto one = [most]<typename U>(std::vector<U>* vector) {
    if (vector->capacity() * sizeof(U) > most) std::vector<U>().swap(*vector);
  };
  (one(vectors), ...);
}

}  // namespace peercache
