// FairOrder: which page of one size goes next, where several tenants share the pool. Replicas go
// before all other pages, the one that was not used for longest first. Then goes the oldest page
// of the tenants that have their fair share (shares.h), in the order of the policy, which each
// tenant has for itself. Pages of the others stay, unless `spare` is off.
//
// Costs: Insert, Use and Remove are O(1); the first page of a tenant allocates its order. Next
// looks at the age of one page for each tenant that has had pages of this size, 65 at most.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "pool/eviction.h"
#include "pool/lru.h"
#include "pool/shares.h"
#include "pool/slot.h"

namespace peercache {

class FairOrder final : public EvictionOrder {
 public:
  using Make = std::function<std::unique_ptr<EvictionOrder>()>;

  // `shares` outlives the order.
  FairOrder(const PoolShares* shares, Make make) : shares_(shares), make_(std::move(make)) {
    (void)OrderOf(TenantNumber{0});
  }

  void Insert(Slot* slot) override { OrderOf(*slot).Insert(slot); }
  void Use(Slot* slot) override { OrderOf(*slot).Use(slot); }
  void Remove(Slot* slot, bool evicted) override { OrderOf(*slot).Remove(slot, evicted); }

  Slot* Next() override {
    Slot* replica = replicas_.Next();
    replica_next_ = replica != nullptr;
    if (replica_next_) return replica;
    last_ = nullptr;
    Tried tried{};
    while (EvictionOrder* order = Oldest(&tried)) {
      Slot* slot = order->Next();
      if (slot == nullptr) continue;  // all are pinned
      last_ = order;
      return slot;
    }
    return nullptr;
  }
  void Peek(size_t most, std::vector<const Slot*>* next) const override {
    const size_t enough = next->size() + most;
    replicas_.Peek(most, next);
    Tried tried{};
    while (next->size() < enough) {
      const EvictionOrder* order = Oldest(&tried);
      if (order == nullptr) return;
      order->Peek(enough - next->size(), next);
    }
  }
  // Of what Next() said last: pages of other sizes do not go before a replica of this one.
  uint64_t Age() const override {
    if (replica_next_) return 0;
    return last_ != nullptr ? last_->Age() : UINT64_MAX;
  }

  Slot* NextReplica() { return replicas_.Next(); }
  // Off: pages of tenants below their share go, too.
  void Spare(bool on) { spare_ = on; }

 private:
  struct Tenant {
    TenantNumber number = 0;
    std::unique_ptr<EvictionOrder> order;
  };
  using Tried = std::array<bool, kTenantNumbers>;  // by tenant

  EvictionOrder& OrderOf(const Slot& slot) {
    return slot.replica ? static_cast<EvictionOrder&>(replicas_)
                        : OrderOf(static_cast<TenantNumber>(slot.tenant));
  }
  EvictionOrder& OrderOf(TenantNumber number) {
    if (at_[number] == 0) {
      tenants_.push_back({number, make_()});
      at_[number] = static_cast<uint8_t>(tenants_.size());
    }
    return *tenants_[at_[number] - 1u].order;
  }
  // Of those that have not been tried yet, the one whose next page is the oldest.
  EvictionOrder* Oldest(Tried* tried) const {
    const Tenant* oldest = nullptr;
    uint64_t age = UINT64_MAX;
    for (const Tenant& tenant : tenants_) {
      if ((*tried)[tenant.number] || (spare_ && shares_->Spared(tenant.number))) continue;
      const uint64_t of = tenant.order->Age();
      if (of >= age) continue;  // it has none, if it is the first
      age = of;
      oldest = &tenant;
    }
    if (oldest == nullptr) return nullptr;
    (*tried)[oldest->number] = true;
    return oldest->order.get();
  }

  const PoolShares* const shares_;
  const Make make_;
  LruOrder replicas_;
  std::vector<Tenant> tenants_;               // that have had pages of this size
  std::array<uint8_t, kTenantNumbers> at_{};  // where in tenants_, from 1; 0: nowhere
  const EvictionOrder* last_ = nullptr;       // whose page Next() has named
  bool replica_next_ = false, spare_ = true;
};

}  // namespace peercache
