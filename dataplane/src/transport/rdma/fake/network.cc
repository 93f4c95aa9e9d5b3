#include "transport/rdma/fake/network.h"

#include <algorithm>
#include <deque>

namespace peercache::rdma {

// One direction of one member of a port.
struct FakeNetwork::Lane {
  Port* port = nullptr;
  TimePoint free{};
  bool busy = false;
  std::deque<std::shared_ptr<Flow>> line;
};

struct FakeNetwork::Ports {
  Port port;
  std::vector<Lane> out, in;
};

struct FakeNetwork::Flow {
  struct Read {
    uint64_t bytes = 0;
    bool fenced = false;
  };
  uint32_t queue = 0;
  End here, there;
  std::deque<Read> posted;       // not asked for yet
  std::deque<uint64_t> to_send;  // by the holder; bytes of each
  std::deque<uint64_t> to_land;  // of each that was asked for
  uint64_t completed = 0;
  TimePoint may_send{}, not_before{};
  bool in_line = false;  // or it will be, when it may send
  bool gone = false;
};

namespace {

Duration Seconds(double seconds) { return Duration(static_cast<int64_t>(seconds * 1e9 + 0.5)); }

}  // namespace

FakeNetwork::FakeNetwork(NetworkModel model) : model_(model), now_(Clock::now()) {}
FakeNetwork::~FakeNetwork() = default;

FakeNetwork::Port& FakeNetwork::port(uint8_t number) {
  auto& ports = ports_[number];
  if (!ports) {
    ports = std::make_unique<Ports>();
    ports->port.bytes_per_second = model_.port_bytes_per_second;
  }
  return ports->port;
}

FakeNetwork::Lane& FakeNetwork::LaneOf(End end, Direction direction) {
  Port& of = port(end.port);
  auto& lanes = (*ports_[end.port]).*direction;
  lanes.resize(of.members);
  Lane& lane = lanes[end.turn % of.members];
  lane.port = &of;
  return lane;
}

Duration FakeNetwork::Takes(const Port& of, uint64_t bytes) const {
  return Seconds(static_cast<double>(bytes * of.members) / of.bytes_per_second);
}

void FakeNetwork::At(TimePoint when, std::function<void()> happen) {
  events_.push({when, events_made_++, std::move(happen)});
}

void FakeNetwork::At(TimePoint when, const std::shared_ptr<Flow>& flow,
                     void (FakeNetwork::*happen)(const std::shared_ptr<Flow>&, uint64_t),
                     uint64_t bytes) {
  At(when, [this, flow, happen, bytes] {
    if (!flow->gone) (this->*happen)(flow, bytes);
  });
}

TimePoint FakeNetwork::Next() const {
  return events_.empty() ? TimePoint::max() : events_.top().at;
}

void FakeNetwork::Advance(TimePoint now) {
  while (Next() <= now) {
    const Event event = events_.top();
    events_.pop();
    now_ = event.at;
    event.happen();
  }
  now_ = std::max(now_, now);
}

void FakeNetwork::Post(uint32_t queue, End here, End there, uint64_t bytes, bool fenced) {
  auto& flow = flows_[queue];
  if (!flow) {
    flow = std::make_shared<Flow>();
    flow->queue = queue;
    flow->here = here;
    flow->there = there;
  }
  flow->posted.push_back({bytes, fenced});
  Ask(flow);
}

uint64_t FakeNetwork::Completed(uint32_t queue) const {
  const auto flow = flows_.find(queue);
  return flow == flows_.end() ? 0 : flow->second->completed;
}

void FakeNetwork::Forget(uint32_t queue) {
  const auto flow = flows_.find(queue);
  if (flow == flows_.end()) return;
  flow->second->gone = true;
  flows_.erase(flow);
}

void FakeNetwork::Ask(const std::shared_ptr<Flow>& flow) {
  while (!flow->posted.empty() && flow->to_land.size() < model_.reads_at_once &&
         (!flow->posted.front().fenced || flow->to_land.empty())) {
    const uint64_t bytes = flow->posted.front().bytes;
    flow->posted.pop_front();
    flow->to_land.push_back(bytes);
    if (!port(flow->there.port).dead)
      At(now_ + model_.round_trip / 2, flow, &FakeNetwork::Asked, bytes);
  }
}

void FakeNetwork::Asked(const std::shared_ptr<Flow>& flow, uint64_t bytes) {
  flow->to_send.push_back(bytes);
  if (flow->in_line) return;
  flow->in_line = true;
  At(std::max(now_, flow->may_send), flow, &FakeNetwork::Line, 0);
}

void FakeNetwork::Line(const std::shared_ptr<Flow>& flow, uint64_t) {
  Lane& lane = LaneOf(flow->there, &Ports::out);
  lane.line.push_back(flow);
  Serve(&lane);
}

void FakeNetwork::Serve(Lane* lane) {
  while (!lane->line.empty() && lane->line.front()->gone) lane->line.pop_front();
  if (lane->busy || lane->line.empty()) return;
  const auto flow = std::move(lane->line.front());
  lane->line.pop_front();
  const uint64_t bytes = std::min(flow->to_send.front(), model_.chunk);
  flow->to_send.front() -= bytes;
  if (flow->to_send.front() == 0) flow->to_send.pop_front();
  flow->may_send = now_ + Seconds(static_cast<double>(bytes) / model_.queue_bytes_per_second);
  lane->busy = true;
  At(now_ + Takes(*lane->port, bytes), [this, lane, flow, bytes] {
    lane->busy = false;
    lane->port->sent += bytes;
    flow->in_line = false;
    if (!lane->port->dead) At(now_ + model_.round_trip / 2, flow, &FakeNetwork::Arrived, bytes);
    if (!flow->to_send.empty() && !flow->gone) {
      flow->in_line = true;
      At(std::max(now_, flow->may_send), flow, &FakeNetwork::Line, 0);
    }
    Serve(lane);
  });
}

void FakeNetwork::Arrived(const std::shared_ptr<Flow>& flow, uint64_t bytes) {
  Lane& lane = LaneOf(flow->here, &Ports::in);
  Port& port = *lane.port;
  if (port.dead) return;
  if (now_ < flow->not_before) return At(flow->not_before, flow, &FakeNetwork::Arrived, bytes);
  if (port.loss > 0 && std::generate_canonical<double, 32>(random_) < port.loss) {
    // What follows tells of it, and all from there on is sent again; the last one's loss is noticed
    // by its time-out alone.
    const bool tail = flow->to_send.empty() && flow->to_land.size() == 1;
    flow->not_before = now_ + (tail ? model_.lost_tail : model_.round_trip);
    return At(flow->not_before, flow, &FakeNetwork::Arrived, bytes);
  }
  port.waiting += bytes;
  port.most_waiting = std::max(port.most_waiting, port.waiting);
  lane.free = std::max(lane.free, now_) + Takes(port, bytes);
  At(lane.free, [this, flow, &port, bytes] {
    port.waiting -= bytes;
    port.taken += bytes;
    if (!flow->gone) Landed(flow, bytes);
  });
}

void FakeNetwork::Landed(const std::shared_ptr<Flow>& flow, uint64_t bytes) {
  flow->to_land.front() -= bytes;
  if (flow->to_land.front() > 0) return;
  flow->to_land.pop_front();
  ++flow->completed;
  Ask(flow);
}

}  // namespace peercache::rdma
