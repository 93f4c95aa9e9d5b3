// NOT-IN-A-GROUP: members of a class.
#include "membership/clear_simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace peercache {

ClearSimulation::ClearSimulation(uint64_t seed, ClearGuards guards, ClearWeather weather)
    : guards_(guards), weather_(weather), rng_(seed) {
  if (weather.network) {
    loss_ = Chance(0.5) ? 0.002 : 0.03;
    slow_ = Chance(0.5) ? 0.005 : 0.05;
  }
  members_.resize(kMembers);
  for (Member& m : members_) {
    m.origin = Between(kSecond, 1'000'000 * kSecond);
    m.rate = 1 + kMaxDrift * (Pick(3) - 1);
    m.wall = weather.clocks_apart ? Between(0, 3600) * kSecond : 0;
    std::ranges::fill(m.word, -1);
  }
}

void ClearSimulation::Run() {
  for (int i = 0; i < kMembers; ++i) {
    const auto running = [this, i] { return !Stands(members_[i]) && !Down(members_[i]); };
    Every(100 * kMilli, [=, this] {
      if (running()) Tick(i);
    });
    Every(kSecond / 2, [=, this] {
      for (int j = 0; j < kMembers && running(); ++j)
        if (j != i) Contact(i, j);
    });
    Every(50 * kMilli, [=, this] {
      if (running()) Set(i);
    });
    Every(10 * kMilli, [=, this] {
      if (running()) Get(i);
    });
    Every(5 * kSecond, [=, this] {
      if (running()) Begin(i);
    });
  }
  Every(kSecond, [this] {
    if (Chance(0.7)) Fault();
  });
  while (violation_.empty() && !events_.empty() && events_.top().at <= 60 * kSecond) {
    const Event event = events_.top();
    events_.pop();
    now_ = event.at;
    event.run();
  }
}

// ---- chance, time and the network ---------------------------------------------------------------

void ClearSimulation::Every(Nanos period, std::function<void()> run) {
  At(now_ + Between(period / 2, period + period / 2), [=, this] {
    run();
    Every(period, run);
  });
}

ClearSimulation::Nanos ClearSimulation::Local(const Member& m) const {
  const Nanos stood = m.stood + std::min(now_, m.paused_until) - m.pause_began;
  return m.origin + std::llround(static_cast<double>(now_ - stood) * m.rate);
}

void ClearSimulation::OnMember(int i, uint64_t incarnation, std::function<void()> run) {
  const Member& m = members_[i];
  if (m.incarnation != incarnation) return;
  if (!Stands(m)) return run();
  // Messages that waited for a stopped member arrive in any order.
  At(std::max(m.stopped_until, m.paused_until) + Between(0, kMilli),
     [=, this] { OnMember(i, incarnation, run); });
}

std::optional<ClearSimulation::Nanos> ClearSimulation::Travel(int from, int to) {
  if (members_[from].cut_off || members_[to].cut_off || Chance(loss_)) return {};
  return Chance(slow_) ? Between(0, 2 * kSecond) : Between(kMilli / 10, 2 * kMilli);
}

void ClearSimulation::Send(int from, int to, Nanos timeout, Asked asked, Over over) {
  const uint64_t incarnation = members_[from].incarnation;
  auto done = std::make_shared<bool>(false);
  const bool waits = Chance(0.5);  // at a member that is stopped, also when nobody waits for it
  const auto end = [=, this](const Answer& answer) {
    OnMember(from, incarnation, [=] {
      if (std::exchange(*done, true)) return;
      over(answer);
    });
  };
  At(now_ + timeout, [=] { end({}); });
  const auto there = Travel(from, to);
  if (!there) return;
  At(now_ + *there, [=, this] {
    if (Down(members_[to])) return end({.gone = true});
    OnMember(to, members_[to].incarnation, [=, this] {
      if (*done && !waits) return;
      Answer answer = asked(to);
      answer.came = true;
      answer.incarnation = members_[to].incarnation;
      if (const auto back = Travel(to, from)) At(now_ + *back, [=] { end(answer); });
    });
  });
}

void ClearSimulation::SendAll(int from, const std::function<bool(int)>& which, Nanos timeout,
                              Asked asked, std::function<void(int, const Answer&)> each,
                              std::function<void()> over) {
  auto left = std::make_shared<int>(1);
  const auto one_less = [=] {
    if (--*left == 0) over();
  };
  for (int j = 0; j < kMembers; ++j) {
    if (j == from || !which(j)) continue;
    ++*left;
    Send(from, j, timeout, asked, [=](const Answer& answer) {
      each(j, answer);
      one_less();
    });
  }
  one_less();
}

