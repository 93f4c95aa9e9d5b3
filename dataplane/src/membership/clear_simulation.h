// ClearSimulation (tests only): members of a cluster, their engines and clears in virtual time over
// a bad network, with the real ClearTable and a small model of Clears, Clearing and of a node's
// reads (node/clear, node/read).
//
//   ClearSimulation simulation(seed, ClearGuards{}, ClearWeather{});
//   simulation.Run();
//   simulation.violation()   a page that was cleared and given all the same; empty: none
//
// What dataplane/model/clears.pml leaves out is here: several tags and clearers at once, messages
// that are lost, late and overtake each other, members that are cut off, restart, or stand still
// with their clocks, and wall clocks that are far apart. Everything follows from the seed.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include "base/clock.h"
#include "membership/clear_table.h"

namespace peercache {

// Named as in dataplane/model/clears.pml, which says what each is about, but for the last three.
struct ClearGuards {
  bool vouched_only = true;
  bool fresh_word = true;
  bool name_unheard = true;
  bool drop_first = true;
  bool end_flights = true;
  bool wait_long = true;
  bool notice_stop = true;
  bool ask_current = true;
  bool wait_last = true;
  bool end_shares = true;  // off: who asks after a clear joins a read that was begun before it
  bool ask_gone = true;    // off: who was not there when it began is not asked again
  bool pass_later = true;  // off: a later clear of the tag, made without knowing, counts for this
};

struct ClearWeather {
  bool network = true;        // messages are lost and slow, members are cut off
  bool clocks_stand = true;   // a member's clock may stand still with it
  bool clocks_apart = false;  // wall clocks, by up to an hour
};

class ClearSimulation {
 public:
  ClearSimulation(uint64_t seed, ClearGuards guards, ClearWeather weather);
  void Run();
  const std::string& violation() const { return violation_; }
  uint64_t given() const { return given_; }      // pages
  uint64_t read() const { return read_; }        // of these, pages of other members
  uint64_t cleared() const { return cleared_; }  // clears that have ended
  uint64_t unheard() const { return unheard_; }  // of these, clears that somebody has not heard of

 private:
  using Nanos = int64_t;
  static constexpr Nanos kMilli = 1'000'000, kSecond = 1000 * kMilli;
  static constexpr int kMembers = 4, kKeys = 6, kTags = 2;
  static constexpr Nanos kPeerTimeout = kSecond, kStall = 400 * kMilli, kTtl = 3 * kSecond;
  static constexpr double kMaxDrift = 0.0077;
  static constexpr int kMostRounds = 3;

  struct Page {
    Nanos set_at = 0;  // that set was over
  };
  // An engine's call that waits for a page, and what its node knew when it came.
  struct Wanted {
    Nanos asked_at = 0;
    uint64_t known = 0;  // clear of the tag
  };
  struct Flight {
    uint64_t epoch = 0;
    std::vector<Wanted> calls;
  };
  struct Member {
    uint64_t incarnation = 1;
    // Runs while it is neither stopped (its clock runs on) nor paused (its clock stands) nor down.
    Nanos stopped_until = 0, paused_until = 0, down_until = 0;
    Nanos origin = 0, stood = 0, pause_began = 0, wall = 0;
    double rate = 1;
    bool cut_off = false;

    std::map<int, Page> pool;
    std::map<int, std::shared_ptr<Flight>> flights;
    uint64_t epoch = 0;  // of reads: Replicas::epoch
    // The members of Clears of these names. Times are of the member's clock, 0: never.
    ClearTable known, heard;
    int64_t version = 0, needed = 0;
    std::optional<ClearEntry> latest;
    Nanos good = 0, need = 0, alive = 0;
    bool pending = false, differs[kMembers] = {};
    // Of Peers: what the others have said last, and in which incarnation.
    int64_t word[kMembers];
    uint64_t knows_as[kMembers] = {};
    bool clearing = false;
  };
  enum class Stage : uint8_t { kHasPages, kSwept, kKnows, kSilent, kGone };
  struct Clear {
    int by = 0, rounds = 0;
    uint64_t tag = 0;
    Nanos begun = 0, ended = 0, deadline = 0;  // the last of the present step, by its clock
    ClearEntry entry;
    bool told = false;     // the entry is final
    bool unheard = false;  // by somebody
    std::array<Stage, kMembers> stage{};
  };
  struct Answer {
    bool came = false, gone = false;
    uint64_t incarnation = 0;
    ClearState state{};
    bool current = false, left = false;
    std::optional<Page> page{};
  };
  using Asked = std::function<Answer(int member)>;
  using Over = std::function<void(const Answer&)>;
  struct Event {
    Nanos at;
    uint64_t order;
    std::function<void()> run;
    bool operator>(const Event& other) const {
      return at != other.at ? at > other.at : order > other.order;
    }
  };

