#include "base/size.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <limits>

namespace peercache {
namespace {

constexpr std::string_view kPrefixes = "KMGTPE";

Status BadSize(std::string_view text, std::string_view why) {
  return InvalidArgument(fmt::format(
      "size \"{}\" {}; write bytes or a unit of 1024, e.g. 4Gi, 512Mi, 4gb", text, why));
}

// Powers of 1024 that `unit` stands for; -1 when it is no unit.
int UnitPower(std::string_view unit) {
  if (unit.empty() || unit == "b") return 0;
  const size_t prefix = kPrefixes.find(static_cast<char>(std::toupper(unit[0])));
  if (prefix == std::string_view::npos) return -1;
  const std::string_view rest = unit.substr(1);
  return rest == "i" || rest == "b" || rest == "ib" ? static_cast<int>(prefix) + 1 : -1;
}

}  // namespace

Result<uint64_t> ParseSize(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::result_out_of_range) return BadSize(text, "is 16Ei or more");
  if (error != std::errc()) return BadSize(text, "does not start with a whole number");
  std::string unit(end, text.data() + text.size());
  if (!unit.empty() && unit[0] == '.')
    return BadSize(text, "has a fraction (use the next smaller unit)");
  for (char& c : unit) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (unit.size() == 1 && UnitPower(unit + "i") > 0)
    return BadSize(text, fmt::format("is ambiguous: \"{}\" is 1000-based to some and 1024-based to "
                                     "others",
                                     unit));
  const int power = UnitPower(unit);
  if (power < 0) return BadSize(text, fmt::format("has the unknown unit \"{}\"", unit));
  if (number > std::numeric_limits<uint64_t>::max() >> (10 * power))
    return BadSize(text, "is 16Ei or more");
  return number << (10 * power);
}

std::string FormatSize(uint64_t bytes) {
  size_t power = 0;
  while (power < kPrefixes.size() && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++power;
  }
  return power == 0 ? fmt::format("{}", bytes) : fmt::format("{}{}i", bytes, kPrefixes[power - 1]);
}

}  // namespace peercache
