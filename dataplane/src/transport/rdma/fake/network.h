// FakeNetwork: when READs complete that go from ports to ports, in virtual time. A model of what
// bounds them on hardware; its parameters stand in NetworkModel with their sources.
//
//   FakeNetwork network(model);
//   network.port(9).members = 2;
//   FakeVerbs::Get().network = &network;               // from now on READs take their time there
//   ... post ...
//   network.Advance(network.Next());
//
// A READ is asked for when fewer than reads_at_once of its queue pair are under way, and travels to
// the holder's port. There the queue pairs take turns, a chunk each. Chunks travel to the reader's
// port and wait in the switch before it, which has room for all, until that has taken what came
// before. A queue pair stays on one member of a bond at each end, and is bounded by itself. Each
// end has its own: the members of a port take its queue pairs in turn, as they are made.
//
// Used by one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <vector>

#include "base/clock.h"

namespace peercache::rdma {

struct NetworkModel {
  // 400 Gb/s without the headers of packets of 4096 bytes; and 320 Gb/s of one queue pair, which
  // lies between what NCCL's issue 2409 reports of ConnectX-7: 284 by writes of 1 MiB, 392 by
  // 128 KiB.
  double port_bytes_per_second = 48.5e9, queue_bytes_per_second = 40e9;
  // Two switches, and what a NIC takes for a READ (2 us).
  Duration round_trip = std::chrono::microseconds(5);
  // max_qp_rd_atom of ConnectX.
  size_t reads_at_once = 16;
  uint64_t chunk = 32 << 10;
  // Of an acknowledgement: LinkOptions::timeout, and twice that is what devices take.
  Duration lost_tail = std::chrono::microseconds(2 * 16777);
};

class __attribute__((visibility("default"))) FakeNetwork {
 public:
  explicit FakeNetwork(NetworkModel model = {});
  ~FakeNetwork();

  struct Port {
    double bytes_per_second = 0;
    size_t members = 1;                      // of a bond, which share that
    double loss = 0;                         // of the chunks that come
    bool dead = false;                       // it takes nothing any more
    uint64_t waiting = 0, most_waiting = 0;  // bytes in the switch before it
    uint64_t taken = 0, sent = 0;            // bytes
  };
  Port& port(uint8_t number);
  // One end of a queue pair: its port, and the how many of that port's queue pairs it is.
  struct End {
    uint8_t port = 0;
    uint32_t turn = 0;
    bool selective = false;  // what was lost is sent again, and nothing after it
  };

  // All that happens until then.
  void Advance(TimePoint now);
  // When something happens next; max(): nothing does.
  TimePoint Next() const;

  // For the library.
  void Post(uint32_t queue, End here, End there, uint64_t bytes, bool fenced);
  uint64_t Completed(uint32_t queue) const;  // READs, in their order
  void Forget(uint32_t queue);

 private:
  struct Flow;
  struct Lane;
  struct Ports;
  struct Event {
    TimePoint at;
    uint64_t number = 0;  // those of one time happen in the order in which they were made
    std::function<void()> happen;
    bool operator>(const Event& other) const {
      return at != other.at ? at > other.at : number > other.number;
    }
  };
  // Of what a queue pair brings: from `first` on.
  struct Chunk {
    uint64_t first = 0, bytes = 0;
  };
  void At(TimePoint when, std::function<void()> happen);
  // Of a flow that is still there then.
  void At(TimePoint when, const std::shared_ptr<Flow>& flow,
          void (FakeNetwork::*happen)(const std::shared_ptr<Flow>&, Chunk), Chunk chunk);
  void Ask(const std::shared_ptr<Flow>& flow);
  void Asked(const std::shared_ptr<Flow>& flow, Chunk read);
  void Again(const std::shared_ptr<Flow>& flow, Chunk lost);
  // Has it take its turn, when it has something to send.
  void Send(const std::shared_ptr<Flow>& flow);
  void Line(const std::shared_ptr<Flow>& flow, Chunk);
  void Serve(Lane* lane);
  void Arrived(const std::shared_ptr<Flow>& flow, Chunk chunk);
  void Landed(const std::shared_ptr<Flow>& flow, Chunk chunk);
  // The member of the port that the queue pair is on.
  using Direction = std::vector<Lane> Ports::*;
  Lane& LaneOf(End end, Direction direction);
  Duration Takes(const Port& port, uint64_t bytes) const;

  const NetworkModel model_;
  TimePoint now_{};
  uint64_t events_made_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::map<uint8_t, std::unique_ptr<Ports>> ports_;
  std::map<uint32_t, std::shared_ptr<Flow>> flows_;
  std::mt19937 random_;
};

}  // namespace peercache::rdma
