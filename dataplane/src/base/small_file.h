// Small text files of /sys and /proc, which hold one value each.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace peercache {

// The contents without white space at both ends; empty when the file cannot be read (a kernel
// answers an attribute that has no value with an error).
std::string ReadSmallFile(const std::string& path);

// The number that `text` begins with, 0x... included; nothing when there is none.
template <typename T>
std::optional<T> ParseLeadingNumber(std::string_view text) {
  const bool hex = text.starts_with("0x");
  if (hex) text.remove_prefix(2);
  T number{};
  std::from_chars_result parsed;
  if constexpr (std::is_floating_point_v<T>)
    parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  else
    parsed = std::from_chars(text.data(), text.data() + text.size(), number, hex ? 16 : 10);
  return parsed.ec == std::errc() ? std::optional(number) : std::nullopt;
}

template <typename T>
std::optional<T> ReadNumber(const std::string& path) {
  return ParseLeadingNumber<T>(ReadSmallFile(path));
}

}  // namespace peercache
