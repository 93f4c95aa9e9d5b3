#include "node/peer/peers.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace peercache {

// ---- Peer --------------------------------------------------------------------------------------

OwnerStamp Peer::BeginOwnerMessage() {
  std::lock_guard lock(mutex_);
  return fence_.Begin();
}

bool Peer::EndOwnerMessage(const OwnerStamp& sent, const ShardAnswer* answer, TimePoint now) {
  std::lock_guard lock(mutex_);
  if (answer == nullptr || answer->code != Code::kOk) {
    fence_.Failed(sent);
    // A refusal still carries the shard's clock, which the next message needs.
    if (answer != nullptr) fence_.Answered(sent, answer->stamp, answer->instance, now);
    return false;
  }
  fence_.Answered(sent, answer->stamp, answer->instance, now);
  return fence_.Counts(sent);
}

bool Peer::in_view() const {
  std::lock_guard lock(mutex_);
  return in_view_;
}

uint64_t Peer::incarnation() const {
  std::lock_guard lock(mutex_);
  return member_incarnation_;
}

PeerAddress Peer::address() const {
  std::lock_guard lock(mutex_);
  return address_;
}

Way Peer::way(uint32_t own_machine) const {
  return {.here = own_machine != 0 && machine_.load(std::memory_order_relaxed) == own_machine,
          .round_trip = round_trip_.get(),
          .under_way = under_way()};
}

void Peer::GiveUp() {
  std::lock_guard lock(mutex_);
  fence_.GiveUp();
}
Fence Peer::fence() const {
  std::lock_guard lock(mutex_);
  return fence_;
}
TimePoint Peer::SilentAfter() const {
  std::lock_guard lock(mutex_);
  return fence_.SilentAfter();
}
TimePoint Peer::UnheldAfter() const {
  std::lock_guard lock(mutex_);
  return fence_.UnheldAfter();
}
bool Peer::needs_resync() const {
  std::lock_guard lock(mutex_);
  return synced_epoch_ != fence_.epoch();
}
uint64_t Peer::epoch() const {
  std::lock_guard lock(mutex_);
  return fence_.epoch();
}
void Peer::Resynced(uint64_t epoch) {
  std::lock_guard lock(mutex_);
  synced_epoch_ = epoch;
}

std::unique_ptr<Channel> Peer::TakeChannel(const Peers& peers) {
  std::lock_guard lock(mutex_);
  while (!idle_.empty()) {
    auto channel = std::move(idle_.back());
    idle_.pop_back();
    if (peers.Current(*channel)) return channel;
  }
  return peers.NewChannel(node_, address_);
}

void Peer::ReturnChannel(std::unique_ptr<Channel> channel, const PeerAddress& address) {
  channel->Rest();
  std::lock_guard lock(mutex_);
  const bool current = address.host == address_.host && address.port == address_.port;
  if (current && channel->status().ok() && idle_.size() < kMaxIdleChannels) {
    idle_.push_back(std::move(channel));
  }
}

// ---- Peers -------------------------------------------------------------------------------------

Peers::Peers(Hello self, const Secret* secret, OwnerTimes times, const Tls* tls,
             FrameMemory* memory)
    : self_(std::move(self)),
      secret_(secret),
      tls_(tls),
      memory_(memory),
      times_(times),
      started_(Clock::now()),
      by_index_{nullptr} {}

std::unique_ptr<Channel> Peers::NewChannel(uint64_t node, const PeerAddress& address) const {
  const auto key = secret_->ToProve(Clock::now());
  Hello hello = self_;
  hello.to.clear();
  if (!key)
    return std::make_unique<Channel>(address, std::move(hello), tls_, std::nullopt, memory_);
  if (node != 0) hello.to = fmt::format("{}:{}", address.host, address.port);
  return std::make_unique<Channel>(address, std::move(hello), tls_, Channel::Proving{*key, node},
                                   memory_);
}

std::unique_ptr<Channel> Peers::NewDiscoveryChannel(const PeerAddress& address) const {
  return NewChannel(0, address);
}

bool Peers::Current(const Channel& channel) const {
  const auto key = secret_->ToProve(Clock::now());
  return channel.key() == (key ? key->id : 0);
}

