#include "base/status.h"

#include <cstring>
#include <system_error>

namespace peercache {

std::string_view CodeName(Code code) {
  switch (code) {
    case Code::kOk: return "ok";
    case Code::kNotFound: return "not found";
    case Code::kInvalidArgument: return "invalid argument";
    case Code::kUnavailable: return "unavailable";
    case Code::kDeadlineExceeded: return "deadline exceeded";
    case Code::kResourceExhausted: return "resource exhausted";
    case Code::kCorrupt: return "corrupt";
    case Code::kUnauthenticated: return "unauthenticated";
    case Code::kAborted: return "aborted";
    case Code::kInternal: return "internal";
  }
  return "unknown";
}

std::string Status::ToString() const {
  if (ok()) return "ok";
  std::string text(CodeName(code_));
  text += ": ";
  text += message_;
  return text;
}

Status Status::Annotate(std::string_view doing) const {
  if (ok()) return *this;
  std::string text(doing);
  text += ": ";
  text += message_;
  return {code_, std::move(text)};
}

Status FromErrno(std::string_view what, int error_number) {
  std::string text(what);
  text += ": ";
  text += std::generic_category().message(error_number);
  text += " (errno " + std::to_string(error_number) + ")";
  return {Code::kUnavailable, std::move(text)};
}

}  // namespace peercache
