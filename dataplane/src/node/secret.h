// Secret: the token that all nodes of a cluster share, and how it is replaced while they run.
//
//   auto secret = Secret::Load(path, std::chrono::minutes(1));   // "" : no authentication
//   hello.token = (*secret)->ToSend(now);
//   if (!(*secret)->Accepts(hello.token, now)) ...
//
// The file holds one token per line. The first is sent, all are accepted; so a careful rotation
// adds the new one below, then swaps them, then removes the old one.
//
// The quick rotation replaces the only line. Nodes see that at different times, within `spread` of
// each other (kubelets bring a changed Secret to its pods about once a minute), and each waits that
// long before it sends the new token:
//
//   first node sees the change at 0, sends the old one until spread, accepts it until 2 * spread
//   last node sees it at <= spread, until then sends and accepts only the old one, then sends the
//   old one until <= 2 * spread
//
// so whatever is sent is accepted where it arrives. Connections that exist stay.
//
// A file that has become empty or malformed changes nothing, with a warning: a node never falls
// back to no authentication.
//
// Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/file_watch.h"
#include "base/status.h"

namespace peercache {

class Secret {
 public:
  // Reads the file, and follows its changes from then on.
  static Result<std::unique_ptr<Secret>> Load(const std::string& path, Duration spread);

  // These contents without a file.
  static Result<std::unique_ptr<Secret>> Of(const std::string& contents, Duration spread);
  // No authentication.
  static std::unique_ptr<Secret> None();

  std::string ToSend(TimePoint now) const;
  // Takes as long for a wrong token as for a right one of that length.
  bool Accepts(std::string_view token, TimePoint now) const;
  // The file has these contents since `now`.
  Status Replace(const std::string& contents, TimePoint now);

 private:
  struct Version {
    std::vector<std::string> tokens;
    TimePoint since;
  };
  explicit Secret(Duration spread) : spread_(spread) {}

  const Duration spread_;
  mutable std::mutex mutex_;
  std::vector<Version> versions_;  // the newest last; older ones as long as they are accepted
  std::unique_ptr<FileWatch> watch_;
};

}  // namespace peercache