void Peers::Update(const View& view) {
  {
    std::lock_guard lock(mutex_);
    for (const Member& member : view.members) {
      const uint64_t node = NodeHash(member.id);
      if (node == self_.node) continue;
      const PeerRef peer = FindOrAdd(node);
      if (peer == nullptr) continue;
      std::lock_guard peer_lock(peer->mutex_);
      const bool moved =
          peer->address_.host != member.host || peer->address_.port != member.peer_port;
      if (moved || peer->member_incarnation_ != member.incarnation) {
        peer->idle_.clear();
        peer->address_ = {member.host, member.peer_port};
        peer->member_incarnation_ = member.incarnation;
        peer->health_.Reset();  // whatever failed before was another process
        peer->round_trip_.Forget();
        peer->memory_cost_.Forget();
        peer->disk_cost_.Forget();
        peer->word_.store(-1, std::memory_order_release);
      }
      peer->id_ = member.id;
      peer->left_ = member.state == MemberState::kDraining;
      peer->in_view_ = true;
    }
    for (auto& [node, peer] : peers_) {
      if (view.HasMember(node)) continue;
      std::lock_guard peer_lock(peer->mutex_);
      if (peer->in_view_) {
        peer->fence_.GiveUp();  // model: Leave
        peer->lost_at_ = Clock::now();
        peer->word_.store(-1, std::memory_order_release);
      }
      peer->in_view_ = false;
      peer->idle_.clear();
      peer->member_incarnation_ = 0;
    }
  }
}

PeerRef Peers::FindOrAdd(uint64_t node) {
  if (const auto it = peers_.find(node); it != peers_.end()) return it->second;
  uint16_t index = 0;
  if (!free_.empty()) {
    index = free_.back();
    free_.pop_back();
  } else if (by_index_.size() <= UINT16_MAX) {
    index = static_cast<uint16_t>(by_index_.size());
    by_index_.emplace_back();
  } else {
    spdlog::error("{} members have been here within moments: {:016x} is left out", UINT16_MAX,
                  node);
    return nullptr;
  }
  auto peer = std::make_shared<Peer>(
      node, index, Fence(self_.node, self_.incarnation, times_, started_, first_epoch_));
  by_index_[index] = peer;
  peers_.emplace(node, peer);
  return peer;
}

void Peers::ForgetGone(TimePoint now) {
  std::lock_guard lock(mutex_);
  std::erase_if(peers_, [&](const auto& entry) {
    const PeerRef& peer = entry.second;
    // These two hold it; more only come by this lock.
    if (peer.use_count() > 2 || peer->in_view()) return false;
    {
      std::lock_guard peer_lock(peer->mutex_);
      if (!peer->left_ && now <= peer->lost_at_ + remember()) return false;
    }
    peer->GiveUp();  // model: gone_gives_up
    if (now <= peer->UnheldAfter()) return false;
    first_epoch_ = std::max(first_epoch_, peer->epoch() + 1);
    dropped_trips_ += peer->health().trips();
    free_.push_back(peer->index());
    by_index_[peer->index()] = nullptr;
    return true;
  });
}

PeerRef Peers::Find(uint64_t node) const {
  std::lock_guard lock(mutex_);
  const auto it = peers_.find(node);
  return it == peers_.end() ? nullptr : it->second;
}

PeerRef Peers::At(uint16_t index) const {
  std::lock_guard lock(mutex_);
  return index < by_index_.size() ? by_index_[index] : nullptr;
}

std::vector<PeerRef> Peers::All() const {
  std::lock_guard lock(mutex_);
  std::vector<PeerRef> all;
  all.reserve(peers_.size());
  for (const PeerRef& peer : by_index_)
    if (peer != nullptr) all.push_back(peer);
  return all;
}

std::vector<PeerRef> Peers::InView() const {
  auto all = All();
  std::erase_if(all, [](const PeerRef& peer) { return !peer->in_view(); });
  return all;
}

