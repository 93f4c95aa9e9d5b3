// Functions of libraries that are loaded when they are first asked for.
#pragma once

#include <dlfcn.h>

namespace peercache::rdma {

// *function becomes the function of that name in a library that dlopen has opened. False, and null,
// where it has none.
template <typename Function>
bool FindSymbol(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

}  // namespace peercache::rdma
