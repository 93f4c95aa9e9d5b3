#include "node/peer/secret.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/entropy.h"

namespace peercache {
namespace {

constexpr milliseconds kLookEvery{2000};
constexpr size_t kMaxTokens = 8;
constexpr size_t kMaxTokenBytes = 4096;

Result<std::vector<PeerKey>> Parse(const std::string& contents, const std::string& cluster) {
  std::vector<PeerKey> keys;
  for (size_t at = 0; at < contents.size();) {
    const size_t end = std::min(contents.find('\n', at), contents.size());
    std::string line = contents.substr(at, end - at);
    at = end + 1;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    if (line.size() > kMaxTokenBytes) {
      return InvalidArgument(
          fmt::format("a token of {} bytes; use at most {}", line.size(), kMaxTokenBytes));
    }
    if (const double bits = EntropyBits(line); bits < kMinSecretBits) {
      return InvalidArgument(fmt::format(
          "a token of {} bytes, at most {:.0f} bits, which can be guessed; make one of at least {} "
          "bits with \"openssl rand -hex 32\"",
          line.size(), bits, kMinSecretBits));
    }
    auto key = DeriveKey(cluster, line);
    if (!key.ok()) return key.status();
    keys.push_back(*key);
  }
  if (keys.empty()) return InvalidArgument("no token in it; write one per line");
  if (keys.size() > kMaxTokens) {
    return InvalidArgument(
        fmt::format("{} tokens; write at most {}, one per line", keys.size(), kMaxTokens));
  }
  return keys;
}

}  // namespace

Result<std::unique_ptr<Secret>> Secret::Of(const std::string& contents, const std::string& cluster,
                                           Duration spread) {
  auto secret = std::unique_ptr<Secret>(new Secret(cluster, spread, false));
  auto keys = Parse(contents, cluster);
  if (!keys.ok()) return keys.status();
  secret->versions_.push_back({std::move(*keys), TimePoint::min()});
  return secret;
}

std::unique_ptr<Secret> Secret::None() {
  return std::unique_ptr<Secret>(new Secret("", Duration::zero(), true));
}

Result<std::unique_ptr<Secret>> Secret::Load(const std::string& path, const std::string& cluster,
                                             Duration spread) {
  if (path.empty()) return None();
  auto contents = ReadSmallFile(path, FileWatch::kMaxBytes);
  if (!contents.ok()) return contents.status();
  auto secret = Of(*contents, cluster, spread);
  if (!secret.ok()) return secret.status().Annotate(fmt::format("\"{}\"", path));
  (*secret)->watch_ = std::make_unique<FileWatch>(
      std::vector<std::string>{path}, Contents{*contents},
      std::min<Duration>(kLookEvery, spread / 4),
      [self = secret->get(), path](const Contents& now) {
        const Status replaced = self->Replace(now.front(), Clock::now());
        if (replaced.ok()) {
          spdlog::info(
              "\"{}\" has changed: this node proves its token in {} s, and accepts the previous "
              "one until then and for as long again",
              path, std::chrono::duration_cast<std::chrono::seconds>(self->spread_).count());
        } else {
          spdlog::warn(
              "\"{}\" has changed and could not be loaded: {}. Still using the previous contents",
              path, replaced.message());
        }
      });
  return secret;
}

Status Secret::Replace(const std::string& contents, TimePoint now) {
  auto keys = Parse(contents, cluster_);
  if (!keys.ok()) return keys.status();
  std::lock_guard lock(mutex_);
  versions_.push_back({std::move(*keys), now});
  // A version is accepted until 2 * spread after its successor.
  const auto in_force = std::find_if(versions_.begin() + 1, versions_.end(),
                                     [&](const Version& v) { return v.since + 2 * spread_ > now; });
  versions_.erase(versions_.begin(), in_force - 1);
  return {};
}

std::optional<PeerKey> Secret::ToProve(TimePoint now) const {
  if (none_) return {};
  std::lock_guard lock(mutex_);
  const auto seen_by_all = std::find_if(versions_.rbegin(), versions_.rend() - 1,
                                        [&](const Version& v) { return v.since + spread_ <= now; });
  return seen_by_all->keys.front();
}

std::optional<PeerKey> Secret::Find(uint64_t id, TimePoint now) const {
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < versions_.size(); ++i) {
    if (!IsAccepted(i, now)) continue;
    for (const PeerKey& key : versions_[i].keys)
      if (key.id == id) return key;
  }
  return {};
}

std::set<uint64_t> Secret::Accepted(TimePoint now) const {
  std::set<uint64_t> ids;
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < versions_.size(); ++i) {
    if (!IsAccepted(i, now)) continue;
    for (const PeerKey& key : versions_[i].keys) ids.insert(key.id);
  }
  return ids;
}

}  // namespace peercache
