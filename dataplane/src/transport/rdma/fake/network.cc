#include "transport/rdma/fake/network.h"

#include <algorithm>
#include <deque>
#include <set>
#include <utility>

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
  // The next chunk that the holder sends; for when some is left.
  Chunk Next(uint64_t most) const {
    const uint64_t end = *std::upper_bound(to_land.begin(), to_land.end(), sent);
    return {sent, std::min(end - sent, most)};
  }
  std::deque<Read> posted;       // not asked for yet
  std::deque<uint64_t> to_land;  // where each that was asked for ends
  // Up to there the reader has asked for it, the holder knows of it, has sent it, the reader has
  // taken it in order, has it in memory.
  uint64_t asked = 0, known = 0, sent = 0, taken = 0, landed = 0;
  std::set<uint64_t> lost;  // the first of each chunk that alone is sent again
  uint64_t completed = 0;   // READs
  TimePoint may_send{};
  bool in_line = false;  // or it will be, when it may send
  bool again = false;    // it will be told to send again from `taken` on
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
                     void (FakeNetwork::*happen)(const std::shared_ptr<Flow>&, Chunk),
                     Chunk chunk) {
  At(when, [this, flow, happen, chunk] {
    if (!flow->gone) (this->*happen)(flow, chunk);
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
    const Chunk read{flow->asked, flow->posted.front().bytes};
    flow->posted.pop_front();
    flow->asked += read.bytes;
    flow->to_land.push_back(flow->asked);
    if (!port(flow->there.port).dead)
      At(now_ + model_.round_trip / 2, flow, &FakeNetwork::Asked, read);
  }
}

void FakeNetwork::Asked(const std::shared_ptr<Flow>& flow, Chunk read) {
  flow->known = std::max(flow->known, read.first + read.bytes);
  Send(flow);
}

void FakeNetwork::Again(const std::shared_ptr<Flow>& flow, Chunk lost) {
  flow->again = false;
  flow->sent = lost.first;
  Send(flow);
}

void FakeNetwork::Send(const std::shared_ptr<Flow>& flow) {
  if (flow->in_line || flow->gone || flow->sent == flow->known) return;
  flow->in_line = true;
  At(std::max(now_, flow->may_send), flow, &FakeNetwork::Line, {});
}

void FakeNetwork::Line(const std::shared_ptr<Flow>& flow, Chunk) {
  Lane& lane = LaneOf(flow->there, &Ports::out);
  lane.line.push_back(flow);
  Serve(&lane);
}

void FakeNetwork::Serve(Lane* lane) {
  while (!lane->line.empty() && lane->line.front()->gone) lane->line.pop_front();
  if (lane->busy || lane->line.empty()) return;
  const auto flow = std::move(lane->line.front());
  lane->line.pop_front();
  const Chunk chunk = flow->Next(model_.chunk);
  flow->sent += chunk.bytes;
  flow->may_send = now_ + Seconds(static_cast<double>(chunk.bytes) / model_.queue_bytes_per_second);
  lane->busy = true;
  At(now_ + Takes(*lane->port, chunk.bytes), [this, lane, flow, chunk] {
    lane->busy = false;
    lane->port->sent += chunk.bytes;
    flow->in_line = false;
    if (!lane->port->dead) At(now_ + model_.round_trip / 2, flow, &FakeNetwork::Arrived, chunk);
    Send(flow);
    Serve(lane);
  });
}

void FakeNetwork::Arrived(const std::shared_ptr<Flow>& flow, Chunk chunk) {
  Lane& lane = LaneOf(flow->here, &Ports::in);
  Port& port = *lane.port;
  if (port.dead) return;
  const bool selective = flow->here.selective;
  if (!selective && chunk.first != flow->taken) return;  // it comes again, or comes again now
  if (port.loss > 0 && std::generate_canonical<double, 32>(random_) < port.loss) {
    // What follows tells of it, and all from there on is sent again, or this alone; the last one's
    // loss is noticed by its time-out alone.
    const bool tail = chunk.first + chunk.bytes == flow->asked;
    const TimePoint again = now_ + (tail ? model_.lost_tail : model_.round_trip);
    if (selective) {
      flow->lost.insert(chunk.first);
      At(again, flow, &FakeNetwork::Arrived, chunk);
    } else if (!std::exchange(flow->again, true)) {
      At(again, flow, &FakeNetwork::Again, chunk);
    }
    return;
  }
  flow->taken += chunk.bytes;
  port.waiting += chunk.bytes;
  port.most_waiting = std::max(port.most_waiting, port.waiting);
  lane.free = std::max(lane.free, now_) + Takes(port, chunk.bytes);
  At(lane.free, [this, flow, &port, chunk] {
    port.waiting -= chunk.bytes;
    port.taken += chunk.bytes;
    if (!flow->gone) Landed(flow, chunk);
  });
}

void FakeNetwork::Landed(const std::shared_ptr<Flow>& flow, Chunk chunk) {
  flow->lost.erase(chunk.first);
  flow->landed = std::max(flow->landed, chunk.first + chunk.bytes);
  const uint64_t whole = flow->lost.empty() ? flow->landed : *flow->lost.begin();
  while (!flow->to_land.empty() && flow->to_land.front() <= whole) {
    flow->to_land.pop_front();
    ++flow->completed;
  }
  Ask(flow);
}

}  // namespace peercache::rdma
