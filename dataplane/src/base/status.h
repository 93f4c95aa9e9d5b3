// Status and Result: how every fallible call of the data plane reports.
//
// No exception crosses a C++/Python or a thread boundary; a function that can fail returns Status
// or Result<T>. A Status is cheap when ok (no allocation). Thread-safe as any value type.
//
//   Result<int> fd = OpenThing(path);
//   if (!fd.ok()) return fd.status().Annotate("opening the pool");
#pragma once

#include <cassert>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace peercache {

enum class Code : uint8_t {
  kOk = 0,
  kNotFound = 1,
  kInvalidArgument = 2,    // the caller's input is wrong; the message names field, value and fix
  kUnavailable = 3,        // the other side is gone, refuses, or its breaker is open
  kDeadlineExceeded = 4,   // no answer in time
  kResourceExhausted = 5,  // a configured bound was reached
  kCorrupt = 6,            // bytes arrived that cannot be right
  kUnauthenticated = 7,
  kAborted = 8,  // overtaken: another incarnation, epoch or generation exists
  kInternal = 9,
};

std::string_view CodeName(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  // "unavailable: connecting to 10.0.0.1:31998: refused"
  std::string ToString() const;
  // The same failure with what was being done in front of it.
  Status Annotate(std::string_view doing) const;

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

inline Status InvalidArgument(std::string m) { return {Code::kInvalidArgument, std::move(m)}; }
inline Status Unavailable(std::string m) { return {Code::kUnavailable, std::move(m)}; }
inline Status DeadlineExceeded(std::string m) { return {Code::kDeadlineExceeded, std::move(m)}; }
inline Status ResourceExhausted(std::string m) { return {Code::kResourceExhausted, std::move(m)}; }
inline Status Corrupt(std::string m) { return {Code::kCorrupt, std::move(m)}; }
inline Status Internal(std::string m) { return {Code::kInternal, std::move(m)}; }
// errno as a Status: "what: strerror (errno N)".
Status FromErrno(std::string_view what, int error_number);

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)) { assert(!status_.ok()); }  // NOLINT

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace peercache
