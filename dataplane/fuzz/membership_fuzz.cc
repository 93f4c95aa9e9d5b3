// Membership: what members can tell a discovery host, and what hosts can tell a member.
//
// A script. Operations:
//   0  a member list as an answer: body        1  one that is right: edits
//   2  all answers so far are merged, after `argument` * 100 ms
//   3  a heartbeat to the table: body          4  one that is right: edits
//   5  a leave of member `argument`            6  the table is listed, after `argument` * 100 ms

#include <algorithm>
#include <string>

#include "fuzz.h"
#include "membership/fleet.h"
#include "membership/table.h"
#include "membership/view.h"
#include "wire/fabric.h"
#include "wire/messages.h"

namespace peercache::fuzz {
namespace {

Reached lists("lists decoded"), views("views built"), full("views with members"),
    beats("heartbeats taken"), refused("heartbeats refused"), listed("members listed"),
    synced("everyone synced"), down("fleets with rails down"),
    unreachable("members out of the rings");

constexpr Duration kTtl = std::chrono::seconds(3);
constexpr size_t kMaxMembers = 8;

std::string IdOf(uint8_t n) { return "member" + std::to_string(n % 16); }

Member MemberOf(uint8_t n) {
  Member m;
  m.id = IdOf(n);
  m.incarnation = 1;
  m.state = static_cast<MemberState>(n % 3);
  m.host = "10.0.0.1";
  m.peer_port = 1;
  m.http_port = 2;
  m.capacity_bytes = 1 << 30;
  m.synced = {SyncToken(m)};
  // Of the others, whom these reach is for the edits to say.
  m.unreachable = {NodeHash(IdOf(static_cast<uint8_t>(n / 4 * 4)))};
  return m;
}

Heartbeat BeatOf(uint8_t n) {
  Heartbeat beat;
  beat.member = MemberOf(n);
  beat.health = {"group", 8, static_cast<uint8_t>(n % 9), "rail", NumaHealth::kAligned, 1, 2, 1, 0};
  return beat;
}

template <typename Encode>
std::vector<std::byte> BodyOf(const Encode& encode) {
  FrameWriter w;
  w.Start(MessageType::kError, 1);
  encode(&w);
  const auto frame = w.Finish();
  return {frame.begin() + sizeof(FrameHeader), frame.end()};
}

class Membership {
 public:
  void Run(const Step& step) {
    const auto later = step.argument * milliseconds(100);
    switch (step.operation % 7) {
      case 0: TakeList(AsBytes(step.bytes)); break;
      case 1: {
        auto body = BodyOf([&](FrameWriter* w) {
          MemberListMessage list;
          for (uint8_t i = 0; i < 4; ++i) {
            list.members.push_back({MemberOf(static_cast<uint8_t>(step.argument + i)), 1000});
          }
          list.EncodeOnce(w);
        });
        ApplyEdits(step.bytes, body);
        TakeList(body);
        break;
      }
      case 2:
        now_ += later;
        Merge();
        break;
      case 3: Beat(AsBytes(step.bytes)); break;
      case 4: {
        auto body = BodyOf([&](FrameWriter* w) { BeatOf(step.argument).Encode(w); });
        ApplyEdits(step.bytes, body);
        Beat(body);
        break;
      }
      case 5: table_.Leave(MemberOf(step.argument).id, 1); break;
      case 6:
        now_ += later;
        List();
        break;
    }
  }

  void Merge() {
    MergeLists(answers_, kTtl, now_, &known_);
    answers_.clear();
    ViewOptions options;
    options.vnodes = 8;
    options.grace = kTtl * 2;
    options.self = NodeHash(IdOf(1));
    const auto before = view_;
    view_ = BuildView(before, known_, options, now_);
    views.Hit();
    Require(view_ != nullptr, "there is always a view");
    Require(!before || view_->epoch >= before->epoch, "epochs do not go back");
    Require(view_->members.size() == known_.size(), "a view has the members that are known");
    Require(std::ranges::is_sorted(view_->members, {}, &Member::id), "in order");
    for (const Member& m : view_->members) {
      Require(view_->Find(NodeHash(m.id)) != nullptr, "each of them is found");
      if (EveryoneSynced(*view_, m)) synced.Hit();
      if (view_->IsUnreachable(NodeHash(m.id))) unreachable.Hit();
    }
    (void)PendingChanges(*view_);
    if (!view_->members.empty()) full.Hit();
    for (uint8_t i = 0; i < 16; ++i) {
      Key key;
      key.bytes.fill(static_cast<uint8_t>(i * 17));
      const uint64_t owner = view_->current.OwnerOf(key), next = view_->next.OwnerOf(key);
      Require((owner == 0) == view_->members.empty(), "every key has an owner");
      Require(owner == 0 || view_->HasMember(owner), "which is a member");
      Require((next == 0) == view_->members.empty() && (next == 0 || view_->HasMember(next)),
              "also the next one");
      Require(!view_->IsUnreachable(owner) && !view_->IsUnreachable(next), "that can be reached");
    }
  }
  void List() {
    const MemberList list = table_.List(now_);
    Require(list.members.size() <= kMaxMembers, "the table is bounded");
    for (const ListedMember& m : list.members) {
      Require(m.age >= Duration::zero() && m.age <= kTtl, "old members are not listed");
      listed.Hit();
    }
    const auto reports = table_.Reports(now_);
    Require(std::ranges::equal(
                list.members, reports, {}, [](const ListedMember& m) { return m.member.id; },
                &MemberReport::id),
            "whoever is listed is reported on");
    CheckFleet(SummariseFleet(reports));
    answers_.push_back(list);  // what a host lists is what its members merge
  }

 private:
  static void CheckFleet(const FleetSummary& fleet) {
    Require(fleet.members <= kMaxMembers && fleet.groups.size() <= fleet.members,
            "a fleet is of its members");
    Require(fleet.rails_up <= fleet.rails && fleet.rails <= kMaxMembers * kMaxRails,
            "rails are those of members");
    Require((fleet.rails_up < fleet.rails) == (fleet.with_rails_down > 0) &&
                fleet.rails_down.size() <= fleet.with_rails_down,
            "whose rails are down is counted");
    Require(fleet.recent_delivered <= fleet.recent_looked_up, "no more is got than looked up");
    Require(fleet.latest_delivered <= fleet.latest_looked_up, "nor lately");
    if (fleet.with_rails_down > 0) down.Hit();
  }
  void TakeList(ConstBytes body) {
    // In the form for members of this release, or of an older one.
    FrameReader once(body), each(body);
    MemberListMessage message;
    if (!message.DecodeOnce(&once) && !message.Decode(&each)) return;
    lists.Hit();
    answers_.push_back(FromWire(message));
  }
  void Beat(ConstBytes body) {
    FrameReader reader(body);
    Heartbeat beat;
    if (!beat.Decode(&reader)) return;
    (table_.Heartbeat(beat.member, now_, beat.health).ok() ? beats : refused).Hit();
  }

  TimePoint now_ = TimePoint(std::chrono::hours(1));
  Table table_{{kTtl, milliseconds(500), kMaxMembers}, now_};
  std::vector<MemberList> answers_;
  KnownMembers known_;
  std::shared_ptr<const View> view_;
};

}  // namespace
}  // namespace peercache::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace peercache::fuzz;
  SetUp();
  Membership membership;
  Script script({data, size});
  Step step;
  for (int steps = 0; steps < 64 && script.Next(&step); ++steps) membership.Run(step);
  membership.List();
  membership.Merge();
  return 0;
}