void ClearSimulation::Fault() {
  const int i = Pick(kMembers);
  Member& m = members_[i];
  if (Stands(m) || Down(m)) return;
  const Nanos stop = now_ + Between(kMilli, Chance(0.5) ? 3 * kSecond / 2 : 6 * kSecond);
  switch (Pick(5)) {
    case 0: m.stopped_until = stop; break;
    case 1: {  // many at once, which come back at once, sometimes when all others are stopped
      std::vector<int> others;
      for (int j = 0; j < kMembers; ++j) {
        if (!Stands(members_[j]) && Chance(0.6)) {
          members_[j].stopped_until = stop + Between(0, 20 * kMilli);
        } else {
          others.push_back(j);
        }
      }
      if (Chance(0.5)) {
        At(stop, [=, this] {
          for (const int j : others) members_[j].stopped_until = now_ + 2 * kSecond;
        });
      }
      break;
    }
    case 2:
      if (!weather_.clocks_stand) break;
      m.stood += m.paused_until - m.pause_began;
      m.pause_began = now_;
      m.paused_until = now_ + Between(kMilli, 6 * kSecond);
      break;
    case 3:  // one at a time, docs/dev/protocol.md
      if (std::ranges::none_of(members_, [this](const Member& each) { return Down(each); }))
        Restart(i, Chance(0.5));
      break;
    case 4:
      if (!weather_.network) break;
      m.cut_off = true;
      At(now_ + Between(kSecond / 2, 8 * kSecond), [this, i] { members_[i].cut_off = false; });
      break;
  }
}

// Ends the process, and starts another one, which may have its pages and its table.
void ClearSimulation::Restart(int i, bool keeps) {
  Member& m = members_[i];
  Member next;
  next.incarnation = m.incarnation + 1;
  next.origin = m.origin;
  next.stood = m.stood;
  next.pause_began = m.pause_began;
  next.paused_until = m.paused_until;
  next.rate = m.rate;
  next.cut_off = m.cut_off;
  next.wall = m.wall;
  next.down_until = now_ + Between(kMilli, 4 * kSecond);
  std::ranges::fill(next.word, -1);
  if (keeps) {
    next.pool = m.pool;
    next.known.Take(m.known.state());
    next.heard.Take(m.heard.state());
    next.pending = m.pending;
    if (next.known.digest() != 0) next.needed = ++next.version;
  }
  m = std::move(next);
}

// ---- Clears -------------------------------------------------------------------------------------

bool ClearSimulation::InContact(const Member& m) const {
  const Nanos now = Local(m);
  const bool noticed = now - m.alive >= kPeerTimeout - kPeerTimeout / 8 && guards_.notice_stop;
  return !noticed && m.good >= m.need && m.good != 0 && now - m.good < kTtl;
}

void ClearSimulation::Learn(Member* m, const ClearState& heard) {
  if (m->heard.Missing(heard).empty()) return;
  m->heard.Take(heard);
  m->pending = true;
}

// How many are left: some pages are in use for a moment.
size_t ClearSimulation::Sweep(Member* m, uint64_t tag) {
  ++m->epoch;
  const auto of_tag = [&](const auto& item) { return TagOf(item.first) == tag; };
  std::erase_if(m->pool, [&](const auto& item) { return of_tag(item) && !Chance(0.02); });
  return static_cast<size_t>(std::ranges::count_if(m->pool, of_tag));
}

bool ClearSimulation::Apply(int i) {
  Member& m = members_[i];
  const ClearState heard = m.heard.state();
  const ClearTable::News news = m.known.Missing(heard);
  if (!news.empty() && guards_.fresh_word) m.needed = m.version + 1;
  size_t left = 0;
  if (!guards_.drop_first) {  // it says that it knows, and drops a moment later
    At(now_ + Between(0, kSecond / 5), [=, this, incarnation = m.incarnation] {
      OnMember(i, incarnation, [=, this] {
        for (const uint64_t tag : news.tags) (void)Sweep(&members_[i], tag);
      });
    });
  } else {
    for (size_t n = 0; left == 0 && n < news.tags.size(); ++n) left = Sweep(&m, news.tags[n]);
  }
  if (left > 0) return false;
  if (!news.empty()) {
    m.known.Take(heard);
    ++m.version;
    m.latest.reset();
    if (news.tags.size() == 1) m.latest = ClearEntry{news.tags[0], m.known.EpochOf(news.tags[0])};
  }
  m.pending = !m.known.Missing(m.heard.state()).empty();
  return true;
}

