#include "node/peers.h"

#include <fmt/format.h>

#include <algorithm>

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
          .under_way = under_way_.load(std::memory_order_relaxed)};
}

void Peer::GiveUp() {
  std::lock_guard lock(mutex_);
  fence_.GiveUp();
}
TimePoint Peer::ReuseAfter(TimePoint over) const {
  std::lock_guard lock(mutex_);
  return fence_.ReuseAfter(over);
}
TimePoint Peer::SilentAfter() const {
  std::lock_guard lock(mutex_);
  return fence_.SilentAfter();
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
  if (!idle_.empty()) {
    auto channel = std::move(idle_.back());
    idle_.pop_back();
    return channel;
  }
  return peers.NewChannel(address_);
}

void Peer::ReturnChannel(std::unique_ptr<Channel> channel, const PeerAddress& address) {
  std::lock_guard lock(mutex_);
  const bool current = address.host == address_.host && address.port == address_.port;
  if (current && channel->status().ok() && idle_.size() < kMaxIdleChannels) {
    idle_.push_back(std::move(channel));
  }
}

// ---- Peers -------------------------------------------------------------------------------------

Peers::Peers(Hello self, const Secret* secret, OwnerTimes times, const Tls* tls)
    : self_(std::move(self)),
      secret_(secret),
      tls_(tls),
      times_(times),
      started_(Clock::now()),
      by_index_{nullptr} {}

std::unique_ptr<Channel> Peers::NewChannel(const PeerAddress& address) const {
  Hello hello = self_;
  hello.token = secret_->ToSend(Clock::now());
  return std::make_unique<Channel>(address, hello, tls_);
}

void Peers::Update(const View& view) {
  {
    std::lock_guard lock(mutex_);
    for (const Member& member : view.members) {
      const uint64_t node = NodeHash(member.id);
      if (node == self_.node) continue;
      auto& peer = peers_[node];
      if (!peer) {
        peer = std::make_unique<Peer>(node, static_cast<uint16_t>(by_index_.size()),
                                      Fence(self_.node, self_.incarnation, times_, started_));
        by_index_.push_back(peer.get());
      }
      std::lock_guard peer_lock(peer->mutex_);
      const bool moved =
          peer->address_.host != member.host || peer->address_.port != member.peer_port;
      if (moved || peer->member_incarnation_ != member.incarnation) {
        peer->idle_.clear();
        peer->address_ = {member.host, member.peer_port};
        peer->member_incarnation_ = member.incarnation;
        peer->health_.Reset();  // whatever failed before was another process
        peer->round_trip_.Forget();
      }
      peer->in_view_ = true;
    }
    for (auto& [node, peer] : peers_) {
      if (view.HasMember(node)) continue;
      std::lock_guard peer_lock(peer->mutex_);
      if (peer->in_view_) peer->fence_.GiveUp();  // model: Leave
      peer->in_view_ = false;
      peer->idle_.clear();
      peer->member_incarnation_ = 0;
    }
  }
}

Peer* Peers::Find(uint64_t node) const {
  std::lock_guard lock(mutex_);
  const auto it = peers_.find(node);
  return it == peers_.end() ? nullptr : it->second.get();
}

Peer* Peers::At(uint16_t index) const {
  std::lock_guard lock(mutex_);
  return index < by_index_.size() ? by_index_[index] : nullptr;
}

std::vector<Peer*> Peers::All() const {
  std::lock_guard lock(mutex_);
  return {by_index_.begin() + 1, by_index_.end()};
}

std::vector<Peer*> Peers::InView() const {
  auto all = All();
  std::erase_if(all, [](Peer* peer) { return !peer->in_view(); });
  return all;
}

Peers::Breakers Peers::breakers(TimePoint now) const {
  Breakers breakers;
  for (const Peer* peer : All()) {
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
  for (const Peer* peer : InView()) {
    if (peer->health().Suspect(now)) nodes.push_back(peer->node());
  }
  std::sort(nodes.begin(), nodes.end());
  if (nodes.size() > kMostListed) nodes.resize(kMostListed);
  return nodes;
}

std::vector<uint64_t> Peers::Unhealthy(TimePoint now) const {
  std::vector<uint64_t> nodes;
  std::lock_guard lock(mutex_);
  for (size_t i = 1; i < by_index_.size(); ++i) {
    if (!by_index_[i]->health().Allows(now)) nodes.push_back(by_index_[i]->node());
  }
  return nodes;
}

// ---- CallGroup ---------------------------------------------------------------------------------

CallGroup::~CallGroup() {
  for (size_t i = 0; i < running_.size(); ++i) {
    if (running_[i].channel) {
      calls_[i]->peer->ReturnChannel(std::move(running_[i].channel), running_[i].address);
    }
  }
}

PeerCall& CallGroup::Add(Peer* peer, MessageType type) {
  calls_.push_back(std::make_unique<PeerCall>());
  PeerCall& call = *calls_.back();
  call.peer = peer;
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

void CallGroup::Run(MessageType expected, const GroupLimits& limits) {
  running_.resize(calls_.size());
  std::vector<Channel*> channels;
  TimePoint now = Clock::now();
  for (size_t i = 0; i < calls_.size(); ++i) {
    PeerCall& call = *calls_[i];
    call.request.Finish();
    if (breaker_ == Breaker::kRespect && !call.peer->health().Allows(now)) {
      call.status = Unavailable("the peer failed a moment ago; its breaker is open");
      continue;
    }
    Begin(i, now);
    channels.push_back(running_[i].channel.get());
  }
  RunAll(channels, limits);

  // An idle channel may have been closed by a peer that restarted. Every request can be repeated:
  // reads and lookups change nothing, owner messages are idempotent within their stamp.
  channels.clear();
  now = Clock::now();
  for (size_t i = 0; i < calls_.size(); ++i) {
    while (running_[i].channel && running_[i].channel->stale() && now < limits.deadline) {
      Begin(i, now);
      if (!running_[i].channel->done()) channels.push_back(running_[i].channel.get());
    }
  }
  RunAll(channels, limits);

  now = Clock::now();
  for (size_t i = 0; i < calls_.size(); ++i) {
    if (!running_[i].channel) continue;
    PeerCall& call = *calls_[i];
    Channel& channel = *running_[i].channel;
    call.status = channel.status();
    const MessageType wanted = call.wanted.value_or(expected);
    if (call.status.ok() && channel.answer().type != wanted) {
      call.status =
          Corrupt(fmt::format("answer of type {}, expected {}",
                              static_cast<int>(channel.answer().type), static_cast<int>(wanted)));
      channel.Fail(call.status);
    }
    if (call.status.ok()) {
      call.answer_type = channel.answer().type;
      call.answer = channel.body();
      call.answered_by = channel.peer_incarnation();
      call.finished = channel.finished();
      call.peer->machine_.store(channel.peer_machine(), std::memory_order_relaxed);
      call.peer->health().Succeeded();
    } else if (call.status.code() == Code::kUnavailable ||
               call.status.code() == Code::kDeadlineExceeded) {
      call.peer->health().Failed(now);
    }
  }
}

}  // namespace peercache
