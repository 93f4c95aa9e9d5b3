#include "capi/error.h"

#include <algorithm>
#include <cstring>

namespace peercache::capi {
namespace {

// Plain bytes, so that a thread that ends has nothing to destroy.
thread_local char last_error[1024];

}  // namespace

int Fail(int code, std::string_view text) noexcept {
  const size_t size = std::min(text.size(), sizeof(last_error) - 1);
  std::memcpy(last_error, text.data(), size);
  last_error[size] = '\0';
  return code;
}

int Fail(const Status& status) noexcept {
  switch (status.code()) {
    case Code::kInvalidArgument: return Fail(PC_EINVAL, status.message());
    case Code::kResourceExhausted: return Fail(PC_EFULL, status.message());
    default: return Fail(PC_EREFUSED, status.message());
  }
}

}  // namespace peercache::capi

const char* pc_error() { return peercache::capi::last_error; }
