// Gate: what strangers may cost. A connection is a stranger from its arrival until its Hello has
// been accepted; until then nobody knows who it is, so its source address is made to pay.
//
//   auto visit = gate.Admit(SourceOf(address), now);  // empty: close the connection
//   visit->Failed(now);                               // its Hello was refused
//   visit.reset();                                    // greeted, or gone
//
// Two bounds per source: strangers at once, and refused Hellos per time. A source beyond one of
// them is turned away before a byte of it is read, which is what makes guessing tokens slow and
// handshakes cheap to refuse. Other sources, and what this one has already greeted, do not suffer.
// The bounds leave room for several nodes behind one address, of which one may be misconfigured.
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
#include <optional>
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
  uint64_t turned_away_strangers = 0, turned_away_failures = 0, failures = 0;
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
        : gate_(std::exchange(other.gate_, nullptr)), account_(other.account_) {}
    Visit& operator=(Visit&&) = delete;
    ~Visit() {
      if (gate_ != nullptr) gate_->Leave(account_);
    }
    void Failed(TimePoint now) { gate_->Fail(account_, now); }
    // A line in the log is due; it is then taken as written.
    bool TakeLine(TimePoint now) { return gate_->TakeLine(account_, now); }

   private:
    friend class Gate;
    Visit(Gate* gate, Account* account) : gate_(gate), account_(account) {}
    Gate* gate_;
    Account* account_;
  };

  explicit Gate(GateOptions options) : options_(options) {}
  // The gate outlives its visits.
  std::optional<Visit> Admit(const Source& source, TimePoint now);
  GateStats stats() const;
  size_t sources() const;

 private:
  struct Hash {
    size_t operator()(const Source& source) const;
  };
  Account* AccountOf(const Source& source, TimePoint now);
  void Leave(Account* account);
  void Fail(Account* account, TimePoint now);
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
