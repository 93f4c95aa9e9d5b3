// ShardHost: a real shard of another node on the other side of a socket, for tests of those who
// tell it of their pages. It restarts, answers late, and goes away.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "base/splitmix.h"
#include "directory/shard.h"
#include "transport/tcp/server.h"

namespace peercache {

class ShardHost : public PeerService {
 public:
  ShardHost(uint64_t self, Duration owner_ttl) : self_(self), owner_ttl_(owner_ttl) {
    Restart();
    auto listener = Listen("127.0.0.1", 0);
    EXPECT_TRUE(listener.ok());
    TcpServerOptions options;
    options.threads = 4;  // held requests take one each
    server_ = std::make_unique<TcpServer>(std::move(*listener), this, options);
  }
  ~ShardHost() override { Hold(false); }

  // All is lost, and echoes of before are void.
  void Restart(size_t max_records = ShardOptions{}.max_records) {
    ShardOptions options;
    options.self = self_;
    options.owner_ttl = owner_ttl_;
    options.max_records = max_records;
    std::lock_guard lock(mutex_);
    former_ = std::move(shard_);
    shard_ = std::make_unique<Shard>(options);
  }
  // Its answers say nothing of what was served.
  void BeOlder() { older_ = true; }
  // Publishes are heard, but not before Hold(false).
  void Hold(bool hold) {
    {
      std::lock_guard lock(mutex_);
      hold_ = hold;
    }
    changed_.notify_all();
  }
  // Nobody listens any more.
  void Die() { server_.reset(); }
  void AwaitHeld() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return held_ > 0; });
  }
  // What the shard, or the one before it, tells a reader.
  Record Served(const Key& key, bool former = false) {
    std::lock_guard lock(mutex_);
    Record record[1];
    (former ? former_ : shard_)->Lookup({&key, 1}, 99, {}, record, Clock::now());
    return record[0];
  }
  bool Serves(uint64_t owner, const Key& key, bool former = false) {
    return Served(key, former).node == owner;
  }
  // Another owner's records come and go.
  size_t Others(size_t count) {
    std::lock_guard lock(mutex_);
    const OwnerStamp other{.node = kOther, .incarnation = 1, .epoch = ++others_, .lease_ms = 50};
    std::vector<PublishItem> items;
    for (size_t i = 0; i < count; ++i)
      items.push_back({NumberedKey(kOther + i),
                       {.node = kOther, .incarnation = 1, .generation = 1, .length = 1}});
    std::vector<uint8_t> outcomes(count);
    EXPECT_TRUE(shard_->Publish(other, items, outcomes, Clock::now()).ok());
    shard_->Expire(Clock::now());
    return count - std::count(outcomes.begin(), outcomes.end(), kRefused);
  }
  uint64_t records() {
    std::lock_guard lock(mutex_);
    return shard_->stats(Clock::now()).records;
  }
  uint16_t port() const { return server_->port(); }

  Status OnHello(const Hello&, Greeting* answer) override {
    *answer = {{self_, 1}};
    return {};
  }
  Status OnRequest(const FrameHeader& header, FrameReader body, PeerAnswer* answer) override {
    OwnerRequest request;
    if (!request.Decode(header.type, &body)) return Corrupt("malformed");
    std::unique_lock lock(mutex_);
    if (header.type == MessageType::kPublish && hold_) {
      ++held_;
      changed_.notify_all();
      changed_.wait(lock, [&] { return !hold_; });
      --held_;
    }
    const TimePoint now = Clock::now();
    WithdrawAnswer says;
    says.outcomes.assign(request.publish.size(), kRefused);
    Status status;
    if (header.type == MessageType::kPublish) {
      status = shard_->Publish(request.stamp, request.publish, says.outcomes, now);
    } else if (header.type == MessageType::kWithdraw) {
      // Repair does not ask for it.
      const bool hears = (header.can & FrameHeader::kHearsServed) != 0;
      if (hears && !older_) says.unserved_ms.resize(request.withdraw.size());
      status = shard_->Withdraw(request.stamp, request.withdraw, now, says.unserved_ms);
    } else {
      status = shard_->Contact(request.stamp, now);
    }
    const ShardVoice voice = shard_->Voice(request.stamp.node, now);
    says.code = status.code();
    says.stamp = voice.stamp;
    says.instance = voice.instance;
    answer->Start(static_cast<MessageType>(static_cast<int>(header.type) + 1), header.request_id);
    says.Encode(&answer->frame);
    return {};
  }

 private:
  static constexpr uint64_t kOther = 4711;
  const uint64_t self_;
  const Duration owner_ttl_;
  uint64_t others_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool hold_ = false;
  std::atomic<bool> older_ = false;
  int held_ = 0;
  std::unique_ptr<Shard> shard_, former_;
  std::unique_ptr<TcpServer> server_;
};

}  // namespace peercache
