// Secret: the token that all nodes of a cluster share, and how it is replaced while they run.
//
//   auto secret = Secret::Load(path, cluster, std::chrono::minutes(1));   // "": no authentication
//   (*secret)->ToProve(now)        // the key by which a new connection is made
//   (*secret)->Find(hello.key, now)  // the key that a caller names, if it is good
//
// The file holds one token per line. The first is proven, all are accepted; so a careful rotation
// adds the new one below, then swaps them, then removes the old one. Tokens are not sent
// (transport/peer_key.h), but whoever listens to a proof can try tokens: one of less than 128 bits
// is refused (base/entropy.h).
//
// The quick rotation replaces the only line. Nodes see that at different times, within `spread` of
// each other (kubelets bring a changed Secret to its pods about once a minute), and each waits that
// long before it proves the new token:
//
//   first node sees the change at 0, proves the old one until spread, accepts it until 2 * spread
//   last node sees it at <= spread, until then proves and accepts only the old one, then proves
//   the old one until <= 2 * spread
//
// so whatever is proven is accepted where it arrives. A connection ends with the token that it was
// made by: its caller makes a new one once it proves the new token, and the other side closes it
// when it accepts the old one no more.
//
// A file that has become empty or malformed changes nothing, with a warning: a node never falls
// back to no authentication.
//
// Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file_watch.h"
#include "base/status.h"
#include "transport/peer_key.h"

namespace peercache {

class Secret {
 public:
  // Reads the file, and follows its changes from then on.
  static Result<std::unique_ptr<Secret>> Load(const std::string& path, const std::string& cluster,
                                              Duration spread);

  // These contents without a file.
  static Result<std::unique_ptr<Secret>> Of(const std::string& contents, const std::string& cluster,
                                            Duration spread);
  // No authentication.
  static std::unique_ptr<Secret> None();

  bool none() const { return none_; }
  // Nothing: there is no authentication.
  std::optional<PeerKey> ToProve(TimePoint now) const;
  // Of those that are accepted, the one with this id.
  std::optional<PeerKey> Find(uint64_t id, TimePoint now) const;
  // The ids of those that are accepted, in order.
  std::set<uint64_t> Accepted(TimePoint now) const;
  // Within which all nodes see a change.
  Duration spread() const { return spread_; }
  // The file has these contents since `now`.
  Status Replace(const std::string& contents, TimePoint now);

 private:
  struct Version {
    std::vector<PeerKey> keys;
    TimePoint since;
  };
  Secret(std::string cluster, Duration spread, bool none)
      : cluster_(std::move(cluster)), spread_(spread), none_(none) {}
  // With the lock.
  bool IsAccepted(size_t version, TimePoint now) const {
    return version + 1 == versions_.size() || versions_[version + 1].since + 2 * spread_ > now;
  }

  const std::string cluster_;
  const Duration spread_;
  const bool none_;
  mutable std::mutex mutex_;
  std::vector<Version> versions_;  // the newest last; older ones as long as they are accepted
  std::unique_ptr<FileWatch> watch_;
};

}  // namespace peercache
