#include "node/read/remote_reader.h"

#include <algorithm>
#include <numeric>

#include "base/checksum.h"

namespace peercache {

void RemoteReader::Read(std::span<const RemotePage> pages, const Destinations& to,
                        std::span<ReadOutcome> outcomes, TimePoint deadline) {
  std::fill(outcomes.begin(), outcomes.end(), ReadOutcome::kUnreachable);
  std::vector<size_t> left(pages.size());
  std::iota(left.begin(), left.end(), size_t{0});
  const ReadBatch batch{pages, to, outcomes, deadline, crew_, background_};
  for (PageReader* const reader : readers_) {
    if (left.empty()) break;
    left = reader->Read(batch, std::move(left));
  }
  // What no processor can read is not verified.
  if (!to.unmapped) Verify(batch);
}

void RemoteReader::Verify(const ReadBatch& batch) {
  std::vector<size_t> chosen;
  for (size_t i = 0; i < batch.pages.size(); ++i) {
    const RemotePage& page = batch.pages[i];
    if (Arrived(batch.outcomes[i]) && page.record.checksum != 0 &&
        ChecksumWanted(verify_, page.key))
      chosen.push_back(i);
  }
  if (chosen.empty()) return;
  crew_->For(chosen.size(), [&](size_t c) {
    const RemotePage& page = batch.pages[chosen[c]];
    const auto segments = batch.to.Of(page.page);
    const std::vector<ConstBytes> bytes(segments.begin(), segments.end());
    uint64_t checksum = 0;
    const bool readable = GuardedChecksum(bytes, &checksum);
    if (readable) counters_->verified.Add(1);
    if (!readable || checksum != page.record.checksum)
      batch.outcomes[chosen[c]] = ReadOutcome::kCorrupt;
  });
}

}  // namespace peercache
