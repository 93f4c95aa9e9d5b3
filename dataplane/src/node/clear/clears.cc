// How a member knows of clears. It has two tables: heard_ has every clear that any message named,
// known_ those whose pages this node has dropped. Apply moves clears from the first to the second:
// it sweeps the pages, then takes the clears, and only then the digest in this node's answers
// changes (drop_first). Before the sweep it voids what other members have reported
// (Peers::Learned), so no page comes from a member that may still have cleared ones.
//
// Run, every 100 ms and sooner when there is work:
//   1. If this process made no step for nearly peer-timeout-ms, it may have missed a clear: need_.
//   2. Apply what was heard.
//   3. Exchange tables: with all members if contact is lost (InContact), otherwise with those whose
//      digest differs from this node's, or that have reported nothing yet.
// A get asks Current, which takes a few comparisons and no lock. While it is false the get waits
// for the loop, or misses.
//
// Benefits: no host, no order among members and no clock of another machine is needed. Tables merge
// by the higher epoch, so messages may be lost, doubled or late.
// Costs: a digest in each answer to a contact; a whole table, of 500 tags at most, only between
// members that differ.
//
// Rejected:
// - a time in each page, compared with that of the clear: with wall clocks apart, cleared pages
//   would be given, or later ones dropped;
// - a sequence of clears by a master or by consensus: clears would fail while it is away;
// - asking the members at each get: a round trip for every page.
#include "node/clear/clears.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "base/thread.h"

namespace peercache {
namespace {

constexpr milliseconds kTick{100};
constexpr milliseconds kStarting{20};
// While there is something to be done: a sweep to be repeated, somebody to be asked.
constexpr milliseconds kSoon{5};

uint64_t Wall() {
  const auto wall =
      std::chrono::system_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  return static_cast<uint64_t>(std::max<int64_t>(wall, 0));
}

}  // namespace

Clears::Clears(ClearsOptions options, Peers* peers, const Views* views, Counters* counters,
               Sweep sweep)
    : options_(std::move(options)),
      peers_(peers),
      views_(views),
      counters_(counters),
      sweep_(std::move(sweep)) {
  known_.Take(options_.known);
  heard_.Take(options_.known);
  heard_.Take(options_.heard);
  pending_ = awaited_ = !known_.Missing(heard_.state()).empty();
  // Others may have missed what this node knows. model clears: vouched_only
  if (known_.digest() != 0) peers_->Learned(++version_);
  recorded_ = known_.state();
  recorded_version_ = version_;
}

Clears::~Clears() { Stop(); }

Status Clears::Start() {
  alive_ = Clock::now();
  auto thread = StartThread([this] { Run(); });
  if (!thread.ok()) return thread.status();
  thread_ = std::move(*thread);
  if (!options_.record) return {};
  auto recorder = StartThread([this] { Record(); });
  if (!recorder.ok()) return recorder.status();
  recorder_ = std::move(*recorder);
  return {};
}

void Clears::Stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (recorder_.joinable()) recorder_.join();
}

bool Clears::Current(TimePoint now) const {
  return InContact(now) && !pending_.load(std::memory_order_acquire);
}

bool Clears::InContact(TimePoint now) const {
  const TimePoint alive = alive_.load(std::memory_order_acquire);
  const TimePoint good = good_.load(std::memory_order_acquire);
  // A clear waits for peer_timeout before it goes without a member. So one that was stopped for as
  // long notices it here, before its thread does. model clears: notice_stop
  return now - alive < options_.peer_timeout - options_.peer_timeout / 8 &&
         good >= need_.load(std::memory_order_acquire) && good != TimePoint{} &&
         now - good < options_.member_ttl;
}

bool Clears::Await(TimePoint now, TimePoint deadline) {
  if (Current(now)) return true;
  const bool nobody_left = peers_->InView().empty();
  std::unique_lock lock(mutex_);
  // The last attempt failed for want of answers, which nobody has to give any more.
  if (nobody_left) alone_ = false;
  awaited_ = !alone_;
  wake_.notify_all();
  changed_.wait_until(lock, deadline, [this] { return stop_ || alone_ || Current(Clock::now()); });
  return Current(Clock::now());
}

ClearsVoice Clears::Voice(TimePoint now) const {
  const bool current = Current(now);
  std::lock_guard lock(mutex_);
  return {known_.digest(), current ? uint8_t{1} : uint8_t{0}};
}

void Clears::Heard(const PeerRef& peer, uint64_t incarnation,
                   const std::optional<ClearsVoice>& voice, TimePoint asked) {
  std::lock_guard lock(mutex_);
  // A release that keeps no clears is as good as it was before there were any.
  const bool same = voice ? voice->digest == known_.digest() : peer->word() < 0;
  if (!voice || (same && voice->current != 0)) good_ = std::max(good_.load(), asked);
  if (same) {
    peers_->Vouch(peer, incarnation, version_);
  } else if (voice && std::ranges::find(differ_, peer) == differ_.end()) {
    differ_.push_back(peer);
    wake_.notify_all();
  }
}

