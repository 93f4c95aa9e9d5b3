// ReplicasFirst: replicas go before all other pages of their size, the one that was not used for
// longest first; the others in the order of the policy.
#pragma once

#include <memory>
#include <utility>

#include "pool/eviction.h"
#include "pool/lru.h"

namespace peercache {

class ReplicasFirst final : public EvictionOrder {
 public:
  explicit ReplicasFirst(std::unique_ptr<EvictionOrder> others) : others_(std::move(others)) {}

  void Insert(Slot* slot) override { OrderOf(*slot).Insert(slot); }
  void Use(Slot* slot) override { OrderOf(*slot).Use(slot); }
  void Remove(Slot* slot, bool evicted) override { OrderOf(*slot).Remove(slot, evicted); }
  Slot* Next() override {
    Slot* replica = replicas_.Next();
    replica_next_ = replica != nullptr;
    return replica_next_ ? replica : others_->Next();
  }
  void Peek(size_t most, std::vector<const Slot*>* next) const override {
    const size_t before = next->size();
    replicas_.Peek(most, next);
    others_->Peek(most - (next->size() - before), next);
  }
  // Of what Next() said last: pages of other sizes do not go before a replica of this one.
  uint64_t Age() const override { return replica_next_ ? 0 : others_->Age(); }

  Slot* NextReplica() { return replicas_.Next(); }

 private:
  EvictionOrder& OrderOf(const Slot& slot) {
    return slot.replica ? static_cast<EvictionOrder&>(replicas_) : *others_;
  }

  LruOrder replicas_;
  const std::unique_ptr<EvictionOrder> others_;
  bool replica_next_ = false;
};

}  // namespace peercache
