#include "node/read/remote_reader.h"

#include <algorithm>
#include <numeric>

#include "base/checksum.h"

namespace peercache {

// Of one batch. Different pages may be looked at in different threads.
class RemoteReader::Checks final : public PageChecks {
 public:
  Checks(const RemoteReader& reader, std::span<const RemotePage> pages, const Destinations& to)
      : reader_(reader), pages_(pages), to_(to), found_(pages.size(), Found::kNothing) {}
  bool Wants(size_t i) const override {
    const RemotePage& page = pages_[i];
    // What no processor can read is not verified.
    return found_[i] == Found::kNothing && !to_.unmapped && page.record.checksum != 0 &&
           ChecksumWanted(reader_.verify_, page.key);
  }
  void Check(size_t i) override {
    const RemotePage& page = pages_[i];
    const auto segments = to_.Of(page.page);
    const std::vector<ConstBytes> bytes(segments.begin(), segments.end());
    uint64_t checksum = 0;
    const bool readable = GuardedChecksum(bytes, &checksum);
    if (readable) reader_.counters_->verified.Add(1);
    found_[i] = readable && checksum == page.record.checksum ? Found::kRight : Found::kWrong;
  }
  bool Wrong(size_t i) const { return found_[i] == Found::kWrong; }
  // The bytes that were looked at do not count.
  void Forget(size_t i) { found_[i] = Found::kNothing; }

 private:
  enum class Found : uint8_t { kNothing, kRight, kWrong };
  const RemoteReader& reader_;
  const std::span<const RemotePage> pages_;
  const Destinations& to_;
  std::vector<Found> found_;  // of each page
};

void RemoteReader::Read(std::span<const RemotePage> pages, const Destinations& to,
                        std::span<ReadOutcome> outcomes, TimePoint deadline, bool hurried) {
  std::fill(outcomes.begin(), outcomes.end(), ReadOutcome::kUnreachable);
  std::vector<size_t> left(pages.size());
  std::iota(left.begin(), left.end(), size_t{0});
  Checks checks(*this, pages, to);
  const ReadBatch batch{pages, to, outcomes, deadline, crew_, background_, hurried, &checks};
  for (PageReader* const reader : readers_) {
    if (left.empty() || (hurried && Clock::now() >= deadline)) break;
    left = reader->Read(batch, std::move(left));
    for (const size_t i : left) checks.Forget(i);
  }
  Verify(batch, &checks);
}

void RemoteReader::Verify(const ReadBatch& batch, Checks* checks) {
  std::vector<size_t> chosen;
  for (size_t i = 0; i < batch.pages.size(); ++i)
    if (Arrived(batch.outcomes[i]) && checks->Wants(i)) chosen.push_back(i);
  if (!chosen.empty()) crew_->For(chosen.size(), [&](size_t c) { checks->Check(chosen[c]); });
  for (size_t i = 0; i < batch.pages.size(); ++i)
    if (Arrived(batch.outcomes[i]) && checks->Wrong(i)) batch.outcomes[i] = ReadOutcome::kCorrupt;
}

}  // namespace peercache
