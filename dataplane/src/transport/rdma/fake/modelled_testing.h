// Engines that read pages over a FakeNetwork, in virtual time: the real ReadChannel of each, and
// what its thread takes for that on a core of a server.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "transport/rdma/fake/fake_testing.h"
#include "transport/rdma/fake/network.h"
#include "transport/rdma/fake/virtual_clock.h"
#include "transport/rdma/memory_testing.h"

namespace peercache::rdma {

// What a thread takes for one of each, in nanoseconds: of mlx5 on a core of 3 GHz, with what
// ReadChannel does for it. A page with its two READs comes to half a microsecond.
struct CoreModel {
  double doorbell = 150, read = 80, poll = 25, completion = 40, page = 200;
  // Between two calls: the reader's own directory, and the engine.
  double call = 10'000;
  // One page in 16 is verified (base/checksum.h: XXH3 of memory that is not in a cache), when it
  // is there and nothing else moves (RunReads), or after the call.
  double checksum_bytes_per_second = 12e9, verified = 1.0 / 16;
};

class Modelled {
 public:
  explicit Modelled(NetworkModel model = {}) : network(model) { fake.Reset(); }
  ~Modelled() {
    fake.network = nullptr;
    engines_.clear();
    holders_.clear();
    hosts_.clear();
  }

  // A machine with so many rails, the ports from *first on.
  Rails* AddHost(size_t rails, uint32_t queues, size_t* first = nullptr) {
    if (first != nullptr) *first = next_port_;
    link.queues = queues;
    hosts_.push_back(FakeRails(rails, link, next_port_));
    next_port_ += rails;
    return hosts_.back().get();
  }

  struct Holder {
    const Rails* rails = nullptr;
    std::unique_ptr<TestHolder> node;
    std::vector<PageRead> pages;
  };
  Holder* AddHolder(const Rails* rails, size_t pages, uint32_t length) {
    auto holder = std::make_unique<Holder>();
    holder->rails = rails;
    holder->node = std::make_unique<TestHolder>(rails, pages * (length + 4096));
    for (size_t i = 0; i < pages; ++i) holder->pages.push_back(holder->node->Put(length));
    holders_.push_back(std::move(holder));
    return holders_.back().get();
  }

  // A thread that reads all pages of these holders in each of its calls, one call after another.
  struct Engine {
    struct Link {
      TestConnection connection;
      std::vector<PageRead> pages;
      std::vector<Bytes> places;
      std::vector<PageState> states;
      std::span<SlotHeader> headers;
      size_t queues = 0;
    };
    std::unique_ptr<TestReader> memory;
    std::shared_ptr<const RegisteredMemory::Ranges> ranges;
    std::vector<Link> links;
    bool calling = false, background = false;
    double verified = 0;  // bytes of the call
    TimePoint free{};
    uint64_t calls = 0, pages_read = 0, pages_failed = 0;
  };
  // `far`: of each rail, on another NUMA node than the engine; empty: none is.
  Engine* AddEngine(const Rails* rails, std::span<Holder* const> holders,
                    const std::vector<bool>& far = {}) {
    auto engine = std::make_unique<Engine>();
    size_t bytes = 0;
    for (const Holder* holder : holders)
      for (const PageRead& page : holder->pages) bytes += page.length;
    engine->memory = std::make_unique<TestReader>(rails, bytes);
    RegisteredMemory& registered = engine->memory->registered;
    if (!far.empty()) {
      const auto range = registered.ranges()->front();
      registered.Remove(range->id());
      registered.Add(RegistrationTesting::Far(*range, far));
    }
    engine->ranges = registered.ranges();
    auto headers = engine->memory->headers();
    Bytes place = engine->memory->bytes();
    for (Holder* holder : holders) {
      Engine::Link link;
      auto made = Connect(*rails, &holder->node->acceptor(), *engine->memory, [](ConnectOk*) {});
      EXPECT_TRUE(made.ok()) << made.status().ToString();
      link.connection = std::move(*made);
      link.queues = link.connection.channel->queues();
      link.pages = holder->pages;
      for (const PageRead& page : link.pages) {
        link.places.push_back(place.first(page.length));
        place = place.subspan(page.length);
      }
      link.headers = headers.first(2 * link.pages.size());
      headers = headers.subspan(2 * link.pages.size());
      engine->links.push_back(std::move(link));
      for (size_t i = 0; i < engine->links.back().pages.size(); ++i)
        engine->links.back().pages[i].to = std::span(&engine->links.back().places[i], 1);
    }
    engines_.push_back(std::move(engine));
    return engines_.back().get();
  }

