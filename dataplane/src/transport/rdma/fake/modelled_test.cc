// What rails of 400 Gb/s would bring, modelled: nobody has measured these figures. The table that
// is printed at the end is that of docs/dev/rdma.md, which may differ from it by 2 %.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "transport/rdma/fake/modelled_page_testing.h"
#include "transport/rdma/fake/modelled_testing.h"

namespace peercache::rdma {
namespace {

constexpr double kPort = 48.5e9;
constexpr uint32_t kPage = 1 << 20, kSmallPage = 128 << 10;
constexpr Duration kWarmUp = milliseconds(2), kMeasured = milliseconds(6);

class ModelledTest : public ::testing::Test {
 protected:
  // A row of the table, which the page has, too.
  void Note(const std::string& what, double bytes_per_second, double limit,
            const std::string& reported = "") {
    const ModelledRow row{what,
                          bytes_per_second / 1e9,
                          limit / 1e9,
                          bytes_per_second / limit,
                          modelled.lost_queues(),
                          reported};
    rows_.push_back(row.Line());
    const auto page = ReadModelledRows(MODELLED_PAGE);
    EXPECT_EQ(page.size(), kRows) << "rows that no test makes, or too few";
    const auto there = std::find_if(page.begin(), page.end(),
                                    [&](const ModelledRow& has) { return has.what == what; });
    ASSERT_NE(there, page.end()) << MODELLED_PAGE << " lacks " << row.Line();
    const bool same = IsNear(there->rate, row.rate, 0.05) &&
                      IsNear(there->limit, row.limit, 0.05) &&
                      IsNear(there->share, row.share, 0.005) && there->lost == row.lost &&
                      there->reported == row.reported;
    EXPECT_TRUE(same) << MODELLED_PAGE << " has " << there->Line() << "\nwant     " << row.Line();
  }
  // What holds where no part is dead: no queue pair is given up, and no rail has more under way
  // than its budget, but for small READs, such as the headers behind pages.
  void ExpectHealthy() const {
    EXPECT_EQ(modelled.lost_queues(), 0u);
    EXPECT_LE(modelled.most_under_way(), RailBudget::kBytes + (64 << 10));
  }
  // No more than the budget of a rail waits in the switch before its port, whoever is dead.
  void ExpectWithinBudget(size_t port) {
    EXPECT_LE(modelled.network.port(static_cast<uint8_t>(port)).most_waiting,
              RailBudget::kBytes + (64 << 10));
  }
  static void TearDownTestSuite() {
    fmt::print("{}\n|---|---|---|---|---|---|\n", ModelledRow::kHead);
    for (const std::string& row : rows_) fmt::print("{}\n", row);
    rows_.clear();
  }

  Modelled modelled;

