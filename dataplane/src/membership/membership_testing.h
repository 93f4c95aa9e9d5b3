// Scripts of the membership (base/transcript_testing.h), in virtual time.
//
//   heartbeat MEMBER        tells a table for two of a member, as `leave`; `list` is what it
//   answers merge MEMBER... | ...   what a node knows after answers of hosts, of which one may be
//   `warming` view MEMBER...          node a's view of them, after its last one rings MEMBER... the
//   first views of all of them
//
// 100ms before a command is the time from then on. A MEMBER is ID@INCARNATION:STATE, 1 and active
// where left out, and behind it what else is special: age= in ms, port=8, synced= members whose
// change it has prepared, unreachable= members that do not answer it. In lists, x*2 is x,x.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <map>
#include <span>
#include <stdexcept>

#include "base/transcript_testing.h"
#include "membership/view.h"

namespace peercache::testing {

inline constexpr std::string_view kStateNames[] = {"joining", "active", "draining"};
inline constexpr uint16_t kMemberPort = 31998;

// ID@INCARNATION:STATE
inline Member MemberOf(const std::string& name) {
  const auto parts = SplitText(name, ':'), id = SplitText(parts.at(0), '@');
  const auto* const state = std::ranges::find(kStateNames, parts.size() > 1 ? parts[1] : "active");
  if (state == std::end(kStateNames)) throw std::invalid_argument("no state in " + name);
  Member member;
  member.id = id[0];
  member.incarnation = id.size() > 1 ? std::stoul(id[1]) : 1;
  member.state = static_cast<MemberState>(state - kStateNames);
  member.host = "10.0.0.1";
  member.peer_port = kMemberPort;
  member.capacity_bytes = uint64_t{1} << 30;
  return member;
}

inline std::string NameOf(const Member& member) {
  std::string name = member.id;
  if (member.incarnation != 1) name += fmt::format("@{}", member.incarnation);
  if (member.state != MemberState::kActive)
    name += fmt::format(":{}", kStateNames[static_cast<size_t>(member.state)]);
  if (member.peer_port != kMemberPort) name += fmt::format(" port={}", member.peer_port);
  return name;
}

class MembershipScript {
 public:
  using Words = std::vector<std::string>;

  std::string operator()(Words words) {
    if (words[0].ends_with("ms")) {
      now_ = std::stoll(words[0]);
      words.erase(words.begin());
    }
    const std::string command = words[0];
    words.erase(words.begin());
    if (command == "list") return Shown(table_.List(At(now_)));
    if (command == "merge") return Merge(words);
    const std::vector<ListedMember> members = Parse(words);
    if (command == "rings") return Rings(members);
    if (command == "view") return Next(members);
    const Member& member = members.at(0).member;
    if (command == "leave") return table_.Leave(member.id, member.incarnation), "";
    if (command != "heartbeat") throw std::invalid_argument("no command " + command);
    const Status status = table_.Heartbeat(member, At(now_));
    return status.ok() ? "" : status.ToString();
  }

 private:
  static TimePoint At(int64_t ms) { return TimePoint(milliseconds(1'000'000 + ms)); }
  static std::string Joined(const Words& texts, const char* separator = ", ") {
    return texts.empty() ? "nobody" : fmt::format("{}", fmt::join(texts, separator));
  }

  // Of x,y*2: x, y, y.
  static Words Items(const std::string& list) {
    Words items;
    for (const std::string& item : SplitText(list, ',')) {
      const Words parts = SplitText(item, '*');
      items.insert(items.end(), parts.size() > 1 ? std::stoul(parts[1]) : 1, parts[0]);
    }
    return items;
  }
  static std::vector<uint64_t> Hashes(const std::string& list, auto hash) {
    const Words items = Items(list);
    std::vector<uint64_t> hashes(items.size());
    std::ranges::transform(items, hashes.begin(), hash);
    return hashes;
  }
  static uint64_t ChangeOf(const std::string& name) { return SyncToken(MemberOf(name)); }

