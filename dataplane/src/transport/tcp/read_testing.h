// Answers to Read from a real pool, for the servers of tests.
#pragma once

#include <vector>

#include "pool/pool.h"
#include "transport/tcp/server.h"
#include "wire/messages.h"

namespace peercache::testing {

// Sends the pages that the pool has; the others are absent.
inline void AnswerRead(Pool* pool, const ReadRequest& request, uint64_t request_id,
                       PeerAnswer* answer) {
  answer->Start(MessageType::kReadOk, request_id);
  std::vector<uint32_t> lengths;
  for (const ReadItem& item : request.items) {
    PagePin pin = pool->FindAt(item.offset, item.generation, item.key);
    lengths.push_back(pin ? static_cast<uint32_t>(pin.payload().size()) : 0);
    if (pin) answer->pages.push_back(std::move(pin));
  }
  EncodeReadOk(lengths, &answer->frame);
}

}  // namespace peercache::testing
