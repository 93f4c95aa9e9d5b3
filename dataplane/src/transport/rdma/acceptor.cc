#include "transport/rdma/acceptor.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>

#include "transport/rdma/queue_pair.h"

namespace peercache::rdma {

std::vector<int> PairRails(std::span<const QueueAddress> reader, std::span<const QueueAddress> here,
                           std::span<const uint8_t> up) {
  std::vector<int> pairs(reader.size(), -1);
  std::vector<uint32_t> used(here.size(), 0);
  for (size_t r = 0; r < reader.size(); ++r) {
    const bool known = std::any_of(reader[r].network.begin(), reader[r].network.end(),
                                   [](uint8_t byte) { return byte != 0; });
    int best = -1;
    bool best_near = false;
    for (size_t i = 0; i < here.size(); ++i) {
      // From the reader's position on, so that equals are spread.
      const size_t h = (i + r) % here.size();
      if (!up[h] || here[h].ethernet != reader[r].ethernet) continue;
      const bool near = known && here[h].network == reader[r].network;
      if (best < 0 || (near && !best_near) ||
          (near == best_near && used[h] < used[static_cast<size_t>(best)])) {
        best = static_cast<int>(h);
        best_near = near;
      }
    }
    pairs[r] = best;
    if (best >= 0) ++used[static_cast<size_t>(best)];
  }
  return pairs;
}

// Of as many queue pairs, until they are gone.
struct Acceptor::Place {
  Place(std::atomic<uint32_t>* counted, uint32_t wanted) : count(counted), reserved(wanted) {}
  ~Place() { count->fetch_sub(reserved); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  std::atomic<uint32_t>* const count;
  const uint32_t reserved;
};

struct Acceptor::Group {
  explicit Group(std::shared_ptr<const Place> taken) : place(std::move(taken)) {}
  // In a thread that serves other peers as well: it must not wait for a peer that is gone.
  ~Group() {
    for (auto& [rail, qp] : queues) {
      StopQueuePair(*rail, qp.get());
      rail->disposer().Take({place, nullptr, nullptr, std::move(qp)});
    }
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  const std::shared_ptr<const Place> place;
  std::vector<std::pair<Rail*, QpHandle>> queues;
};

Acceptor::Acceptor(const Rails* rails, std::shared_ptr<const Registration> pool,
                   uint32_t max_queues)
    : rails_(rails), pool_(std::move(pool)), max_queues_(max_queues) {}

// The last queue pairs use cqs_ and count in queues_.
Acceptor::~Acceptor() { rails_->Drain(); }

Result<std::unique_ptr<Acceptor>> Acceptor::Make(const Rails* rails,
                                                 std::shared_ptr<const Registration> pool,
                                                 uint32_t max_queues) {
  auto acceptor = std::unique_ptr<Acceptor>(new Acceptor(rails, std::move(pool), max_queues));
  for (const auto& rail : rails->all()) {
    CqHandle cq(rail->verbs().create_cq(rail->context(), 1, nullptr, nullptr, 0));
    if (!cq)
      return FromErrno(fmt::format("rail {}: creating a completion queue", rail->name()), errno);
    acceptor->cqs_.push_back(std::move(cq));
  }
  return acceptor;
}

Result<Acceptor::Queues> Acceptor::Accept(const ConnectRequest& request, ConnectOk* answer) {
  const auto wanted = static_cast<uint32_t>(request.queues.size());
  auto group = std::make_shared<Group>(std::make_shared<const Place>(&queues_, wanted));
  if (queues_.fetch_add(wanted) + wanted > max_queues_) {
    ++refused_;
    return ResourceExhausted(
        fmt::format("this node answers at most {} queue pairs (rdma-max-queues), {} are taken",
                    max_queues_, queues_.load() - wanted));
  }
  std::vector<QueueAddress> here;
  std::vector<uint8_t> up;
  for (const auto& rail : rails_->all()) {
    here.push_back(rail->address());
    up.push_back(rail->up());
  }
  const auto pairs = PairRails(request.queues, here, up);
  answer->pool = reinterpret_cast<uint64_t>(pool_->bytes().data());
  answer->pool_bytes = pool_->bytes().size();
  answer->chunk_bytes = pool_->chunk_bytes();
  answer->queues.assign(request.queues.size(), {});
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (pairs[i] < 0 || request.queues[i].queue == 0) continue;
    const auto r = static_cast<size_t>(pairs[i]);
    Rail& rail = (*rails_)[r];
    auto qp = MakeQueuePair(rail, cqs_[r].get(), {}, IBV_ACCESS_REMOTE_READ);
    Status s = qp.ok() ? ReadyToReceive(rail, qp->get(), request.queues[i]) : qp.status();
    if (!s.ok()) {
      spdlog::warn("a peer cannot read over rail {}: {}", rail.name(), s.ToString());
      continue;
    }
    ConnectOk::Served& served = answer->queues[i];
    served.queue = AddressOf(rail, **qp, RandomSequence());
    for (size_t c = 0; c < pool_->chunks(); ++c) served.rkeys.push_back(pool_->rkey(r, c));
    group->queues.emplace_back(&rail, std::move(*qp));
  }
  return Queues(std::move(group));
}

}  // namespace peercache::rdma
