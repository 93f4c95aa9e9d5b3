#include "node/report/places.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "base/interface_address.h"

namespace peercache {
namespace {

constexpr std::string_view kHidden = "...";

bool IsNumber(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

// With a port, or with the length of a subnet, behind `mark`. A rail, such as mlx5_0:1, has no dot.
bool IsPlaceWithNumber(std::string_view word, char mark) {
  const size_t at = word.rfind(mark);
  if (at == std::string_view::npos || !IsNumber(word.substr(at + 1))) return false;
  const std::string_view host = word.substr(0, at);
  return IsAddress(std::string(host)) || (mark == ':' && host.find('.') != std::string_view::npos);
}

bool IsPlaceOnNetwork(std::string_view word) {
  return IsAddress(std::string(word)) || IsPlaceWithNumber(word, ':') ||
         IsPlaceWithNumber(word, '/');
}

// Of a path.
std::string_view LastPart(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path.substr(path.rfind('/') + 1);
}

// The end of a sentence, or what introduces a reason, may stand right behind a place.
bool EndsInMark(std::string_view word) { return word.ends_with(':') || word.ends_with('.'); }

std::string Told(std::string_view word) {
  const std::string_view whole = word;
  // Mark by mark: an address may end in two.
  for (;; word.remove_suffix(1)) {
    if (IsPlaceOnNetwork(word)) return std::string(kHidden) += whole.substr(word.size());
    if (!EndsInMark(word)) break;
  }
  if (!word.starts_with('/')) return std::string(whole);
  return std::string(LastPart(word)) += whole.substr(word.size());
}

}  // namespace

std::string WithoutPlaces(std::string_view text) {
  constexpr std::string_view kBetween = " \t\n\"'`()[]<>,;=";
  std::string result;
  while (!text.empty()) {
    const size_t begin = std::min(text.find_first_not_of(kBetween), text.size());
    const size_t end = std::min(text.find_first_of(kBetween, begin), text.size());
    result += text.substr(0, begin);
    result += Told(text.substr(begin, end - begin));
    text.remove_prefix(end);
  }
  return result;
}

}  // namespace peercache
