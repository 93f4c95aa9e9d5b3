#include "disk/io_engines.h"

#include <fmt/format.h>

namespace peercache::disk {

Result<IoKind> ParseIoKind(std::string_view text) {
  for (const IoKind kind : {IoKind::kAuto, IoKind::kUring, IoKind::kAio, IoKind::kThreads})
    if (text == IoKindName(kind)) return kind;
  return InvalidArgument(fmt::format("disk-io \"{}\": write auto, io_uring, aio or threads", text));
}

std::string_view IoKindName(IoKind kind) {
  switch (kind) {
    case IoKind::kAuto: return "auto";
    case IoKind::kUring: return "io_uring";
    case IoKind::kAio: return "aio";
    case IoKind::kThreads: return "threads";
  }
  return "";
}

Result<ChosenIo> ChooseIo(IoKind kind, int fd, unsigned depth) {
  struct Candidate {
    IoKind kind;
    Result<std::unique_ptr<IoEngine>> (*make)(int fd, unsigned depth);
  };
  constexpr Candidate kCandidates[] = {
      {IoKind::kUring, MakeUring}, {IoKind::kAio, MakeAio}, {IoKind::kThreads, MakeThreads}};
  std::string refused;
  for (const Candidate& candidate : kCandidates) {
    if (kind != IoKind::kAuto && kind != candidate.kind) continue;
    Result<std::unique_ptr<IoEngine>> engine = candidate.make(fd, depth);
    if (engine.ok()) {
      std::string reason(IoKindName(candidate.kind));
      if (!refused.empty()) reason += ", because " + refused;
      return ChosenIo{std::move(engine).value(), std::move(reason)};
    }
    if (!refused.empty()) refused += "; ";
    refused += engine.status().message();
  }
  return Unavailable(fmt::format("disk-io {}: {}; write disk-io auto", IoKindName(kind), refused));
}

}  // namespace peercache::disk