std::vector<PeerRef> Peers::Lost(TimePoint now, Duration limit) const {
  auto all = All();
  std::erase_if(all, [&](const PeerRef& peer) {
    std::lock_guard lock(peer->mutex_);
    return peer->in_view_ || peer->left_ || peer->lost_at_ + limit < now;
  });
  return all;
}

std::string Peers::NameOf(const Peer& peer) const {
  std::lock_guard lock(peer.mutex_);
  return peer.id_;
}

void Peers::Vouch(const PeerRef& peer, uint64_t incarnation, int64_t version) {
  std::lock_guard lock(peer->mutex_);
  // Who has left the view or was restarted meanwhile speaks for itself when it is back.
  if (peer->in_view_ && peer->member_incarnation_ == incarnation && peer->word() < version)
    peer->word_.store(version, std::memory_order_release);
}

void Peers::Cleared(int64_t version, std::span<const uint64_t> unheard) {
  for (const PeerRef& peer : InView()) {
    const bool heard = std::ranges::find(unheard, peer->node()) == unheard.end();
    std::lock_guard lock(peer->mutex_);
    if (heard && peer->in_view_ && peer->word() == version - 1)
      peer->word_.store(version, std::memory_order_release);
  }
}

std::vector<uint64_t> Peers::ToAvoid(TimePoint now) const {
  auto nodes = Unhealthy(now);
  if (AllVouched()) return nodes;
  for (const PeerRef& peer : All())
    if (!Vouched(*peer)) nodes.push_back(peer->node());
  return nodes;
}

size_t Peers::UnvouchedInView() const {
  const auto peers = InView();
  return static_cast<size_t>(
      std::ranges::count_if(peers, [this](const PeerRef& peer) { return !Vouched(*peer); }));
}

Peers::Breakers Peers::breakers(TimePoint now) const {
  Breakers breakers;
  {
    std::lock_guard lock(mutex_);
    breakers.trips = dropped_trips_;
  }
  for (const PeerRef& peer : All()) {
    breakers.trips += peer->health().trips();
    if (!peer->in_view()) continue;
    breakers.unsynced += peer->needs_resync();
    switch (peer->health().state(now)) {
      case PeerHealth::State::kClosed: ++breakers.closed; break;
      case PeerHealth::State::kOpen: ++breakers.open; break;
      case PeerHealth::State::kHalfOpen: ++breakers.half_open; break;
    }
  }
  return breakers;
}

std::vector<uint64_t> Peers::Suspects(TimePoint now) const {
  std::vector<uint64_t> nodes;
  for (const PeerRef& peer : InView()) {
    if (peer->health().Suspect(now)) nodes.push_back(peer->node());
  }
  std::sort(nodes.begin(), nodes.end());
  if (nodes.size() > kMostListed) nodes.resize(kMostListed);
  return nodes;
}

std::vector<uint64_t> Peers::Unhealthy(TimePoint now) const {
  std::vector<uint64_t> nodes;
  std::lock_guard lock(mutex_);
  for (const auto& [node, peer] : peers_) {
    if (!peer->health().Allows(now)) nodes.push_back(node);
  }
  return nodes;
}

std::vector<SlowPlace> Peers::SlowPlaces() const {
  std::vector<SlowPlace> places;
  for (const PeerRef& peer : InView()) {
    for (const Tier tier : {Tier::kMemory, Tier::kDisk}) {
      const ReadCost& cost = std::as_const(*peer).cost(tier);
      if (cost.slow()) places.push_back({peer->node(), tier, cost.bytes_per_second()});
    }
  }
  std::ranges::sort(places, {}, &SlowPlace::node);
  return places;
}

// ---- CallGroup ---------------------------------------------------------------------------------

CallGroup::~CallGroup() {
  for (size_t i = 0; i < running_.size(); ++i) {
    if (running_[i].channel && running_[i].channel->done()) {
      calls_[i]->peer->ReturnChannel(std::move(running_[i].channel), running_[i].address);
    }
  }
}

PeerCall& CallGroup::Add(PeerRef peer, MessageType type) {
  calls_.push_back(std::make_unique<PeerCall>());
  PeerCall& call = *calls_.back();
  call.peer = std::move(peer);
  call.request.Start(type, 1);
  return call;
}

