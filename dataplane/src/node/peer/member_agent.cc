#include "node/peer/member_agent.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

namespace peercache {
namespace {

constexpr milliseconds kResolveEvery{2000};
constexpr milliseconds kResolveFailing{250};
// Whom this node cannot reach is looked at so often, and said at once.
constexpr milliseconds kWatch{100};

std::string Text(const PeerAddress& a) { return fmt::format("{}:{}", a.host, a.port); }

}  // namespace

MemberAgent::MemberAgent(MemberAgentOptions options, Member self, Views* views, Peers* peers,
                         Counters* counters, std::function<MemberHealth()> health)
    : options_(std::move(options)),
      views_(views),
      peers_(peers),
      counters_(counters),
      health_(std::move(health)),
      started_(Clock::now()),
      self_(std::move(self)) {
  if (!options_.discovery.empty()) resolver_ = std::thread([this] { RunResolver(); });
  heartbeats_ = std::thread([this] { RunHeartbeats(); });
}

MemberAgent::~MemberAgent() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (resolver_.joinable()) resolver_.join();
  heartbeats_.join();
}

void MemberAgent::Synced(const View& view) {
  SharedList tokens = PendingChanges(view);
  std::lock_guard lock(mutex_);
  if (tokens == self_.synced) return;
  self_.synced = std::move(tokens);
  beat_now_ = true;
  wake_.notify_all();
}

MemberState MemberAgent::state() const {
  std::lock_guard lock(mutex_);
  return self_.state;
}

MemberAgent::Hosts MemberAgent::hosts() const {
  std::lock_guard lock(mutex_);
  Hosts hosts;
  for (const auto& a : addresses_) hosts.addresses.push_back(Text(a));
  hosts.answering = answering_;
  hosts.refusing = refusing_;
  return hosts;
}

bool MemberAgent::WaitUntil(TimePoint deadline, const std::function<bool()>& done) {
  std::unique_lock lock(mutex_);
  return wake_.wait_until(lock, deadline, done);
}

void MemberAgent::RunResolver() {
  // The resolver blocks for seconds when DNS is away; heartbeats must not.
  for (;;) {
    std::vector<PeerAddress> found;
    bool complete = true;
    for (const HostPort& entry : options_.discovery) {
      auto addresses = Resolve(entry.host);
      if (!addresses.ok()) {
        complete = false;
        spdlog::debug("discovery: {}", addresses.status().ToString());
        continue;
      }
      for (const std::string& address : *addresses) found.push_back({address, entry.port});
    }
    {
      std::lock_guard lock(mutex_);
      const bool same = std::equal(found.begin(), found.end(), addresses_.begin(), addresses_.end(),
                                   [](const PeerAddress& a, const PeerAddress& b) {
                                     return a.host == b.host && a.port == b.port;
                                   });
      if (!found.empty() && !same) {
        addresses_ = found;
        beat_now_ = true;
        wake_.notify_all();
      }
    }
    const Duration pause = complete && !found.empty() ? kResolveEvery : kResolveFailing;
    if (WaitUntil(Clock::now() + pause, [this] { return stop_; })) return;
  }
}

// Others need this node's word, and this node theirs, before a member that nobody reaches leaves
// the rings; until it has, or it is clear that most others reach it, heartbeats come more often.
bool MemberAgent::Hurried(TimePoint now) const {
  if (now >= reported_at_ + options_.member_ttl) return false;
  const auto view = views_->Get();
  return view != nullptr && std::any_of(reported_.begin(), reported_.end(), [&](uint64_t node) {
           return view->HasMember(node) && !view->IsUnreachable(node);
         });
}

void MemberAgent::RunHeartbeats() {
  for (;;) {
    Beat();
    const TimePoint beaten = Clock::now();
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        wake_.wait_for(lock, std::min<Duration>(options_.heartbeat, kWatch),
                       [this] { return stop_ || beat_now_; });
        if (stop_) return;
        if (std::exchange(beat_now_, false)) break;
      }
      const TimePoint now = Clock::now();
      if (now - beaten >= options_.heartbeat || Hurried(now)) break;
      if (peers_->Suspects(now) != reported_) break;
    }
  }
}