// kClears at the member `to`.
ClearSimulation::Answer ClearSimulation::Tell(int to, const ClearState& state) {
  Member& m = members_[to];
  Learn(&m, state);
  if (m.pending) (void)Apply(to);
  return {.state = m.known.state(), .current = Current(m)};
}

void ClearSimulation::Vouch(Member* m, int by, const Answer& answer, int64_t version) {
  if (m->knows_as[by] == answer.incarnation) m->word[by] = std::max(m->word[by], version);
}

void ClearSimulation::Told(int i, int by, const Answer& answer) {
  Member& m = members_[i];
  Learn(&m, answer.state);
  if (answer.state == m.known.state()) Vouch(&m, by, answer, m.version);
}

void ClearSimulation::Ended(int i, const ClearEntry& entry, const std::vector<int>& unheard) {
  Member& m = members_[i];
  if (m.latest != entry) return;
  for (int j = 0; j < kMembers; ++j) {
    const bool heard = std::ranges::find(unheard, j) == unheard.end() || !guards_.name_unheard;
    if (j != i && heard && m.word[j] == m.version - 1) m.word[j] = m.version;
  }
}

void ClearSimulation::Exchange(int i, const std::function<bool(int)>& which, bool all) {
  struct Told {
    std::vector<std::pair<int, Answer>> by;
    size_t answered = 0, asked = 0;
    bool by_current = false;
  };
  auto told = std::make_shared<Told>();
  const Nanos begun = Local(members_[i]);
  SendAll(
      i, which, kStall,
      [this, state = members_[i].heard.state()](int to) { return Tell(to, state); },
      [=, this](int j, const Answer& answer) {
        ++told->asked;
        if (answer.came) {
          told->by_current |= answer.current || !guards_.ask_current;
          Learn(&members_[i], answer.state);
          told->by.emplace_back(j, answer);
        }
        if (answer.came || answer.gone) ++told->answered;
      },
      [=, this] {
        Member& m = members_[i];
        if (m.pending) (void)Apply(i);
        for (const auto& [j, answer] : told->by)
          if (answer.state == m.known.state()) Vouch(&m, j, answer, m.version);
        if (!all) return;
        if (told->by_current || 2 * (told->answered + 1) > told->asked + 1)
          m.good = std::max(m.good, begun);
      });
}

void ClearSimulation::Tick(int i) {
  Member& m = members_[i];
  const Nanos now = Local(m);
  if (now - m.alive >= kPeerTimeout - kPeerTimeout / 8 && guards_.notice_stop) m.need = now;
  m.alive = now;
  if (m.pending) (void)Apply(i);
  if (!InContact(m))
    return Exchange(
        i, [](int) { return true; }, true);
  std::array<bool, kMembers> asked{};
  for (int j = 0; j < kMembers; ++j)
    asked[j] = j != i && (std::exchange(m.differs[j], false) || m.word[j] < 0);
  if (std::ranges::count(asked, true) > 0)
    Exchange(
        i, [=](int j) { return asked[j]; }, false);
}

void ClearSimulation::Contact(int i, int to) {
  const Nanos asked_at = Local(members_[i]);
  Send(
      i, to, kPeerTimeout,
      [this](int j) {
        return Answer{.state = members_[j].known.state(), .current = Current(members_[j])};
      },
      [=, this](const Answer& answer) {
        if (!answer.came) return;
        Member& m = members_[i];
        if (m.knows_as[to] < answer.incarnation) {  // as a heartbeat tells
          m.knows_as[to] = answer.incarnation;
          m.word[to] = -1;
        }
        const bool same = answer.state == m.known.state();
        if (same && (answer.current || !guards_.ask_current)) m.good = std::max(m.good, asked_at);
        if (same) {
          Vouch(&m, to, answer, m.version);
        } else {
          m.differs[to] = true;
        }
      });
}

// ---- Clearing -----------------------------------------------------------------------------------

void ClearSimulation::Begin(int i) {
  Member& m = members_[i];
  if (std::exchange(m.clearing, true)) return;
  auto clear = std::make_shared<Clear>();
  clear->by = i;
  clear->tag = static_cast<uint64_t>(Pick(kTags));
  clear->begun = now_;
  clear->deadline = Local(m) + kPeerTimeout;
  clears_.push_back(clear);
  SweepAll(clear);
}

void ClearSimulation::Later(const Clear& clear, std::function<void()> run) {
  const uint64_t incarnation = members_[clear.by].incarnation;
  At(now_ + 5 * kMilli, [=, this, by = clear.by] { OnMember(by, incarnation, run); });
}