void Clears::Learn(const ClearState& heard, bool late) {
  std::lock_guard lock(mutex_);
  if (heard_.Missing(heard).empty()) return;
  heard_.Take(heard);
  late_ |= late;
  pending_ = awaited_ = true;
  wake_.notify_all();
}

bool Clears::Apply() {
  std::lock_guard applying(applying_);
  ClearState heard;
  ClearTable::News news;
  std::vector<ForgottenClears> forgotten;
  {
    std::lock_guard lock(mutex_);
    heard = heard_.state();
    news = known_.Missing(heard);
    forgotten = known_.forgotten();
    // First, so that nothing is read from the others any more that the sweep does not look for.
    if (!news.empty()) peers_->Learned(version_ + 1);
  }
  size_t left = 0;
  for (size_t i = 0; left == 0 && i < news.groups.size(); ++i) {
    const ForgottenClears group = ForgottenIn(heard, news.groups[i]);
    forgotten.push_back(group);
    left = sweep_({TagRange::OfGroup(group.group), group.epoch, forgotten});
  }
  // Also of these groups: what outlives the process keeps the epoch of each.
  for (size_t i = 0; left == 0 && i < news.tags.size(); ++i)
    left = sweep_({news.tags[i], EpochIn(heard, news.tags[i]), forgotten});
  std::lock_guard lock(mutex_);
  if (left > 0) return false;
  if (!news.empty()) {
    known_.Take(heard);  // model clears: drop_first
    if (options_.keep) options_.keep(known_.state());
    ++version_;
    latest_.reset();
    if (news.groups.empty() && news.tags.size() == 1)
      latest_ = ClearEntry{news.tags[0], known_.EpochOf(news.tags[0])};
    if (std::exchange(late_, false)) {
      differ_ = peers_->InView();  // who knows of it as well says so
      counters_->clears_caught_up.Add(1);
      spdlog::info(
          "clears: dropped the pages of {} tags that were cleared while this node was away, and of "
          "{} groups of tags that had so many clears that some were forgotten",
          news.tags.size(), news.groups.size());
    }
  }
  pending_ = !known_.Missing(heard_.state()).empty();
  changed_.notify_all();
  return true;
}

bool Clears::Decode(FrameReader body, ClearsAnswer* answer) {
  return answer->Decode(&body) && Plausible(answer->state, Wall());
}

Result<ClearsAnswer> Clears::Answer(const ClearsMessage& message) {
  if (!Plausible(message.state, Wall())) {
    return InvalidArgument(
        "clears: an epoch is more than 10 years ahead of this machine's clock: set the clocks");
  }
  Learn(message.state, message.kind == ClearsMessage::kTable);
  if (pending_) (void)Apply();
  if (pending_) wake_.notify_all();
  if (message.kind == ClearsMessage::kHeard && message.state.entries.size() == 1)
    Ended(message.state.entries[0], message.unheard, message.view);
  const bool current = Current(Clock::now());
  std::lock_guard lock(mutex_);
  const bool noted = message.kind == ClearsMessage::kMade &&
                     !std::ranges::all_of(message.state.entries,
                                          [this](const auto& entry) { return Recorded(entry); });
  return ClearsAnswer{known_.state(), current ? uint8_t{1} : uint8_t{0}, noted};
}

ClearEntry Clears::New(uint64_t tag) const {
  std::lock_guard lock(mutex_);
  return {tag, heard_.NextEpoch(Wall())};
}

bool Clears::Made(const ClearEntry& entry) {
  Learn({{}, {entry}}, false);
  return Apply();
}

bool Clears::AwaitRecorded(const ClearEntry& entry, TimePoint deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline, [&] { return stop_ || Recorded(entry); });
  return Recorded(entry);
}

void Clears::Ended(const ClearEntry& entry, std::span<const uint64_t> unheard, uint32_t view) {
  std::vector<uint64_t> members{peers_->self()};
  for (const PeerRef& peer : peers_->InView()) members.push_back(peer->node());
  if (MarkOf(members) != view) return;
  std::lock_guard lock(mutex_);
  // Of what was learned since nobody has said anything. Nor has a member that has come into the
  // view since.
  if (latest_ == entry) peers_->Cleared(version_, unheard);
}

void Clears::Told(const PeerCall& call, const ClearState& state) {
  Learn(state, true);
  std::lock_guard lock(mutex_);
  if (state == known_.state()) peers_->Vouch(call.peer, call.answered_by, version_);
}

