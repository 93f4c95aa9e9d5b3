#include "transport/rdma/acceptor.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <type_traits>

#include "base/clock.h"
#include "transport/rdma/ece.h"
#include "transport/rdma/queue_pair.h"

namespace peercache::rdma {
namespace {

// What a reader waits for the slowest of its rails. Resolving an address that somebody answers to
// takes a packet there and back; for one that nobody does the kernel gives up after a second.
constexpr Duration kPatience = milliseconds(300);

}  // namespace

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
  // What answers one of the reader's queues. The thread of its rail fills it in.
  struct Served {
    Rail* rail = nullptr;
    size_t rail_index = 0;
    RailAddress here;
    std::shared_ptr<const DeviceContext> device;
    QpHandle qp;
    uint32_t sequence = 0;
    uint32_t turn = 0;       // among the queue pairs that have answered over its rail
    bool ece_taken = false;  // what the reader offers
    enum : uint8_t { kConnecting, kConnected, kFailed };
    std::atomic<uint8_t> state{kFailed};  // kConnected: the above may be read
  };
  Group(std::shared_ptr<const Place> taken, std::vector<QueueAddress> reader)
      : place(std::move(taken)), readers(std::move(reader)), served(readers.size()) {}
  // In a thread that serves other peers as well: it must not wait for a peer that is gone.
  ~Group() {
    for (Served& s : served) {
      if (!s.qp) continue;
      StopQueuePair(*s.rail, s.qp.get());
      s.rail->Dispose({.device = std::move(s.device), .keeper = place, .qp = std::move(s.qp)});
    }
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  bool Connecting() const {
    return std::any_of(served.begin(), served.end(),
                       [](const Served& s) { return s.state == Served::kConnecting; });
  }
  const std::shared_ptr<const Place> place;
  const std::vector<QueueAddress> readers;
  const TimePoint begun = Clock::now();
  std::vector<Served> served;
};

Acceptor::Acceptor(const Rails* rails, const RegisteredMemory* registered,
                   std::span<const std::byte> pool, uint32_t max_queues)
    : rails_(rails),
      registered_(registered),
      pool_(pool),
      max_queues_(max_queues),
      turns_(rails->size()) {}

// The last queue pairs count in queues_, and those that connect use this.
Acceptor::~Acceptor() { rails_->Drain(); }

Result<Acceptor::Queues> Acceptor::Accept(const ConnectRequest& request, ConnectOk* answer) {
  *answer = {};
  std::shared_ptr<Group> group = Find(request);
  if (!group) {
    auto begun = Begin(request);
    if (!begun.ok()) return begun.status();
    group = std::move(*begun);
    answer->later = true;
  } else if (group->Connecting() && Clock::now() - group->begun < kPatience) {
    answer->later = true;
  } else {
    Offer(*group, answer);
  }
  return Queues(std::move(group));
}

std::shared_ptr<Acceptor::Group> Acceptor::Find(const ConnectRequest& request) {
  const TimePoint now = Clock::now();
  std::lock_guard lock(mutex_);
  return groups_.Find(request.queues, now);
}

size_t Acceptor::HashOfQueues::operator()(const std::vector<QueueAddress>& queues) const {
  static_assert(std::has_unique_object_representations_v<QueueAddress>);
  return std::hash<std::string_view>()(
      {reinterpret_cast<const char*>(queues.data()), queues.size() * sizeof(QueueAddress)});
}

Result<std::shared_ptr<Acceptor::Group>> Acceptor::Begin(const ConnectRequest& request) {
  const auto wanted = static_cast<uint32_t>(request.queues.size());
  auto group =
      std::make_shared<Group>(std::make_shared<const Place>(&queues_, wanted), request.queues);
  if (queues_.fetch_add(wanted) + wanted > max_queues_) {
    ++refused_;
    return ResourceExhausted(
        fmt::format("this node answers at most {} queue pairs (rdma-max-queues), {} are taken",
                    max_queues_, queues_.load() - wanted));
  }
  std::vector<QueueAddress> here;
  std::vector<uint8_t> up;
  for (const auto& rail : rails_->all()) {
    here.push_back(rail->state().address().ForPeers());
    TellClasses(rail->link(), &here.back());
    up.push_back(rail->up());
  }
  const auto pairs = PairRails(request.queues, here, up);
  std::vector<QueueAddress> ours, theirs;
  std::vector<uint32_t> answers(here.size(), 0);  // over each rail
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (pairs[i] < 0 || request.queues[i].queue == 0) continue;
    Group::Served& served = group->served[i];
    served.rail_index = static_cast<size_t>(pairs[i]);
    served.rail = &(*rails_)[served.rail_index];
    served.turn = answers[served.rail_index]++;
    served.state = Group::Served::kConnecting;
    ours.push_back(here[served.rail_index]);
    theirs.push_back(request.queues[i]);
  }
  rails_->classes().Compare(ours, theirs);
  // Those of one reader follow each other, so that they are on all members of a bond.
  for (size_t h = 0; h < here.size(); ++h) answers[h] = turns_[h].fetch_add(answers[h]);
  for (size_t i = 0; i < pairs.size(); ++i) {
    Group::Served& served = group->served[i];
    if (served.rail == nullptr) continue;
    served.turn += answers[served.rail_index];
    // Passed over when the connection has ended meanwhile.
    served.rail->connector().Do([this, weak = std::weak_ptr(group), i] {
      const auto alive = weak.lock();
      return alive ? Connect(alive.get(), i) : Unavailable("the reader has gone");
    });
  }
  std::lock_guard lock(mutex_);
  groups_.Put(request.queues, group);
  return group;
}

