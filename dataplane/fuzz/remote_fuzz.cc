// Lookups and reads of a node, against a peer that answers what it likes.
//
// An input is a script for HostilePeer. The node looks keys up, reads the pages of the records that
// it got, and reads again. Its calls must end, and no byte may be written outside of the pages.

#include <algorithm>
#include <memory>

#include "fuzz.h"
#include "hostile_peer.h"
#include "node/read/locator.h"
#include "node/read/remote_reader.h"
#include "node/read/tcp_reader.h"

namespace peercache::fuzz {
namespace {

Reached found("records found"), usable("records of the peer"), read("pages read"),
    stale("pages stale"), corrupt("pages corrupt"), unreachable("pages unreachable");

constexpr size_t kPages = HostilePeer::kPages, kPage = HostilePeer::kPage, kGap = 64;
constexpr Duration kStall = HostilePeer::kStall;

// Pages of two segments, with gaps around all of them.
struct HostPool {
  HostPool() : bytes(kPages * (kPage + 2 * kGap) + kGap, std::byte{0xee}) {
    for (size_t at = kGap; at + kPage + kGap < bytes.size() + 1; at += kPage + 2 * kGap) {
      const auto page = std::span(bytes).subspan(at, kPage + kGap);
      segments.push_back(page.first(kPage / 4));
      segments.push_back(page.subspan(kPage / 4 + kGap, kPage - kPage / 4));
    }
  }
  void CheckGaps() const {
    const std::byte* at = bytes.data();
    const auto untouched = [&at](const std::byte* to) {
      return std::all_of(at, to, [](std::byte b) { return b == std::byte{0xee}; });
    };
    for (const Bytes& segment : segments) {
      Require(untouched(segment.data()), "nothing is written between the pages");
      at = segment.data() + segment.size();
    }
    Require(untouched(bytes.data() + bytes.size()), "or behind them");
  }
  std::vector<std::byte> bytes;
  std::vector<Bytes> segments;
};

void Run() {
  NodeOfHostilePeer node;
  LocatorOptions locator_options;
  locator_options.stall = locator_options.cache_ttl = kStall;
  locator_options.cache_entries = 64;
  Locator locator(locator_options, &node.shard, &node.peers, nullptr, nullptr, &node.counters);
  std::vector<Key> keys;
  for (size_t i = 0; i < kPages; ++i) keys.push_back(NodeOfHostilePeer::KeyOf(i));
  std::vector<Record> records(kPages);
  locator.Lookup(*node.view, keys, records, Clock::now() + kStall);

  HostPool pool;
  const Destinations to{pool.segments, 2};
  std::vector<RemotePage> pages;
  for (size_t i = 0; i < kPages; ++i) {
    if (records[i].node != 0) found.Hit();
    // What node/read/fetcher.cc passes on.
    if (records[i].node == 0 || records[i].length != to.SizeOf(i)) continue;
    if (node.peers.Find(records[i].node) != nullptr) usable.Hit();
    pages.push_back({keys[i], records[i], i, TimePoint::max()});
  }
  Crew alone(0);
  TcpReader tcp({std::chrono::seconds(60), kStall}, &node.peers);
  RemoteReader reader({&tcp}, ChecksumPolicy::kAll, &node.counters, &alone);
  for (int round = 0; round < 2; ++round) {
    std::vector<ReadOutcome> outcomes(pages.size());
    reader.Read(pages, to, outcomes, Clock::now() + kStall);
    for (const ReadOutcome outcome : outcomes) {
      if (outcome == ReadOutcome::kRead) read.Hit();
      if (outcome == ReadOutcome::kStale) stale.Hit();
      if (outcome == ReadOutcome::kCorrupt) corrupt.Hit();
      if (outcome == ReadOutcome::kUnreachable) unreachable.Hit();
    }
  }
  pool.CheckGaps();
}

}  // namespace
}  // namespace peercache::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace peercache::fuzz;
  SetUp();
  HostilePeer::Get().Answer({data, size});
  Run();
  return 0;
}
