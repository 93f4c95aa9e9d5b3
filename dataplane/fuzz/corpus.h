// What those who write seeds share (make_corpus.cc).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz.h"
#include "samples.h"

namespace peercache::fuzz {

void Seed(const std::string& target, const std::string& name, const Blob& bytes);

inline ConstBytes Text(std::string_view text) { return std::as_bytes(std::span(text)); }

inline uint8_t Of(MessageType type) { return static_cast<uint8_t>(type); }

inline ConstBytes Bytes(const Blob& blob) { return std::as_bytes(std::span(blob)); }

// A script under construction.
struct Steps {
  Blob bytes;
  Steps& Add(uint8_t operation, uint8_t argument = 0, ConstBytes with = {}) {
    AppendStep(operation, argument, with, &bytes);
    return *this;
  }
  Steps& Add(uint8_t operation, uint8_t argument, const Blob& with) {
    return Add(operation, argument, Bytes(with));
  }
};

inline Blob With(uint8_t first, const Blob& rest) {
  Blob blob = {first};
  blob.insert(blob.end(), rest.begin(), rest.end());
  return blob;
}

// engine_corpus.cc
void EngineSeeds();
void ClientSeeds();
void RemoteSeeds();
// Of the targets over a fake RDMA device (rdma_corpus.cc).
void ReadChannelSeeds();
void LinksSeeds();
// disk_corpus.cc
void DiskSeeds();

}  // namespace peercache::fuzz
