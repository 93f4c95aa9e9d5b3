// One valid message of every kind: what the seeds of the corpus are made of.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "wire/messages.h"

namespace peercache::fuzz {

using Blob = std::vector<uint8_t>;

struct Sample {
  const char* name;
  MessageType type;
  void (*encode)(FrameWriter* w);
};
// In the order of the decoders of wire_fuzz.cc.
std::span<const Sample> Samples();
const Sample& Named(std::string_view name);

Blob FrameOf(const Sample& sample);
Blob BodyOf(const Sample& sample);

}  // namespace peercache::fuzz
