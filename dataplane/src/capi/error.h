// What a function of libpeercache.h answers when it fails: a code, and the text of pc_error.
//
// Thread-safe: each thread has a text of its own.
#pragma once

#include <exception>
#include <new>
#include <string_view>

#include "base/status.h"
#include "peercache/libpeercache.h"

namespace peercache::capi {

// Keeps `text` for pc_error, cut where it is too long, and returns `code`. Allocates nothing.
int Fail(int code, std::string_view text) noexcept;
// The code of a refusal: PC_EINVAL of an argument that is wrong, PC_EFULL of a bound.
int Fail(const Status& status) noexcept;

// Runs the body of a C function: no exception crosses the border.
template <typename Body>
auto Guarded(Body&& body) noexcept -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return Fail(PC_ENOMEM, "this process has no memory left");
  } catch (const std::exception& error) {
    return Fail(PC_EREFUSED, error.what());
  }
}

}  // namespace peercache::capi