std::vector<MemberList> MemberAgent::Ask(MessageType type, const Request& request) {
  std::vector<PeerAddress> addresses;
  {
    std::lock_guard lock(mutex_);
    addresses = addresses_;
  }
  std::erase_if(channels_, [&](const auto& entry) {
    return std::none_of(addresses.begin(), addresses.end(),
                        [&](const PeerAddress& a) { return Text(a) == entry.first; });
  });
  // Long lists go to all hosts or to none: of what a member has told several hosts, others take
  // what is newest. Nothing is known of a host before it has answered.
  uint16_t taken_by_all = Heartbeat::kHearsAll;
  for (const auto& [address, channel] : channels_)
    if (channel->status().ok() && (channel->answer().can & FrameHeader::kHearsCrowds) == 0)
      taken_by_all = FrameHeader::kHearsLookups;
  std::map<uint16_t, FrameWriter> requests;  // by what a host takes
  const auto request_for = [&](uint16_t host) {
    const auto [it, added] = requests.try_emplace(host);
    if (added) {
      it->second.Start(type, 1);
      it->second.Can(FrameHeader::kHearsCrowds);
      request(host, &it->second);
      it->second.Finish();
    }
    return it->second.bytes();
  };
  std::vector<Channel*> running;
  const TimePoint now = Clock::now();
  for (const PeerAddress& address : addresses) {
    auto& channel = channels_[Text(address)];
    // A new connection proves what the secret is now, so a channel that failed is made anew.
    const auto begin = [&] {
      channel = peers_->NewDiscoveryChannel(address);
      channel->Begin(request_for(0), nullptr, now);
    };
    if (!channel || !channel->status().ok() || !peers_->Current(*channel)) {
      begin();
    } else {
      channel->Begin(request_for(channel->answer().can & taken_by_all), nullptr, now);
      if (channel->stale()) begin();
    }
    running.push_back(channel.get());
  }
  if (type == MessageType::kHeartbeat) counters_->heartbeats.Add(running.size());
  RunAll(running, {options_.stall, now + options_.stall});

  std::vector<MemberList> answers;
  std::string problem;
  size_t refusing = 0;
  for (Channel* channel : running) {
    MemberListMessage message;
    FrameReader reader = channel->body();
    const auto decode = [&] {
      if (channel->answer().type != AnswerTo(type)) return false;
      if (type == MessageType::kLeave) return reader.AtEnd();
      const bool once = (channel->answer().can & FrameHeader::kHearsCrowds) != 0;
      return once ? message.DecodeOnce(&reader) : message.Decode(&reader);
    };
    if (channel->status().ok() && decode()) {
      answers.push_back(FromWire(message));
    } else {
      problem = channel->status().ok() ? "malformed answer" : channel->status().ToString();
      counters_->heartbeat_failures.Add(1);
      if (channel->status().code() == Code::kUnauthenticated) ++refusing;
    }
    channel->Rest();
  }
  // One line when it starts failing and one when it works again, not two a second.
  const bool failing = answers.empty();
  if (failing && !failing_ && !addresses.empty()) {
    spdlog::warn("discovery: no host answers ({}); keeping the last known members", problem);
  }
  if (!failing && failing_) spdlog::info("discovery: {} hosts answer again", answers.size());
  failing_ = failing && !addresses.empty();
  std::lock_guard lock(mutex_);
  answering_ = answers.size();
  refusing_ = refusing;
  return answers;
}

void MemberAgent::Beat() {
  std::lock_guard beat(beat_mutex_);
  for (int again = 0; again < 2; ++again) {
    Member self;
    {
      std::lock_guard lock(mutex_);
      self = self_;
    }
    auto suspects = peers_->Suspects(Clock::now());
    if (suspects != reported_) {
      reported_ = suspects;
      reported_at_ = Clock::now();
    }
    self.unreachable = std::move(suspects);
    std::vector<MemberList> answers;
    if (options_.discovery.empty()) {
      answers.push_back({false, {{self, Duration::zero()}}});
    } else {
      const Heartbeat heartbeat{self, health_()};
      answers = Ask(MessageType::kHeartbeat,
                    [&heartbeat](uint16_t host, FrameWriter* w) { heartbeat.Encode(w, host); });
    }
    const TimePoint now = Clock::now();
    MergeLists(answers, options_.member_ttl, now, &known_);
    // Also when no host answers, this node's own word counts.
    const auto own = known_.find(self.id);
    if (own != known_.end() && own->second.member.incarnation == self.incarnation) {
      own->second.member.unreachable = self.unreachable;
      own->second.heard = now;
    }
    const bool settled =
        std::any_of(answers.begin(), answers.end(), [](const MemberList& l) { return !l.warming; });
    auto before = views_->Get();
    // The first view must come from a host that has had time to hear of everyone.
    if (before == nullptr && !settled) return;
    ViewOptions view_options;
    view_options.vnodes = options_.vnodes;
    view_options.grace = options_.member_ttl * 2;
    view_options.voting = options_.member_ttl / 2;
    view_options.self = NodeHash(self.id);
    auto view = BuildView(before, known_, view_options, now);
    if (view != before) {
      peers_->Update(*view);
      views_->Set(view);
      if (before == nullptr || before->members.size() != view->members.size() ||
          before->unreachable != view->unreachable) {
        spdlog::info("members: {}, of which unreachable: {}; ring epoch {}", view->members.size(),
                     view->unreachable.size(), view->epoch);
      }
    }
    std::lock_guard lock(mutex_);
    wake_.notify_all();  // Leave waits for views
    if (self_.state != MemberState::kJoining) return;
    const bool listed = view->HasMember(NodeHash(self_.id));
    const bool prepared = listed && settled && EveryoneSynced(*view, self_);
    if (!prepared && now - started_ < options_.longest_join) return;
    if (!prepared)
      spdlog::warn("joining without everyone's preparation: some reads may miss at first");
    self_.state = MemberState::kActive;
    spdlog::info("joined: {} members", view->members.size());
  }
}

void MemberAgent::Drain() {
  {
    std::lock_guard lock(mutex_);
    self_.state = MemberState::kDraining;
    beat_now_ = true;
  }
  wake_.notify_all();
}

bool MemberAgent::Leave(Duration limit) {
  const TimePoint deadline = Clock::now() + limit;
  Drain();
  const auto taken_over = [this] {
    const auto view = views_->Get();
    if (view == nullptr) return true;  // never joined: nothing to hand over
    const Member* listed = view->Find(NodeHash(self_.id));
    if (view->members.size() == 1) return true;
    return listed != nullptr && listed->state == MemberState::kDraining &&
           EveryoneSynced(*view, self_);
  };
  const bool complete = WaitUntil(deadline, taken_over);
  std::lock_guard beat(beat_mutex_);
  LeaveRequest leave;
  {
    std::lock_guard lock(mutex_);
    leave = {self_.id, self_.incarnation};
    stop_ = true;  // a further heartbeat would bring this node back
  }
  wake_.notify_all();
  if (!options_.discovery.empty())
    (void)Ask(MessageType::kLeave, [&leave](uint16_t, FrameWriter* w) { leave.Encode(w); });
  return complete;
}

}  // namespace peercache
