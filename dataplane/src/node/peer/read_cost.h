// ReadCost: what pages of one place have cost lately: the memory of one holder, its drives, or the
// own drives. And whether more of them are worth waiting for, where an engine has said what it
// costs to compute them anew.
//
// The rule is that of renting until one has paid the price: a get may take as long as recomputing
// its pages would. So a place that has become slow costs an engine its prefill time once more, and
// no more than that. Then the place is known to be slow, and gets of it are misses at once, but for
// one page in a while, the trial, for which kLeastPatience is the price. A trial that comes in that
// time tells little of the rate, for most of it is that of messages: the place is not known to be
// slow any more, and the next get of it finds out. So that such gets cost at most a twentieth of
// the time, trials are the rarer the more a get has lost.
//
// A faster read counts at once and a slower one by and by, as what delays a read is more often
// other work than the place. A read that was not worth its time counts at once.
//
// Lock-free. Readers that come at the same time may lose each other's observations, which later
// ones make good.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace peercache {

enum class Purpose : uint8_t {
  kGet,    // of a place that is too slow it brings one page, when a trial is due
  kExists  // promises all pages then, so that a get comes that makes the trial
};

class ReadCost {
 public:
  // Nothing is refused that may come within the first: threads wake that late on a busy machine.
  // And nothing that has begun is given up before the second: one read may meet more.
  static constexpr milliseconds kNoWait{20}, kLeastPatience{100};
  // Between two trials of a slow place: twice as long after each, up to the second; and at least
  // kPauseShare times what the last get has lost.
  static constexpr milliseconds kFirstPause{500}, kLongestPause{16'000};
  static constexpr int kPauseShare = 20;

  // `bytes` have come in `took`, while `queued` others were on their way from there.
  void Took(uint64_t bytes, uint64_t queued, Duration took);
  // `bytes` have not come in `took`, which is as long as they were worth waiting for.
  void Lost(uint64_t bytes, Duration took, TimePoint now);
  // The place is another process now.
  void Forget();

  // Whether `bytes` are likely to come within `worth`; also true of a place not read from yet.
  bool Pays(uint64_t bytes, uint64_t queued, Duration worth);
  // A trial is due. TakeTrial: and it is this caller's.
  bool TrialDue(TimePoint now) const;
  bool TakeTrial(TimePoint now);
  // How many of `pages` pages, which are worth waiting for so long together, are to be asked for:
  // all, or of a place that is too slow a trial, or none.
  size_t ToAskFor(size_t pages, uint64_t bytes, uint64_t queued, Duration worth, Purpose purpose,
                  TimePoint now);
  // A get was not worth its time there, and no trial has changed that.
  bool slow() const;
  // 0: not known.
  uint64_t bytes_per_second() const;

 private:
  int64_t NextTrial(TimePoint now, Duration lost = {});

  std::atomic<uint64_t> ps_per_byte_{0};  // picoseconds; 0: nothing was read yet
  std::atomic<int64_t> trial_at_{0};
  std::atomic<uint32_t> failed_{0};  // trials since it last paid
};

}  // namespace peercache
