#include "base/small_file.h"

#include <fstream>
#include <iterator>

namespace peercache {

std::string ReadSmallFile(const std::string& path) {
  constexpr const char* kSpace = " \t\r\n";
  std::ifstream file(path);
  std::string text(std::istreambuf_iterator<char>(file), {});
  text.erase(text.find_last_not_of(kSpace) + 1);
  return text.erase(0, text.find_first_not_of(kSpace));
}

}  // namespace peercache