void ClearSimulation::SweepAll(const std::shared_ptr<Clear>& clear) {
  // Without wait_last all waiting is done here.
  SendAll(
      clear->by, [=](int j) { return clear->stage[j] == Stage::kHasPages; },
      guards_.wait_last ? kStall : kPeerTimeout,
      [=, this](int j) { return Answer{.left = Sweep(&members_[j], clear->tag) > 0}; },
      [=](int j, const Answer& answer) {
        clear->stage[j] = answer.gone    ? Stage::kGone
                          : !answer.came ? Stage::kSilent
                          : answer.left  ? Stage::kHasPages
                                         : Stage::kSwept;
      },
      [=, this] {
        Member& m = members_[clear->by];
        clear->stage[clear->by] = Stage::kKnows;
        const bool here = Sweep(&m, clear->tag) > 0;
        const bool all = std::ranges::count(clear->stage, Stage::kHasPages) == 0;
        if ((here || !all) && Local(m) < clear->deadline)
          return Later(*clear, [=, this] { SweepAll(clear); });
        clear->entry = {clear->tag, m.heard.NextEpoch(Wall(m))};
        clear->deadline = Local(m) + kStall;
        TellAll(clear);
      });
}

void ClearSimulation::TellAll(const std::shared_ptr<Clear>& clear) {
  ++clear->rounds;
  auto again = std::make_shared<bool>(false), later = std::make_shared<bool>(false);
  const auto which = [=](int j) {
    return clear->stage[j] == Stage::kSwept || clear->stage[j] == Stage::kKnows;
  };
  SendAll(
      clear->by, which, kStall,
      [=, this, entry = clear->entry](int j) {
        return Tell(j, {{}, {entry}});
      },
      [=, this](int j, const Answer& answer) {
        clear->stage[j] = answer.gone ? Stage::kGone : Stage::kSilent;
        if (!answer.came) return;
        const uint64_t known = EpochIn(answer.state, clear->tag);
        clear->stage[j] = known >= clear->entry.epoch ? Stage::kKnows : Stage::kSwept;
        *later |= known > clear->entry.epoch && clear->rounds < kMostRounds && guards_.pass_later;
        *again |= known < clear->entry.epoch || *later;
        Told(clear->by, j, answer);
      },
      [=, this] {
        Member& m = members_[clear->by];
        Learn(&m, {{}, {clear->entry}});
        const bool here = Apply(clear->by);
        if (!here || *again) {
          if (*later) clear->entry.epoch = m.heard.NextEpoch(Wall(m));
          if (Local(m) < clear->deadline) return Later(*clear, [=, this] { TellAll(clear); });
          if (!here || *later) return End(clear);
        }
        clear->told = true;
        VouchAll(clear);
      });
}

void ClearSimulation::VouchAll(const std::shared_ptr<Clear>& clear) {
  std::vector<int> unheard;
  for (int j = 0; j < kMembers; ++j) {
    const bool gone = clear->stage[j] == Stage::kGone && !guards_.ask_gone;
    if (clear->stage[j] != Stage::kKnows && !gone) unheard.push_back(j);
  }
  Ended(clear->by, clear->entry, unheard);
  SendAll(
      clear->by, [=](int j) { return clear->stage[j] == Stage::kKnows; }, kStall,
      [=, this](int j) {
        Answer answer = Tell(j, {{}, {clear->entry}});
        Ended(j, clear->entry, unheard);
        return answer;
      },
      [](int, const Answer&) {},
      [=, this] {
        // Those that were silent are waited for from when all others know.
        clear->deadline = Local(members_[clear->by]);
        if (guards_.wait_long && guards_.wait_last) clear->deadline += kPeerTimeout;
        Await(clear, true);
      });
}

void ClearSimulation::Await(const std::shared_ptr<Clear>& clear, bool first) {
  const Nanos left = clear->deadline - Local(members_[clear->by]);
  const auto which = [=, this](int j) {
    const Stage stage = clear->stage[j];
    return stage == Stage::kHasPages || stage == Stage::kSwept ||
           (first && (stage == Stage::kSilent || (stage == Stage::kGone && guards_.ask_gone)));
  };
  bool nobody = true;
  for (int j = 0; j < kMembers; ++j) nobody &= !which(j);
  if (left <= 0 || nobody) return End(clear);
  auto later = std::make_shared<bool>(false);
  SendAll(
      clear->by, which, left,
      [=, this](int j) {
        return Tell(j, {{}, {clear->entry}});
      },
      [=, this](int j, const Answer& answer) {
        clear->stage[j] = answer.gone ? Stage::kGone : Stage::kSilent;
        if (!answer.came) return;
        const uint64_t known = EpochIn(answer.state, clear->tag);
        *later |= known > clear->entry.epoch && clear->rounds < kMostRounds && guards_.pass_later;
        clear->stage[j] = known >= clear->entry.epoch ? Stage::kKnows : Stage::kHasPages;
        Told(clear->by, j, answer);
      },
      [=, this] {
        if (!*later) return Later(*clear, [=, this] { Await(clear, false); });
        Member& m = members_[clear->by];
        clear->entry.epoch = m.heard.NextEpoch(Wall(m));
        clear->deadline = Local(m) + kStall;
        TellAll(clear);
      });
}

