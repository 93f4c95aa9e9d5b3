// PagePin and Reservation: what callers hold of a pool.
#include <utility>

#include "pool/pool.h"
#include "pool/slot.h"

namespace peercache {

PagePin& PagePin::operator=(PagePin&& other) noexcept {
  if (this == &other) return *this;
  Release();
  slot_ = std::exchange(other.slot_, nullptr);
  offset_ = std::exchange(other.offset_, 0);
  replica_ = std::exchange(other.replica_, false);
  header_ = std::exchange(other.header_, nullptr);
  payload_ = std::exchange(other.payload_, {});
  return *this;
}

void PagePin::Release() {
  // Release: all reads of the page come before whoever sees the count fall. The slot may be gone
  // right after.
  if (Slot* slot = std::exchange(slot_, nullptr); slot != nullptr)
    slot->pins.fetch_sub(1, std::memory_order_release);
  offset_ = 0;
  header_ = nullptr;
  payload_ = {};
}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this == &other) return *this;
  if (pool_ != nullptr) pool_->Abort(slot_);
  pool_ = std::exchange(other.pool_, nullptr);
  slot_ = std::exchange(other.slot_, nullptr);
  generation_ = std::exchange(other.generation_, 0);
  payload_ = std::exchange(other.payload_, {});
  return *this;
}

Reservation::~Reservation() {
  if (pool_ != nullptr) pool_->Abort(slot_);
}

}  // namespace peercache
