#include "wire/fabric.h"

#include <limits>

namespace peercache {

void ConnectRequest::Encode(FrameWriter* w) const {
  w->Put(static_cast<uint32_t>(queues.size()));
  w->PutSpan(std::span(queues));
}

bool ConnectRequest::Decode(FrameReader* r) {
  r->GetInto(r->GetCount(kMaxQueues), &queues);
  return r->AtEnd();
}

void ConnectOk::Encode(FrameWriter* w) const {
  w->Put(static_cast<uint8_t>(later));
  if (later) return;
  w->Put(pool);
  w->Put(pool_bytes);
  w->Put(chunk_bytes);
  w->Put(static_cast<uint32_t>(queues.size()));
  for (const Served& served : queues) {
    w->Put(served.queue);
    w->Put(static_cast<uint32_t>(served.rkeys.size()));
    w->PutSpan(std::span(served.rkeys));
  }
}

bool ConnectOk::Decode(FrameReader* r) {
  const auto when = r->Get<uint8_t>();
  *this = {};
  later = when != 0;
  if (later) return when == 1 && r->AtEnd();
  pool = r->Get<uint64_t>();
  pool_bytes = r->Get<uint64_t>();
  chunk_bytes = r->Get<uint64_t>();
  queues.resize(r->GetCount(kMaxQueues));
  for (Served& served : queues) {
    served.queue = r->Get<QueueAddress>();
    r->GetInto(r->GetCount(kMaxPoolChunks), &served.rkeys);
  }
  if (!r->AtEnd() || chunk_bytes == 0 || pool_bytes > std::numeric_limits<uint64_t>::max() - pool)
    return false;
  const uint64_t chunks = pool_bytes / chunk_bytes + (pool_bytes % chunk_bytes != 0);
  for (const Served& served : queues)
    if (served.queue.queue != 0 && (chunks == 0 || served.rkeys.size() != chunks)) return false;
  return true;
}

}  // namespace peercache