void ClearSimulation::End(const std::shared_ptr<Clear>& clear) {
  members_[clear->by].clearing = false;
  if (!clear->told) return;
  clear->ended = now_;
  ++cleared_;
  clear->unheard = std::ranges::count(clear->stage, Stage::kSilent) > 0;
  if (clear->unheard) ++unheard_;
}

// ---- engines ------------------------------------------------------------------------------------

bool ClearSimulation::Vouched(const Member& m, int j) const {
  return m.word[j] >= m.needed || !guards_.vouched_only;
}

void ClearSimulation::Set(int i) {
  Member& m = members_[i];
  const int key = Pick(kKeys);
  if (!m.pool.try_emplace(key, Page{now_}).second && Chance(0.2)) m.pool.erase(key);
}

void ClearSimulation::Get(int i) {
  Member& m = members_[i];
  const int key = Pick(kKeys), j = Pick(kMembers);
  if (!Current(m)) return;
  const Wanted call{now_, m.known.EpochOf(TagOf(key))};
  if (const auto own = m.pool.find(key); own != m.pool.end())
    return Given(i, key, own->second, call);
  auto& flight = m.flights[key];
  if (flight != nullptr && (flight->epoch == m.epoch || !guards_.end_shares)) {
    flight->calls.push_back(call);
    return;
  }
  if (j == i || !Vouched(m, j)) return;
  flight = std::make_shared<Flight>(Flight{m.epoch, {call}});
  const auto look = [=, this, of = m.knows_as[j]](int holder) {
    const Member& from = members_[holder];
    const auto found = from.pool.find(key);
    const bool there = from.incarnation == of && found != from.pool.end();
    return Answer{.came = true, .page = there ? std::optional(found->second) : std::nullopt};
  };
  const auto land = [=, this, flight = flight](const Answer& answer) {
    Member& self = members_[i];
    if (self.flights[key] == flight) self.flights.erase(key);
    if (!answer.page) return;
    read_ += flight->calls.size();
    for (const Wanted& wanted : flight->calls) Given(i, key, *answer.page, wanted);
    if (flight->epoch == self.epoch || !guards_.end_flights)
      self.pool.try_emplace(key, *answer.page);
  };
  if (Chance(0.5)) return Send(i, j, kPeerTimeout, look, land);
  // A one-sided READ brings memory of the holder, whether its process runs or not.
  const Nanos posted = Between(0, kMilli), complete = Chance(slow_) ? kSecond : kMilli;
  At(now_ + posted, [=, this, incarnation = m.incarnation] {
    const Answer answer = look(j);
    At(now_ + complete, [=, this] { OnMember(i, incarnation, [=] { land(answer); }); });
  });
}

void ClearSimulation::Given(int i, int key, const Page& page, const Wanted& call) {
  ++given_;
  for (const auto& clear : clears_) {
    if (clear->tag != TagOf(key) || page.set_at >= clear->begun) continue;
    if (clear->ended == 0 || call.asked_at < clear->ended) continue;
    // Whoever it has not reached may know a later one of the tag, docs/dev/protocol.md.
    if (weather_.clocks_apart && clear->unheard) continue;
    const bool heard = call.known >= clear->entry.epoch;
    // A member that was cut off or lost the message goes on for a moment, docs/dev/protocol.md. So
    // does one whose clock has not shown its stop.
    if (!heard && (weather_.network || weather_.clocks_stand)) continue;
    violation_ = fmt::format(
        "at {} ms: member {} gives page {} of {} ms; the clear {} by {} of {} ms ended at {} ms, "
        "and it {}",
        now_ / kMilli, i, key, page.set_at / kMilli, clear->entry.epoch, clear->by,
        clear->begun / kMilli, clear->ended / kMilli, heard ? "has heard of it" : "has not heard");
    return;
  }
}

}  // namespace peercache
