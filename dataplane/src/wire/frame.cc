#include "wire/frame.h"

#include <fmt/format.h>

#include "version.h"

namespace peercache {

Status CheckHeader(const FrameHeader& header) {
  if (header.magic != FrameHeader::kMagic) {
    return Corrupt(fmt::format(
        "frame starts with {:#010x}, expected {:#010x}: the other side does not speak PeerCache",
        header.magic, FrameHeader::kMagic));
  }
  // An Error has one form in all versions: each side can read why the other does not understand it.
  if (header.version != FrameHeader::kVersion && header.type != MessageType::kError) {
    return Corrupt(
        fmt::format("frame has protocol version {}, this side (release {}) speaks {}: run the same "
                    "release on both sides",
                    header.version, kVersion, FrameHeader::kVersion));
  }
  if (header.body_length > kMaxBody) {
    return Corrupt(
        fmt::format("frame body of {} bytes, at most {} allowed", header.body_length, kMaxBody));
  }
  if (header.payload_length > kMaxPayload) {
    return Corrupt(fmt::format("frame payload of {} bytes, at most {} allowed",
                               header.payload_length, kMaxPayload));
  }
  if (header.payload_length != 0 && header.type != MessageType::kReadOk) {
    return Corrupt(
        fmt::format("message type {} cannot carry a payload", static_cast<int>(header.type)));
  }
  return {};
}

}  // namespace peercache
