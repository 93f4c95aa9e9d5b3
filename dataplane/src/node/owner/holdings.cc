#include "node/owner/holdings.h"

namespace peercache {

void PoolHoldings::ForEach(const std::function<void(const NotedPage&)>& fn) const {
  pool_->ForEachReady([&](const PageInfo& page) {
    fn({{page.offset, page.generation, page.key}, page.published_to});
  });
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
