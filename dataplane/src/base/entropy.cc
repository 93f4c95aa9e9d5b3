#include "base/entropy.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace peercache {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsHex(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool IsBase64(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view("+/-_=").find(c) != std::string_view::npos;
}
bool IsPrintable(char c) { return c >= ' ' && c <= '~'; }

constexpr std::pair<bool (*)(char), int> kAlphabets[] = {
    {IsDigit, 10}, {IsHex, 16}, {IsBase64, 64}, {IsPrintable, 95}};

}  // namespace

double EntropyBits(std::string_view secret) {
  int letters = 256;
  for (const auto& [has, size] : kAlphabets)
    if (std::ranges::all_of(secret, has)) letters = std::min(letters, size);
  return static_cast<double>(secret.size()) * std::log2(letters);
}

}  // namespace peercache
