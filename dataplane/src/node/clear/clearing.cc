#include "node/clear/clearing.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

namespace peercache {
namespace {

// Between two rounds: about the time a page is in use by a read or a publish.
constexpr milliseconds kPause{5};
constexpr size_t kMostNamed = 8;
// Of telling the epoch, while other members clear the same tag.
constexpr int kMostRounds = 3;
// Over members that come while a clear is made, or show a later clear at its end.
constexpr int kMostPasses = 3;

std::string Listed(std::vector<std::string> names) {
  std::ranges::sort(names);
  const size_t count = names.size();
  names.resize(std::min(count, kMostNamed));
  std::string text = fmt::format("{}", fmt::join(names, ", "));
  if (count > kMostNamed) text += fmt::format(" and {} more", count - kMostNamed);
  return text;
}

}  // namespace

Clearing::Clearing(ClearingOptions options, Peers* peers, Clears* clears, Counters* counters,
                   Clears::Sweep sweep)
    : options_(std::move(options)),
      peers_(peers),
      clears_(clears),
      counters_(counters),
      sweep_(std::move(sweep)) {}

Status Clearing::Clear(uint64_t tag) {
  std::shared_ptr<Run> run;
  bool mine = false;
  {
    std::lock_guard lock(mutex_);
    auto& waiting = waiting_[tag];
    mine = waiting == nullptr;
    if (mine) waiting = std::make_shared<Run>();
    run = waiting;
  }
  if (mine) {
    Status status = Make(tag);
    std::lock_guard lock(mutex_);
    run->status = std::move(status);
    run->done = true;
    ended_.notify_all();
    return run->status;
  }
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return run->done; });
  return run->status;
}

bool Clearing::AddNew(std::vector<Target>* targets) const {
  const size_t before = targets->size();
  for (const PeerRef& peer : peers_->InView()) {
    if (std::ranges::find(*targets, peer, &Target::peer) == targets->end())
      targets->push_back({peer});
  }
  return targets->size() > before;
}

void Clearing::Sweep(uint64_t tag, std::vector<Target>* targets, TimePoint deadline) {
  for (;;) {
    bool here = sweep_({.tags = tag}) > 0;
    CallGroup calls(*peers_, CallGroup::Breaker::kIgnore);
    std::vector<Target*> asked;
    for (Target& target : *targets) {
      if (target.stage != Stage::kHasPages) continue;
      calls.Add(target.peer, MessageType::kClearTag).request.Put(tag);
      asked.push_back(&target);
    }
    // Who has less time than this to answer in, and does not, is as it was before.
    const bool short_of_time = deadline - Clock::now() < options_.stall;
    calls.Run(MessageType::kClearTagOk, {options_.stall, deadline});
    bool all = true;
    for (size_t i = 0; i < asked.size(); ++i) {
      const PeerCall& call = *calls.calls()[i];
      if (short_of_time && call.status.code() == Code::kDeadlineExceeded) {
        all = false;
        continue;
      }
      FrameReader answer = call.answer;
      // A process that is gone has taken its pages with it.
      asked[i]->stage = call.refused                 ? Stage::kGone
                        : !call.status.ok()          ? Stage::kSilent
                        : answer.Get<uint32_t>() > 0 ? Stage::kHasPages
                                                     : Stage::kSwept;
      all &= asked[i]->stage != Stage::kHasPages;  // who is silent is waited for at the end
    }
    if ((!here && all) || Clock::now() >= deadline) return;
    std::this_thread::sleep_for(kPause);
  }
}

