#include "pool/fingerprint.h"

#include <fmt/format.h>

#include <algorithm>

namespace peercache {
namespace {

constexpr size_t kMostShown = 80;  // of a value, in a message

// The value of the line; empty when there is none.
std::string_view ValueOf(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.size() > name.size() && line.starts_with(name) && line[name.size()] == '=')
      return line.substr(name.size() + 1);
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return {};
}

// Bytes that may be anybody's, in a line of the log.
std::string Shown(std::string_view value) {
  std::string text(value.substr(0, kMostShown));
  for (char& c : text)
    if (c < ' ' || c > '~') c = '?';
  return text.empty() ? "unknown" : text;
}

}  // namespace

std::string FingerprintText(const Fingerprint& fingerprint) {
  std::string text;
  for (const auto& [name, value] : fingerprint) text += name + "=" + value + "\n";
  return text;
}

std::string FingerprintDifference(std::string_view was, const Fingerprint& is) {
  std::string difference;
  for (const auto& [name, value] : is) {
    const std::string_view before = ValueOf(was, name);
    if (before == value) continue;
    difference += fmt::format("{}{} was {} and is {}", difference.empty() ? "" : ", ", name,
                              Shown(before), Shown(value));
  }
  if (difference.empty() && was != FingerprintText(is))
    return "it has more than this release knows";
  return difference;
}

}  // namespace peercache