Status Acceptor::Connect(Group* group, size_t i) {
  Group::Served& served = group->served[i];
  Rail& rail = *served.rail;
  served.here = rail.state().address();
  served.device = rail.device();
  Status s = served.device ? Status() : Unavailable("its device has failed");
  if (s.ok()) {
    const DeviceContext& device = *served.device;
    auto qp = MakeQueuePair(rail, device, device.answering.get(), {}, IBV_ACCESS_REMOTE_READ);
    s = qp.status();
    if (qp.ok()) {
      served.qp = std::move(*qp);
      served.sequence = RandomSequence();
      const QueueAddress& reader = group->readers[i];
      served.ece_taken = TakeEce(rail, served.qp.get(), reader.ece);
      s = ReadyToReceive(rail, device, served.here, served.qp.get(), reader);
      if (s.ok()) {
        const Status spread =
            SpreadOverBond(rail, device, served.qp.get(), served.sequence, reader, served.turn);
        if (!spread.ok()) spdlog::debug("rail {}: {}", rail.name(), spread.ToString());
      }
    }
  }
  if (!s.ok()) spdlog::warn("a peer cannot read over rail {}: {}", rail.name(), s.ToString());
  served.state = s.ok() ? Group::Served::kConnected : Group::Served::kFailed;
  return s;
}

void Acceptor::Offer(const Group& group, ConnectOk* answer) const {
  const auto ranges = registered_->ranges();
  const Registration& pool = *RegisteredMemory::Find(*ranges, pool_);
  answer->pool = reinterpret_cast<uint64_t>(pool_.data());
  answer->pool_bytes = pool_.size();
  answer->chunk_bytes = pool.chunk_bytes();
  answer->queues.assign(group.served.size(), {});
  for (size_t i = 0; i < group.served.size(); ++i) {
    const Group::Served& served = group.served[i];
    if (served.state != Group::Served::kConnected) continue;
    // The keys of another device than the queue pair's open nothing.
    if (pool.KnownTo(served.rail_index) != served.device.get()) continue;
    answer->queues[i].queue =
        AddressOf(*served.rail, *served.device, served.here, *served.qp, served.sequence);
    if (!served.ece_taken) answer->queues[i].queue.ece = 0;
    for (size_t c = 0; c < pool.chunks(); ++c)
      answer->queues[i].rkeys.push_back(pool.rkey(served.rail_index, c));
  }
}

}  // namespace peercache::rdma