std::optional<ClearEntry> Clearing::Tell(uint64_t tag, std::vector<Target>* targets,
                                         TimePoint deadline) {
  ClearEntry entry = clears_->New(tag);
  for (int round = 1;; ++round) {
    const ClearsMessage message{{{}, {entry}}, ClearsMessage::kMade, {}};
    CallGroup calls(*peers_, CallGroup::Breaker::kIgnore);
    std::vector<Target*> asked;
    for (Target& target : *targets) {
      if (target.stage != Stage::kSwept && target.stage != Stage::kKnows) continue;
      PeerCall& call =
          calls.Add(target.peer, target.tells ? MessageType::kClears : MessageType::kClearTag);
      if (target.tells) {
        message.Encode(&call.request);
      } else {
        call.request.Put(tag);
        call.wanted = MessageType::kClearTagOk;
      }
      asked.push_back(&target);
    }
    calls.Run(MessageType::kClearsOk, {options_.stall, deadline});
    const bool here = clears_->Made(entry);
    bool again = !here, later = false;
    for (size_t i = 0; i < asked.size(); ++i) {
      const PeerCall& call = *calls.calls()[i];
      Target& target = *asked[i];
      FrameReader reader = call.answer;
      ClearsAnswer answer;
      if (call.refused) {
        target.stage = Stage::kGone;
      } else if (call.status.ok() && !target.tells) {
        target.stage = reader.Get<uint32_t>() == 0 ? Stage::kKnows : Stage::kHasPages;
      } else if (call.status.ok() && Clears::Decode(call.answer, &answer)) {
        const uint64_t known = Take(entry, call, answer, &target);
        // Else pages are in use there again. A higher epoch is another member's clear of the tag,
        // made without knowing of this one. Whoever hears of that one alone must not take it for
        // this one; of many at once the last stands for all (pass_later of
        // membership/clear_simulation.h).
        later |= known > entry.epoch && round < kMostRounds;
        again |= known < entry.epoch || later;
      } else if (target.tells && call.status.code() == Code::kCorrupt) {
        target.tells = false;  // a release that keeps no clears: it drops what has come since
        again = true;
      } else {
        target.stage = Stage::kSilent;
      }
    }
    if (!again) return entry;
    if (later) entry = clears_->New(tag);
    if (Clock::now() >= deadline) return here ? std::optional(entry) : std::nullopt;
    std::this_thread::sleep_for(kPause);
  }
}

uint64_t Clearing::Take(const ClearEntry& entry, const PeerCall& call, const ClearsAnswer& answer,
                        Target* target) {
  const uint64_t known = EpochIn(answer.state, entry.tag);
  target->stage = known >= entry.epoch ? Stage::kKnows : Stage::kSwept;
  target->noted = target->stage == Stage::kKnows && (call.can & ClearsAnswer::kNoted) != 0;
  clears_->Told(call, answer.state);
  return known;
}

void Clearing::Vouch(const ClearEntry& entry, std::vector<Target>* targets) {
  ClearsMessage message{{{}, {entry}}, ClearsMessage::kHeard, {}};
  CallGroup calls(*peers_, CallGroup::Breaker::kIgnore);
  std::vector<uint64_t> members{peers_->self()};
  for (const Target& target : *targets) {
    if (target.peer->in_view()) members.push_back(target.peer->node());
    if (target.stage == Stage::kKnows) continue;
    message.unheard.push_back(target.peer->node());
  }
  message.view = MarkOf(members);
  clears_->Ended(entry, message.unheard, message.view);
  for (const Target& target : *targets) {
    if (target.stage == Stage::kKnows && target.tells)
      message.Encode(&calls.Add(target.peer, MessageType::kClears).request);
  }
  // Whoever does not hear this waits for each member's own word.
  calls.Run(MessageType::kClearsOk, {options_.stall, Clock::now() + options_.stall});
}

// Who was gone is asked once more: a process that has come since has asked members for clears that
// did not know this one yet (ask_gone of the simulation). model clears: wait_long, wait_last
bool Clearing::AwaitOthers(const ClearEntry& entry, std::vector<Target>* targets) {
  const ClearsMessage message{{{}, {entry}}, ClearsMessage::kMade, {}};
  const TimePoint deadline = Clock::now() + options_.peer_timeout;
  bool later = false;
  for (bool first = true;; first = false) {
    CallGroup calls(*peers_, CallGroup::Breaker::kIgnore);
    std::vector<Target*> asked;
    for (Target& target : *targets) {
      const bool waits = target.stage == Stage::kHasPages || target.stage == Stage::kSwept;
      const bool once = target.stage == Stage::kSilent || target.stage == Stage::kGone;
      if (!target.tells || !(waits || (first && once))) continue;
      message.Encode(&calls.Add(target.peer, MessageType::kClears).request);
      asked.push_back(&target);
    }
    if (asked.empty()) return false;
    const bool short_of_time = deadline - Clock::now() < options_.stall;  // as in Sweep
    calls.Run(MessageType::kClearsOk, {options_.peer_timeout, deadline});
    for (size_t i = 0; i < asked.size(); ++i) {
      const PeerCall& call = *calls.calls()[i];
      if (short_of_time && call.status.code() == Code::kDeadlineExceeded) continue;
      ClearsAnswer answer;
      if (call.refused) {
        asked[i]->stage = Stage::kGone;
      } else if (call.status.ok() && Clears::Decode(call.answer, &answer)) {
        later |= Take(entry, call, answer, asked[i]) > entry.epoch;  // as in Tell
      } else {
        asked[i]->stage = Stage::kSilent;
      }
    }
    if (later) return true;
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kPause);
  }
}

