// EntropyBits: how hard a secret is to guess at best. One below kMinSecretBits is not taken.
#pragma once

#include <string_view>

namespace peercache {

inline constexpr double kMinSecretBits = 128;

// If it was drawn at random from the smallest of some usual alphabets that has all its bytes: 4 for
// a hexadecimal digit, 6 for one of base64. What a person made up has fewer, which nobody can see.
double EntropyBits(std::string_view secret);

}  // namespace peercache