  // Chance, time and the network.
  bool Chance(double p) { return std::uniform_real_distribution<>(0, 1)(rng_) < p; }
  Nanos Between(Nanos low, Nanos high) {
    return std::uniform_int_distribution<Nanos>(low, high)(rng_);
  }
  int Pick(int n) { return static_cast<int>(Between(0, n - 1)); }
  void At(Nanos when, std::function<void()> run) { events_.push({when, ++order_, std::move(run)}); }
  void Every(Nanos period, std::function<void()> run);
  Nanos Local(const Member& m) const;
  bool Stands(const Member& m) const { return now_ < std::max(m.stopped_until, m.paused_until); }
  bool Down(const Member& m) const { return now_ < m.down_until; }
  // When the member runs, if it is still the same process.
  void OnMember(int i, uint64_t incarnation, std::function<void()> run);
  std::optional<Nanos> Travel(int from, int to);
  // Exactly one answer comes to `over`, at `from`; none of a process that has ended meanwhile.
  void Send(int from, int to, Nanos timeout, Asked asked, Over over);
  // To all others for which `which` holds; `over` when each has answered or has not.
  void SendAll(int from, const std::function<bool(int)>& which, Nanos timeout, Asked asked,
               std::function<void(int, const Answer&)> each, std::function<void()> over);
  void Fault();
  void Restart(int i, bool keeps);

  // Clears.
  bool InContact(const Member& m) const;
  bool Current(const Member& m) const { return InContact(m) && !m.pending; }
  void Learn(Member* m, const ClearState& heard);
  bool Apply(int i);
  size_t Sweep(Member* m, uint64_t tag);
  Answer Tell(int to, const ClearState& state);
  void Vouch(Member* m, int by, const Answer& answer, int64_t version);
  void Told(int i, int by, const Answer& answer);
  void Ended(int i, const ClearEntry& entry, const std::vector<int>& unheard);
  void Exchange(int i, const std::function<bool(int)>& which, bool all);
  void Tick(int i);
  void Contact(int i, int to);

  // Clearing, in its steps.
  void Begin(int i);
  void Later(const Clear& clear, std::function<void()> run);
  void SweepAll(const std::shared_ptr<Clear>& clear);
  void TellAll(const std::shared_ptr<Clear>& clear);
  void VouchAll(const std::shared_ptr<Clear>& clear);
  void Await(const std::shared_ptr<Clear>& clear, bool first);
  void End(const std::shared_ptr<Clear>& clear);

  // Engines.
  bool Vouched(const Member& m, int j) const;
  void Set(int i);
  void Get(int i);
  void Given(int i, int key, const Page& page, const Wanted& call);

  static uint64_t TagOf(int key) { return static_cast<uint64_t>(key % kTags); }
  // In nanoseconds since some day.
  uint64_t Wall(const Member& m) const { return static_cast<uint64_t>(m.wall + now_); }

  const ClearGuards guards_;
  const ClearWeather weather_;
  std::mt19937_64 rng_;
  Nanos now_ = 0;
  uint64_t order_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  double loss_ = 0, slow_ = 0;
  std::vector<Member> members_;
  std::vector<std::shared_ptr<Clear>> clears_;
  std::string violation_;
  uint64_t given_ = 0, read_ = 0, cleared_ = 0, unheard_ = 0;
};

}  // namespace peercache