bool Clearing::AwaitDrives(const ClearEntry& entry, std::vector<Target>* targets,
                           TimePoint deadline) {  // model drives: record_first
  const ClearsMessage message{{{}, {entry}}, ClearsMessage::kMade, {}};
  for (;;) {
    CallGroup calls(*peers_, CallGroup::Breaker::kIgnore);
    std::vector<Target*> asked;
    for (Target& target : *targets) {
      if (!target.noted) continue;
      message.Encode(&calls.Add(target.peer, MessageType::kClears).request);
      asked.push_back(&target);
    }
    calls.Run(MessageType::kClearsOk, {options_.stall, deadline});
    for (size_t i = 0; i < asked.size(); ++i) {
      const PeerCall& call = *calls.calls()[i];
      ClearsAnswer answer;
      if (call.status.ok() && Clears::Decode(call.answer, &answer))
        (void)Take(entry, call, answer, asked[i]);
    }
    if (asked.empty() || Clock::now() >= deadline) break;
    std::this_thread::sleep_for(kPause);
  }
  return clears_->AwaitRecorded(entry, deadline);
}

Status Clearing::Make(uint64_t tag) {
  std::unique_lock making(making_);
  {
    std::lock_guard lock(mutex_);
    waiting_.erase(tag);  // whoever calls from now on may have set pages since
  }
  const TimePoint start = Clock::now();
  std::vector<Target> targets;
  for (const PeerRef& peer : peers_->Lost(start, options_.remember)) targets.push_back({peer});
  AddNew(&targets);
  std::optional<ClearEntry> entry;
  TimePoint deadline = start + options_.peer_timeout;
  int passes = 0;
  bool again = false;
  do {
    Sweep(tag, &targets, deadline);
    entry = Tell(tag, &targets, Clock::now() + options_.stall);
    if (!entry) break;
    Vouch(*entry, &targets);
    again = AwaitOthers(*entry, &targets);
    // Who has come meanwhile may have pages, too.
    again |= AddNew(&targets);
    deadline = Clock::now() + options_.stall;
  } while (again && ++passes < kMostPasses);
  making.unlock();
  const TimePoint for_drives = start + options_.peer_timeout * 5 / 2;
  return Outcome(targets, !entry, entry && !AwaitDrives(*entry, &targets, for_drives));
}

Status Clearing::Outcome(const std::vector<Target>& targets, bool busy_here,
                         bool noted_here) const {
  std::vector<std::string> unheard, busy, noted;
  if (busy_here) busy.push_back(options_.self);
  if (noted_here) noted.push_back(options_.self);
  for (const Target& target : targets) {
    if (target.stage == Stage::kSilent) unheard.push_back(peers_->NameOf(*target.peer));
    if (target.stage == Stage::kHasPages || target.stage == Stage::kSwept)
      busy.push_back(peers_->NameOf(*target.peer));
    if (target.noted) noted.push_back(peers_->NameOf(*target.peer));
  }
  counters_->clears.Add(1);
  const bool kept = std::ranges::any_of(
      targets, [](const Target& target) { return target.stage == Stage::kKnows && target.tells; });
  const bool lost = !kept && options_.unrecorded();  // model drives: none_missed
  const bool all_know = unheard.empty() && busy.empty() && noted.empty();
  if (all_know && !lost) return {};
  counters_->clears_unheard.Add(1);
  if (all_know) {
    return Unavailable(
        "clear: the pages are gone, but a drive that is off could not record that, and no other "
        "member knows of it: they come back when it is used again; remove the files in disk-path "
        "that are on it before");
  }
  std::vector<std::string> parts;
  if (!unheard.empty()) {
    parts.push_back(fmt::format(
        "{} of {} members do not know it: {}; each drops the pages before it serves again",
        unheard.size(), targets.size() + 1, Listed(unheard)));
  }
  if (!busy.empty()) parts.push_back(fmt::format("pages are still in use on {}", Listed(busy)));
  if (!noted.empty())
    parts.push_back(fmt::format("the drives of {} have not recorded it yet", Listed(noted)));
  return Unavailable(fmt::format("clear: {}; repeat it when they answer", fmt::join(parts, "; ")));
}

}  // namespace peercache