  static std::vector<ListedMember> Parse(std::span<const std::string> words) {
    std::vector<ListedMember> members;
    for (const std::string& word : words) {
      const size_t equals = word.find('=');
      if (equals == std::string::npos) {
        members.push_back({MemberOf(word)});
        continue;
      }
      const std::string value = word.substr(equals + 1);
      Member& member = members.at(members.size() - 1).member;
      const std::map<std::string, std::function<void()>> setters = {
          {"age", [&] { members.back().age = milliseconds(std::stoul(value)); }},
          {"gib", [&] { member.capacity_bytes = std::stoul(value) << 30; }},
          {"host", [&] { member.host = value; }},
          {"http_port", [&] { member.http_port = static_cast<uint16_t>(std::stoul(value)); }},
          {"id", [&] { member.id = fmt::format("{}", fmt::join(Items(value), "")); }},
          {"port", [&] { member.peer_port = static_cast<uint16_t>(std::stoul(value)); }},
          {"state", [&] { member.state = static_cast<MemberState>(std::stoul(value)); }},
          {"synced", [&] { member.synced = Hashes(value, ChangeOf); }},
          {"unreachable", [&] { member.unreachable = Hashes(value, NodeHash); }},
      };
      setters.at(word.substr(0, equals))();
    }
    return members;
  }

  static std::string Shown(const MemberList& list) {
    Words texts;
    for (const auto& [member, age] : list.members)
      texts.push_back(fmt::format("{} age={}", NameOf(member), ToMillis(age)));
    return (list.warming ? "warming: " : "") + Joined(texts);
  }

  std::string Merge(const Words& words) {
    std::vector<MemberList> answers;
    for (auto from = words.begin(); from != words.end();) {
      const auto end = std::find(from, words.end(), "|");
      const bool warming = *from == "warming";
      answers.push_back({warming, Parse({warming || *from == "nobody" ? from + 1 : from, end})});
      from = end == words.end() ? end : end + 1;
    }
    MergeLists(answers, milliseconds(3000), At(now_), &known_);
    MemberList list;
    for (const auto& [id, known] : std::map(known_.begin(), known_.end()))
      list.members.push_back({known.member, At(now_) - known.heard});
    return Shown(list);
  }

  using Members = std::span<const ListedMember>;
  std::shared_ptr<const View> Build(Members members, const std::string& self,
                                    const std::shared_ptr<const View>& before) {
    KnownMembers known;
    for (const auto& [member, age] : members) {
      known[member.id] = {member, At(now_) - age};
      names_[NodeHash(member.id)] = member.id;
    }
    ViewOptions options;
    options.self = NodeHash(self);
    return BuildView(before, known, options, At(now_));
  }
  std::string Next(Members members) {
    const auto before = std::exchange(view_, Build(members, "a", view_));
    return view_ == before ? "same" : fmt::format("epoch {}: {}", view_->epoch, Shown(*view_));
  }
  std::string Rings(Members members) {
    std::map<std::string, Words> views;
    for (const auto& [self, age] : members)
      views[Shown(*Build(members, self.id, nullptr))].push_back(self.id);
    std::string text;
    for (const auto& [view, ids] : views) text += Joined(ids, " ") + ": " + view + "\n";
    return text;
  }

  // Equal rings have the same number.
  std::string Shown(const Ring& ring) {
    auto it = std::ranges::find(rings_, ring);
    if (it == rings_.end()) it = rings_.insert(it, ring);
    Words ids;
    for (const RingMember& member : ring.members()) ids.push_back(names_.at(member.node));
    std::ranges::sort(ids);
    return fmt::format("{}({})", it - rings_.begin() + 1, Joined(ids, " "));
  }
  std::string Shown(const View& view) {
    // One after the other: a ring gets its number when it is shown first.
    const std::string current = Shown(view.current), next = Shown(view.next);
    std::string text =
        fmt::format("{} known, current {}, next {}", view.members.size(), current, next);
    if (!view.previous.empty()) {
      text += fmt::format(", previous {} until {}ms", Shown(view.previous),
                          ToMillis(view.previous_until - At(0)));
    }
    std::vector<uint64_t> pending = PendingChanges(view);
    for (const Member& member : view.members) {
      if (view.IsUnreachable(NodeHash(member.id))) text += ", " + member.id + " unreachable";
      if (std::erase(pending, SyncToken(member)) != 0)
        text += ", " + member.id + (EveryoneSynced(view, member) ? " through" : " pending");
    }
    return pending.empty() ? text : text + ", nobody pending";
  }

  int64_t now_ = 0;  // ms
  Table table_{{.max_members = 2}, At(0)};
  KnownMembers known_;
  std::shared_ptr<const View> view_;
  std::vector<Ring> rings_;
  std::map<uint64_t, std::string> names_;  // by NodeHash
};

}  // namespace peercache::testing
