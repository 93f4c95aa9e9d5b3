// Gate: what strangers may cost. A connection is a stranger from its arrival until its Hello has
// been accepted; until then nobody knows who it is, so its source address is made to pay.
//
//   Gate::Visit visit = gate.Admit(SourceOf(address), now);
//   if (visit.crowded()) ...             // close the oldest stranger of the same source
//   while (!visit.Begin(now)) ...        // before a handshake of TLS: wait
//   visit.Done();                        // it is complete, or nothing was computed for it
//   if (visit.Failed(now)) ...           // its Hello was refused: true if the reason is to be said
//                                        // destroyed: greeted, or gone
//
// Two bounds per source: strangers at once, and failures per time. A failure is a refused Hello, or
// a handshake that was begun and did not end well: to answer one takes 0.4 to 4.6 ms.
//
// Nobody is turned away for his source. All pods of a machine can be one, and a cluster behind one
// address. So who comes costs the oldest stranger of his source its place: it has had the most time
// to greet. And beyond the second bound, Hellos are looked at and refused without a word; who names
// a secret of the cluster in his gets his challenge as ever. Handshakes, which cost more and come
// before anybody can say a name, wait until failures have drained.
//
// A source is an IPv4 address or an IPv6 /64, because a host owns all of a /64. Sources are
// remembered up to a bound; those beyond share one account.
//
// Thread-safe; used once per connection, not per request.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/clock.h"
#include "base/rate_limit.h"

namespace peercache {

using Source = std::array<uint8_t, 8>;
Source SourceOf(const sockaddr* address);

struct GateOptions {
  // Peers send Hello with the connect, so even a whole rack that comes back at once has few
  // connections in this state.
  uint32_t strangers_per_source = 256;
  // A node with a wrong token tries twice a second.
  RateLimit failures{milliseconds(100), 100};
  // Lines in the log about one source, which would hide those about others.
  RateLimit lines{std::chrono::seconds(60), 2};
  size_t max_sources = 4096;
};

struct GateStats {
  uint64_t failures = 0;
  uint64_t unanswered = 0;  // of these, those beyond the bound
};

class Gate {
  struct Account {
    uint32_t strangers = 0;
    Meter failures, lines;
  };

 public:
  // One stranger's place; gives it back when destroyed.
  class Visit {
   public:
    Visit(Visit&& other) noexcept
        : gate_(std::exchange(other.gate_, nullptr)),
          account_(other.account_),
          begun_(other.begun_) {}
    Visit& operator=(Visit&&) = delete;
    ~Visit() {
      if (gate_ != nullptr) gate_->Leave(this);
    }
    // Its source has more strangers than it may.
    bool crowded() const { return gate_->Crowded(account_); }
    bool SameSource(const Visit& other) const { return account_ == other.account_; }
    // Counts as a failure until it is done. False: not now, there were too many.
    bool Begin(TimePoint now) { return gate_->Begin(this, now); }
    void Done() { gate_->Done(this); }
    bool Failed(TimePoint now) { return gate_->Fail(this, now); }
    // A line in the log is due; it is then taken as written.
    bool TakeLine(TimePoint now) { return gate_->TakeLine(account_, now); }

   private:
    friend class Gate;
    Visit(Gate* gate, Account* account) : gate_(gate), account_(account) {}
    Gate* gate_;
    Account* account_;
    bool begun_ = false;
  };

  explicit Gate(GateOptions options) : options_(options) {}
  // The gate outlives its visits.
  Visit Admit(const Source& source, TimePoint now);
  GateStats stats() const;
  size_t sources() const;

 private:
  struct Hash {
    size_t operator()(const Source& source) const;
  };
  Account* AccountOf(const Source& source, TimePoint now);
  bool Crowded(const Account* account) const;
  void Leave(Visit* visit);
  bool Begin(Visit* visit, TimePoint now);
  void Done(Visit* visit);
  bool Fail(Visit* visit, TimePoint now);
  bool TakeLine(Account* account, TimePoint now);

  const GateOptions options_;
  mutable std::mutex mutex_;
  // Elements stay where they are while others come and go; one with strangers is never dropped.
  std::unordered_map<Source, Account, Hash> accounts_;
  Account shared_;  // of sources beyond max_sources
  TimePoint next_purge_{};
  GateStats stats_;
};

}  // namespace peercache