void CallGroup::Begin(size_t i, TimePoint now) {
  PeerCall& call = *calls_[i];
  call.began = Clock::now();
  running_[i].address = call.peer->address();
  running_[i].channel = call.peer->TakeChannel(peers_);
  running_[i].channel->Begin(call.request.bytes(), call.sink, now);
}

void CallGroup::Start() {
  const TimePoint now = Clock::now();
  while (running_.size() < calls_.size()) {
    const size_t i = running_.size();
    running_.emplace_back();
    PeerCall& call = *calls_[i];
    call.request.Finish();
    if (breaker_ == Breaker::kRespect && !call.peer->health().Allows(now)) {
      call.status = Unavailable("the peer failed a moment ago; its breaker is open");
      continue;
    }
    Begin(i, now);
  }
}

void CallGroup::Run(MessageType expected, const GroupLimits& limits,
                    const std::function<void(size_t)>& ended) {
  Start();
  std::vector<size_t> begun;
  for (size_t i = 0; i < running_.size(); ++i)
    if (running_[i].channel) begun.push_back(i);
  Advance(begun, expected, limits, ended);

  // An idle channel may have been closed by a peer that restarted. Every request can be repeated:
  // reads and lookups change nothing, owner messages are idempotent within their stamp.
  begun.clear();
  const TimePoint now = Clock::now();
  for (size_t i = 0; i < running_.size(); ++i) {
    while (running_[i].channel && running_[i].channel->stale() && now < limits.deadline) {
      Begin(i, now);
      if (!running_[i].channel->done()) begun.push_back(i);
    }
  }
  Advance(begun, expected, limits, ended);
  for (size_t i = 0; i < running_.size(); ++i)
    if (!running_[i].ended) End(i, expected, limits, ended);
}

void CallGroup::Advance(std::span<const size_t> begun, MessageType expected,
                        const GroupLimits& limits, const std::function<void(size_t)>& ended) {
  std::vector<Channel*> channels;
  for (const size_t i : begun) channels.push_back(running_[i].channel.get());
  RunAll(channels, limits, [&](size_t c) {
    if (!channels[c]->stale()) End(begun[c], expected, limits, ended);
  });
}

void CallGroup::End(size_t i, MessageType expected, const GroupLimits& limits,
                    const std::function<void(size_t)>& ended) {
  running_[i].ended = true;
  PeerCall& call = *calls_[i];
  if (running_[i].channel) {
    Channel& channel = *running_[i].channel;
    call.status = channel.status();
    call.refused = channel.refused();
    const MessageType wanted = call.wanted.value_or(expected);
    if (call.status.ok() && channel.answer().type != wanted) {
      call.status =
          Corrupt(fmt::format("answer of type {}, expected {}",
                              static_cast<int>(channel.answer().type), static_cast<int>(wanted)));
      channel.Fail(call.status);
    }
    if (call.status.ok()) {
      call.answer_type = channel.answer().type;
      call.can = channel.answer().can;
      call.answer = channel.body();
      call.answered_by = channel.peer_incarnation();
      call.finished = channel.finished();
      call.peer->machine_.store(channel.peer_machine(), std::memory_order_relaxed);
      call.peer->health().Succeeded();
    } else {
      Blame(i, limits);
    }
  }
  if (ended) ended(i);
}

// For one failure, however many calls of the group have met it.
void CallGroup::Blame(size_t i, const GroupLimits& limits) {
  const TimePoint now = Clock::now();
  if (limits.hurried && calls_[i]->status.code() == Code::kDeadlineExceeded &&
      now < calls_[i]->began + limits.stall) {
    return;
  }
  const auto failed = [&](size_t c) {
    const Code code = calls_[c]->status.code();
    return running_[c].channel && (code == Code::kUnavailable || code == Code::kDeadlineExceeded);
  };
  if (!failed(i)) return;
  for (size_t c = 0; c < running_.size(); ++c) {
    if (c != i && running_[c].ended && calls_[c]->peer == calls_[i]->peer && failed(c)) return;
  }
  calls_[i]->peer->health().Failed(now);
}

}  // namespace peercache