bool Clears::Exchange(std::span<const PeerRef> peers, TimePoint now) {
  ClearsMessage message;
  {
    std::lock_guard lock(mutex_);
    message.state = heard_.state();
  }
  CallGroup calls(*peers_, CallGroup::Breaker::kIgnore);
  for (const PeerRef& peer : peers) message.Encode(&calls.Add(peer, MessageType::kClears).request);
  calls.Run(MessageType::kClearsOk, {options_.stall, now + options_.stall});
  std::vector<std::pair<const PeerCall*, std::optional<ClearState>>> told;
  size_t answered = 0;
  bool by_current = false;
  for (const auto& call : calls.calls()) {
    ClearsAnswer answer;
    if (call->status.ok() && Decode(call->answer, &answer)) {
      by_current |= answer.current != 0;  // model clears: ask_current
      Learn(answer.state, true);
      told.emplace_back(call.get(), std::move(answer.state));
    } else if (call->status.code() == Code::kDeadlineExceeded ||
               (call->status.code() == Code::kUnavailable && !call->refused)) {
      continue;  // it may be there, and know more
    } else if (call->peer->word() < 0 && !call->refused) {
      told.emplace_back(call.get(), std::nullopt);  // a release that keeps no clears
    }
    ++answered;
  }
  if (pending_) (void)Apply();
  std::lock_guard lock(mutex_);
  for (const auto& [call, state] : told) {
    const uint64_t by = state ? call->answered_by : call->peer->incarnation();
    if (!state || *state == known_.state()) peers_->Vouch(call->peer, by, version_);
  }
  // Whoever has heard of a clear is among more than half of the members, or there were so many that
  // had not.
  return by_current || 2 * (answered + 1) > peers.size() + 1;
}

void Clears::Run() {
  TimePoint joined_at = TimePoint::max();
  for (;;) {
    TimePoint now = Clock::now();
    if (now - alive_.load() >= options_.peer_timeout - options_.peer_timeout / 8) {
      std::lock_guard lock(mutex_);
      need_ = now;
      alone_ = false;
    }
    alive_ = now;
    std::vector<PeerRef> differ;
    {
      std::lock_guard lock(mutex_);
      differ = std::exchange(differ_, {});
    }
    if (pending_) (void)Apply();
    const bool joined = views_->Get() != nullptr;
    bool good = false, tried = false;
    if (joined) {
      const auto members = peers_->InView();
      joined_at = std::min(joined_at, now);
      // Members of a discovery host that has just started are not in its view before they have
      // heartbeaten.
      good =
          members.empty() && (!options_.pages_of_before || now - joined_at >= options_.member_ttl);
      tried = !good && !InContact(now);
      if (tried && !members.empty()) {
        good = Exchange(members, now);
      } else {
        // Also those that have said nothing yet.
        for (const PeerRef& peer : members)
          if (peer->word() < 0 && std::ranges::find(differ, peer) == differ.end())
            differ.push_back(peer);
        if (!differ.empty()) (void)Exchange(differ, now);
      }
    }
    {
      std::unique_lock lock(mutex_);
      if (good) good_ = std::max(good_.load(), now);
      if (good || tried) alone_ = !good;
      changed_.notify_all();
      const auto pause = pending_ || awaited_ ? kSoon : joined ? kTick : kStarting;
      awaited_ = false;
      wake_.wait_for(lock, pause, [this] { return stop_ || awaited_ || !differ_.empty(); });
      if (stop_) return;
    }
  }
}

void Clears::Record() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || recorded_version_ != version_; });
    if (stop_) return;
    const int64_t version = version_;
    ClearState known = known_.state();
    lock.unlock();
    options_.record();
    lock.lock();
    recorded_version_ = version;
    recorded_ = std::move(known);
    changed_.notify_all();
  }
}

std::optional<std::vector<ClearOrder>> Clears::Differing(const ClearState& known) const {
  if (!Current(Clock::now())) return std::nullopt;
  ClearTable theirs;
  theirs.Take(known);
  std::lock_guard lock(mutex_);
  const ClearState ours = known_.state();
  std::vector<ClearOrder> orders;
  for (const ClearTable::News& news : {theirs.Missing(ours), known_.Missing(known)}) {
    for (const uint64_t group : news.groups) {
      const uint64_t a = ForgottenIn(ours, group).epoch, b = ForgottenIn(known, group).epoch;
      orders.push_back({TagRange::OfGroup(group), std::max(a, b)});
    }
    for (const uint64_t tag : news.tags)
      orders.push_back({tag, std::max(EpochIn(ours, tag), EpochIn(known, tag))});
  }
  return orders;
}

ClearsStats Clears::stats(TimePoint now) const {
  const bool current = Current(now);
  const size_t unvouched = peers_->UnvouchedInView();
  std::lock_guard lock(mutex_);
  return {known_.size(), known_.forgotten().size(), current, unvouched};
}

}  // namespace peercache