 private:
  static constexpr size_t kRows = 19;  // that the tests make
  // Within 2 %, and what printing rounds off.
  static bool IsNear(double page, double modelled, double rounding) {
    return std::abs(page - modelled) <= 0.02 * modelled + rounding;
  }
  static inline std::vector<std::string> rows_;
};

// One engine's calls of 128 pages of 128 KiB, from one holder.
double OnePort(Modelled* m, uint32_t queues, size_t members, int engines = 2) {
  size_t first = 0, theirs = 0;
  const Rails* reader = m->AddHost(1, queues, &first);
  const Rails* rails = m->AddHost(1, 0, &theirs);
  for (const size_t port : {first, theirs})
    m->network.port(static_cast<uint8_t>(port)).members = members;
  Modelled::Holder* holder = m->AddHolder(rails, 128, kSmallPage);
  for (int i = 0; i < engines; ++i) m->AddEngine(reader, std::span(&holder, 1));
  return m->Run(first, 1, kWarmUp, kMeasured);
}

TEST_F(ModelledTest, OneQueuePairAloneHasWhatItHasOfThePort) {
  const double one = OnePort(&modelled, 1, 1, 1);
  EXPECT_LE(one, NetworkModel().queue_bytes_per_second);
  Note("one port, one call, one queue pair", one, kPort);
  ExpectHealthy();
}

TEST_F(ModelledTest, OneQueuePairDoesNotFillAPort) {
  const double one = OnePort(&modelled, 1, 1);
  EXPECT_LT(one, 0.96 * kPort);
  Note("one port, one queue pair of each link", one, kPort);
  ExpectHealthy();
}

TEST_F(ModelledTest, OnePortIsFull) {
  const double rate = OnePort(&modelled, 2, 1);
  Note("one port", rate, kPort, "46.0");
  EXPECT_GE(rate, 0.94 * kPort);
  ExpectHealthy();
}

TEST_F(ModelledTest, ABondedPortIsFull) {
  const double rate = OnePort(&modelled, 2, 2);
  Note("one port, a bond of two", rate, kPort);
  EXPECT_GE(rate, 0.94 * kPort);
  ExpectHealthy();
}

// Port 2 is the holder's. Of each two queue pairs there, one is somebody else's, so the driver
// would have all of ours on one member.
TEST_F(ModelledTest, ABondedPortIsFullWhoeverElseMakesQueuePairs) {
  modelled.fake.bond_members = 2;
  modelled.fake.shared_port = 2;
  const double rate = OnePort(&modelled, 2, 2);
  Note("one port, a bond of two, whose driver others use", rate, kPort);
  EXPECT_GE(rate, 0.94 * kPort);
  ExpectHealthy();
}

TEST_F(ModelledTest, ABondedPortIsHalfFullWhereNobodyNamesItsMembers) {
  modelled.fake.shared_port = 2;
  const double rate = OnePort(&modelled, 2, 2);
  EXPECT_LE(rate, 0.51 * kPort);
}

TEST_F(ModelledTest, OneQueuePairHasOneMemberOfABond) {
  const double rate = OnePort(&modelled, 1, 2, 1);
  EXPECT_LE(rate, kPort / 2);
  EXPECT_GE(rate, 0.9 * kPort / 2);
  ExpectHealthy();
}

// Calls of 128 pages of 1 MiB from one holder, by as many threads, over eight rails on two NUMA
// nodes.
double EightRails(Modelled* m, size_t engines, bool near) {
  size_t first = 0;
  const Rails* reader = m->AddHost(8, 2, &first);
  Modelled::Holder* holder = m->AddHolder(m->AddHost(8, 2), near ? 32 : 128, kPage);
  for (size_t e = 0; e < engines; ++e) {
    std::vector<bool> far;
    for (size_t rail = 0; near && rail < 8; ++rail) far.push_back(rail / 4 != e / 4);
    m->AddEngine(reader, std::span(&holder, 1), far);
  }
  return m->Run(first, 8, kWarmUp, kMeasured);
}

TEST_F(ModelledTest, OneThreadOverEightRails) {
  const double rate = EightRails(&modelled, 1, false);
  Note("one thread, eight rails", rate, 8 * kPort);
  EXPECT_GE(rate, 115e9);
  ExpectHealthy();
}

TEST_F(ModelledTest, OneEngineOfTwoThreadsOverEightRails) {
  const double rate = EightRails(&modelled, 2, false);
  Note("one engine of two threads, eight rails", rate, 8 * kPort, "147.6, by one process");
  EXPECT_GE(rate, 147.6e9);
  ExpectHealthy();
}

TEST_F(ModelledTest, EightEnginesOverEightRails) {
  const double rate = EightRails(&modelled, 8, true);
  Note("eight engines, eight rails", rate, 8 * kPort, "413.1, more than eight ports carry");
  EXPECT_GE(rate, 0.94 * 8 * kPort);
  ExpectHealthy();
}

TEST_F(ModelledTest, EightReadersOfOneHolder) {
  Modelled::Holder* holder = modelled.AddHolder(modelled.AddHost(1, 2), 32, kPage);
  size_t first = 0;
  for (int r = 0; r < 8; ++r) {
    size_t port = 0;
    const Rails* reader = modelled.AddHost(1, 2, &port);
    if (r == 0) first = port;
    modelled.AddEngine(reader, std::span(&holder, 1));
  }
  const double rate = modelled.Run(first, 8, kWarmUp, kMeasured);
  Note("eight readers of one holder, a port each", rate, kPort);
  EXPECT_GE(rate, 0.94 * kPort);
  ExpectHealthy();
  const auto [least, most] = std::minmax_element(
      modelled.engines().begin(), modelled.engines().end(),
      [](const auto& a, const auto& b) { return a->pages_read < b->pages_read; });
  EXPECT_GE(2 * (*least)->pages_read, (*most)->pages_read) << "they have about as much each";
}

// Calls at once, each of 4 holders' pages, all to one port.
struct ToOnePort {
  size_t calls = 16;
  size_t dead = 0;  // of the holders, the first ones: their rack
  double bytes_per_second = kPort;
  Duration warm_up = kWarmUp;
};
double Incast(Modelled* m, const ToOnePort& shape, size_t* first) {
  const Rails* reader = m->AddHost(1, 2, first);
  m->network.port(static_cast<uint8_t>(*first)).bytes_per_second = shape.bytes_per_second;
  for (size_t call = 0; call < shape.calls; ++call) {
    std::vector<Modelled::Holder*> holders;
    for (size_t i = 0; i < 4; ++i) {
      size_t port = 0;
      holders.push_back(m->AddHolder(m->AddHost(1, 2, &port), 8, 256 << 10));
      if (4 * call + i < shape.dead) m->network.port(static_cast<uint8_t>(port)).dead = true;
    }
    m->AddEngine(reader, holders);
  }
  return m->Run(*first, 1, shape.warm_up, kMeasured);
}

TEST_F(ModelledTest, SixtyFourHoldersDoNotFloodOnePort) {
  size_t first = 0;
  const double rate = Incast(&modelled, {}, &first);
  Note("64 holders, one port, 16 calls", rate, kPort);
  EXPECT_GE(rate, 0.94 * kPort);
  ExpectHealthy();
  ExpectWithinBudget(first);
}

// 10 Gb/s take longer for the budget than a queue of a fast port is silent.
TEST_F(ModelledTest, ASlowPortIsNotFloodedEither) {
  size_t first = 0;
  const double slow = 1.2e9;
  const Rails* reader = modelled.AddHost(1, 2, &first);
  auto& port = modelled.network.port(static_cast<uint8_t>(first));
  port.bytes_per_second = slow;
  for (size_t call = 0; call < 16; ++call) {
    Modelled::Holder* holder = modelled.AddHolder(modelled.AddHost(1, 2), 8, kPage);
    modelled.AddEngine(reader, std::span(&holder, 1));
  }
  const double rate = modelled.Run(first, 1, milliseconds(20), milliseconds(80));
  Note("16 holders, one port of 10 Gb/s", rate, slow);
  EXPECT_GE(rate, 0.94 * slow);
  ExpectWithinBudget(first);
  ExpectHealthy();
}

// The READs that calls ask of dead holders fill the budget twice.
TEST_F(ModelledTest, ADeadRackHoldsUpNoOther) {
  size_t first = 0;
  const double rate = Incast(&modelled, {.dead = 8, .warm_up = milliseconds(20)}, &first);
  Note("64 holders of which 8 are dead, after 20 ms", rate, kPort);
  EXPECT_GE(rate, 0.94 * kPort);
  ExpectWithinBudget(first);
}

// Past the time after which a queue that brings nothing is given up (133 ms): those of the dead go,
// and nobody else's. Of 100 Gb/s, since so much virtual time of 400 takes minutes.
TEST_F(ModelledTest, ADeadRackCostsNobodyElseAQueue) {
  constexpr size_t kDead = 2;
  constexpr double kSlower = kPort / 4;
  size_t first = 0;
  const double rate = Incast(&modelled,
                             {.calls = 4,
                              .dead = kDead,
                              .bytes_per_second = kSlower,
                              .warm_up = milliseconds(160) - kMeasured},
                             &first);
  Note("16 holders of which 2 are dead, one port of 100 Gb/s, after 154 ms", rate, kSlower);
  EXPECT_GE(rate, 0.94 * kSlower);
  ExpectWithinBudget(first);
  size_t holder = 0;
  for (const auto& engine : modelled.engines()) {
    for (const auto& link : engine->links) {
      ASSERT_EQ(link.queues, 2u);
      EXPECT_EQ(link.connection.channel->queues(), holder < kDead ? 0 : link.queues) << holder;
      ++holder;
    }
  }
  EXPECT_EQ(modelled.lost_queues(), 2 * kDead);
}

// Two threads that read what a node that drains has, alone and beside eight engines' calls.
TEST_F(ModelledTest, ADrainTakesWhatCallsLeave) {
  size_t first = 0;
  const Rails* reader = modelled.AddHost(1, 2, &first);
  size_t theirs = 0;
  Modelled::Holder* drains = modelled.AddHolder(modelled.AddHost(1, 2, &theirs), 32, kPage);
  const auto drains_port = static_cast<uint8_t>(theirs);
  for (int i = 0; i < 2; ++i) modelled.AddEngine(reader, std::span(&drains, 1))->background = true;
  const double alone = modelled.Run(first, 1, kWarmUp, kMeasured);
  EXPECT_GE(alone, 0.9 * kPort);
  Note("a drain, alone", alone, kPort);
  Modelled::Holder* holder = modelled.AddHolder(modelled.AddHost(1, 2), 32, kPage);
  for (int i = 0; i < 8; ++i) modelled.AddEngine(reader, std::span(&holder, 1));
  const auto pages = [&](bool background) {
    uint64_t count = 0;
    for (const auto& engine : modelled.engines())
      if (engine->background == background) count += engine->pages_read;
    return count;
  };
  modelled.Run(first, 1, milliseconds(1), milliseconds(1));  // what was under way comes first
  const uint64_t before = pages(true), sent = modelled.network.port(drains_port).sent;
  const double rate = modelled.Run(first, 1, milliseconds(10), kMeasured);
  EXPECT_GE(rate, 0.94 * kPort);
  EXPECT_LE(pages(true) - before, pages(false) / 10);
  EXPECT_GE(modelled.network.port(drains_port).sent, sent + 2 * kPage) << "it does not starve";
  ExpectHealthy();
  Note("eight engines' calls, and a drain", rate, kPort);
}

// The thread has other things to do: whenever it looks, all that the good rail had under way has
// come.
TEST_F(ModelledTest, ADeadRailHoldsUpNoOther) {
  modelled.core.poll = 3e6;
  size_t first = 0, theirs = 0;
  const Rails* reader = modelled.AddHost(2, 1, &first);
  Modelled::Holder* holder = modelled.AddHolder(modelled.AddHost(2, 1, &theirs), 16, kPage);
  modelled.AddEngine(reader, std::span(&holder, 1));
  modelled.network.port(static_cast<uint8_t>(theirs + 1)).dead = true;
  modelled.Run(first, 1, milliseconds(1), milliseconds(100));
  EXPECT_GE(modelled.network.port(static_cast<uint8_t>(first)).taken, 12 * kPage);
}

TEST_F(ModelledTest, ASlowRailKeepsItsQueues) {
  size_t first = 0;
  const Rails* reader = modelled.AddHost(8, 2, &first);
  Modelled::Holder* holder = modelled.AddHolder(modelled.AddHost(8, 2), 128, kPage);
  for (int i = 0; i < 4; ++i) modelled.AddEngine(reader, std::span(&holder, 1));
  modelled.network.port(static_cast<uint8_t>(first)).bytes_per_second = kPort / 10;
  const double rate = modelled.Run(first, 8, kWarmUp, kMeasured);
  Note("eight rails of which one has a tenth", rate, 7.1 * kPort);
  EXPECT_GE(rate, 0.5 * 7.1 * kPort);
  ExpectHealthy();
}

TEST_F(ModelledTest, ALossyRailKeepsItsQueues) {
  size_t first = 0;
  const Rails* reader = modelled.AddHost(8, 2, &first);
  Modelled::Holder* holder = modelled.AddHolder(modelled.AddHost(8, 2), 128, kPage);
  for (int i = 0; i < 4; ++i) modelled.AddEngine(reader, std::span(&holder, 1));
  modelled.network.port(static_cast<uint8_t>(first)).loss = 1e-3;
  const double rate = modelled.Run(first, 8, kWarmUp, kMeasured);
  Note("eight rails of which one loses a chunk in a thousand", rate, 8 * kPort);
  EXPECT_GE(rate, 0.94 * 8 * kPort);
  ExpectHealthy();
}

// One call over one queue pair. Where there are many, others use what one that waits leaves.
double Lossy(Modelled* m) {
  m->fake.ece = 1;
  m->network.port(1).loss = 1e-2;
  return OnePort(m, 1, 1, 1);
}

TEST_F(ModelledTest, ALossyPortSendsAgainAllThatCameAfter) {
  Note("one queue pair that loses a chunk in a hundred", Lossy(&modelled), kPort);
  ExpectHealthy();
}

TEST_F(ModelledTest, ALossyPortSendsAgainWhatWasLostWhereDevicesAgree) {
  modelled.link.ece = true;
  const double rate = Lossy(&modelled);
  Note("the same, with rdma-ece", rate, kPort);
  ExpectHealthy();
}

}  // namespace
}  // namespace peercache::rdma