  // Bytes that these ports take per second, after `warm_up`.
  double Run(size_t first_port, size_t ports, Duration warm_up, Duration measured) {
    fake.network = &network;
    fake.most_landed = sizeof(SlotHeader);
    testing::VirtualClock clock;
    if (ended_ != TimePoint{}) clock.Set(ended_);  // no time has gone by since the last run
    const TimePoint start = Clock::now(), from = start + warm_up, end = from + measured;
    for (const auto& engine : engines_) engine->free = start;
    const auto taken = [&] {
      uint64_t bytes = 0;
      for (size_t i = 0; i < ports; ++i)
        bytes += network.port(static_cast<uint8_t>(first_port + i)).taken;
      return bytes;
    };
    uint64_t before = 0;
    bool warm = false;
    for (;;) {
      const auto next =
          std::min_element(engines_.begin(), engines_.end(),
                           [](const auto& a, const auto& b) { return a->free < b->free; });
      const TimePoint now = (*next)->free;
      clock.Set(now);
      network.Advance(now);
      if (!warm && now >= from) {
        warm = true;
        before = taken();
      }
      if (now >= end) break;
      Step(next->get(), now);
    }
    fake.network = nullptr;
    ended_ = end;
    const double bytes = static_cast<double>(taken() - before);
    return bytes / ToSeconds(measured);
  }

  std::span<const std::unique_ptr<Engine>> engines() const { return engines_; }
  size_t lost_queues() const {
    size_t lost = 0;
    for (const auto& engine : engines_)
      for (const auto& link : engine->links)
        lost += link.queues - link.connection.channel->queues();
    return lost;
  }

  // On one rail: the most bytes that its budget ever counted.
  uint64_t most_under_way() const {
    uint64_t most = 0;
    for (const auto& rails : hosts_)
      for (const auto& rail : rails->all()) most = std::max(most, rail->budget().peak());
    return most;
  }

  FakeVerbs& fake = FakeVerbs::Get();
  FakeNetwork network;
  CoreModel core;
  LinkOptions link;  // of the hosts that are added

 private:
  void Step(Engine* engine, TimePoint now) {
    const size_t doorbells = fake.doorbells(), posted = fake.posted(), polls = fake.polls(),
                 reported = fake.reported();
    double cost = 0;
    bool moved = false;
    if (!engine->calling) {
      engine->calling = moved = true;
      engine->verified = 0;
      for (auto& link : engine->links) {
        link.states.assign(link.pages.size(), PageState::kPending);
        cost += core.page * static_cast<double>(link.pages.size());
        link.connection.channel->Begin(link.pages, *engine->ranges, link.headers, link.states,
                                       milliseconds(133), now, engine->background);
      }
    } else {
      bool done = true;
      for (auto& link : engine->links) {
        if (link.connection.channel->done()) continue;
        moved |= link.connection.channel->Advance(now);
        done &= link.connection.channel->done();
      }
      if (done) {
        engine->calling = false;
        moved = true;
        cost += core.call + Finish(engine);
      }
    }
    const auto since = [](size_t after, size_t before) {
      return static_cast<double>(after - before);
    };
    cost += core.doorbell * since(fake.doorbells(), doorbells) +
            core.read * since(fake.posted(), posted) + core.poll * since(fake.polls(), polls) +
            core.completion * since(fake.reported(), reported);
    const double verifying = moved ? 0 : VerifyOne(engine);
    engine->free = now + Duration(static_cast<int64_t>(cost + verifying) + 1);
    if (!moved && verifying == 0)
      engine->free = std::max(engine->free, std::min(network.Next(), now + milliseconds(1)));
  }
  // Of the pages that are there, so many bytes are verified.
  double Sampled(const Engine& engine) const {
    double bytes = 0;
    for (const auto& link : engine.links)
      for (size_t i = 0; i < link.states.size(); ++i)
        if (link.states[i] == PageState::kRead) bytes += link.pages[i].length;
    return bytes * core.verified;
  }
  // Nanoseconds for a page; 0: none is left.
  double VerifyOne(Engine* engine) const {
    const double page = engine->links.front().pages.front().length;
    if (!engine->calling || engine->background || Sampled(*engine) - engine->verified < page)
      return 0;
    engine->verified += page;
    return page / core.checksum_bytes_per_second * 1e9;
  }
  double Finish(Engine* engine) const {
    for (const auto& link : engine->links) {
      for (size_t i = 0; i < link.states.size(); ++i) {
        if (link.states[i] == PageState::kRead) {
          ++engine->pages_read;
        } else {
          ++engine->pages_failed;
        }
      }
    }
    ++engine->calls;
    return (Sampled(*engine) - engine->verified) / core.checksum_bytes_per_second * 1e9;
  }

  size_t next_port_ = 1;
  TimePoint ended_{};  // the last run
  std::vector<std::unique_ptr<Rails>> hosts_;
  std::vector<std::unique_ptr<Holder>> holders_;
  std::vector<std::unique_ptr<Engine>> engines_;
};

}  // namespace peercache::rdma
