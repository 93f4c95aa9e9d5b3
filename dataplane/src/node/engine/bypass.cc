#include "node/engine/bypass.h"

#include <spdlog/spdlog.h>

namespace peercache {
namespace {

// A file that is not there yet is one without a line.
std::string ReadOrNothing(const std::string& path) {
  Result<std::string> contents = ReadSmallFile(path, FileWatch::kMaxBytes);
  return contents.ok() ? *std::move(contents) : "";
}

}  // namespace

Bypass::Bypass(const std::string& path, Duration look_every) {
  if (path.empty()) return;
  const std::string contents = ReadOrNothing(path);
  Set(contents);
  watch_.emplace(std::vector{path}, Contents{contents}, look_every,
                 [this](const Contents& now) { Set(now[0]); });
}

void Bypass::Set(const std::string& contents) {
  const bool on = contents.substr(0, contents.find('\n')) == "on";
  if (on_.exchange(on, std::memory_order_relaxed) == on) return;
  if (on)
    spdlog::warn("bypass-file: on: gets of engines are misses, and their sets are refused");
  else
    spdlog::warn("bypass-file: off: engines use the cache again");
}

}  // namespace peercache
