#include "node/owner/holdings.h"

namespace peercache {

bool PoolHoldings::Next(uint64_t* at, std::vector<NotedPage>* pages) const {
  std::vector<PageInfo> ready;
  const bool more = pool_->NextReady(at, &ready);
  pages->clear();
  for (const PageInfo& page : ready)
    pages->push_back({{page.offset, page.generation, page.key}, page.published_to});
  return more;
}

Hold PoolHoldings::Take(const PageAt& at, Record* record) {
  PagePin pin = pool_->HoldAt(at.offset, at.generation);
  if (pin) *record = RecordOf(pin);
  return pin;
}

Record PoolHoldings::RecordOf(const PagePin& pin) {
  Record record;
  record.offset = pin.offset();
  record.generation = pin.header().generation;
  record.checksum = pin.header().checksum;
  record.length = pin.header().length;
  record.replica = pin.replica() ? 1 : 0;
  return record;
}

}  // namespace peercache
