#include "node/secret.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

namespace peercache {
namespace {

constexpr milliseconds kLookEvery{2000};
constexpr size_t kMaxTokens = 8;
// A Hello with it must fit what a stranger may send.
constexpr size_t kMaxTokenBytes = 4096;

bool Same(std::string_view known, std::string_view given) {
  unsigned difference = known.size() == given.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    difference |= static_cast<unsigned char>(given[i]) ^
                  static_cast<unsigned char>(known.empty() ? 0 : known[i % known.size()]);
  }
  return difference == 0;
}

Result<std::vector<std::string>> Parse(const std::string& contents) {
  std::vector<std::string> tokens;
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
    tokens.push_back(std::move(line));
  }
  if (tokens.empty()) return InvalidArgument("no token in it; write one per line");
  if (tokens.size() > kMaxTokens) {
    return InvalidArgument(
        fmt::format("{} tokens; write at most {}, one per line", tokens.size(), kMaxTokens));
  }
  return tokens;
}

}  // namespace

Result<std::unique_ptr<Secret>> Secret::Of(const std::string& contents, Duration spread) {
  auto secret = std::unique_ptr<Secret>(new Secret(spread));
  auto tokens = Parse(contents);
  if (!tokens.ok()) return tokens.status();
  secret->versions_.push_back({std::move(*tokens), TimePoint::min()});
  return secret;
}

std::unique_ptr<Secret> Secret::None() {
  auto none = std::unique_ptr<Secret>(new Secret(Duration::zero()));
  none->versions_.push_back({{""}, TimePoint::min()});
  return none;
}

Result<std::unique_ptr<Secret>> Secret::Load(const std::string& path, Duration spread) {
  if (path.empty()) return None();
  auto contents = ReadSmallFile(path, FileWatch::kMaxBytes);
  if (!contents.ok()) return contents.status();
  auto secret = Of(*contents, spread);
  if (!secret.ok()) return secret.status().Annotate(fmt::format("\"{}\"", path));
  (*secret)->watch_ = std::make_unique<FileWatch>(
      std::vector<std::string>{path}, Contents{*contents},
      std::min<Duration>(kLookEvery, spread / 4),
      [self = secret->get(), path](const Contents& now) {
        const Status replaced = self->Replace(now.front(), Clock::now());
        if (replaced.ok()) {
          spdlog::info(
              "\"{}\" has changed: its token is sent from {} s on, the former is accepted "
              "until then and as long again",
              path, std::chrono::duration_cast<std::chrono::seconds>(self->spread_).count());
        } else {
          spdlog::warn("\"{}\" has changed and is not taken: {}; the former contents stay in force",
                       path, replaced.message());
        }
      });
  return secret;
}

Status Secret::Replace(const std::string& contents, TimePoint now) {
  auto tokens = Parse(contents);
  if (!tokens.ok()) return tokens.status();
  std::lock_guard lock(mutex_);
  versions_.push_back({std::move(*tokens), now});
  // A version is accepted until 2 * spread after its successor.
  const auto in_force = std::find_if(versions_.begin() + 1, versions_.end(),
                                     [&](const Version& v) { return v.since + 2 * spread_ > now; });
  versions_.erase(versions_.begin(), in_force - 1);
  return {};
}

std::string Secret::ToSend(TimePoint now) const {
  std::lock_guard lock(mutex_);
  const auto seen_by_all = std::find_if(versions_.rbegin(), versions_.rend() - 1,
                                        [&](const Version& v) { return v.since + spread_ <= now; });
  return seen_by_all->tokens.front();
}

bool Secret::Accepts(std::string_view token, TimePoint now) const {
  std::lock_guard lock(mutex_);
  bool accepted = false;
  for (size_t i = 0; i < versions_.size(); ++i) {
    if (i + 1 < versions_.size() && versions_[i + 1].since + 2 * spread_ <= now) continue;
    for (const std::string& known : versions_[i].tokens) accepted |= Same(known, token);
  }
  return accepted;
}

}  // namespace peercache
