// The files of the dashboard, as they are in node/report/web; cmake/web.cmake makes them part of
// the program.
#pragma once

#include <span>
#include <string_view>

namespace peercache {

struct WebFile {
  std::string_view path;  // of the request
  const char* type;
  std::string_view content;
};

std::span<const WebFile> WebFiles();

}  // namespace peercache
