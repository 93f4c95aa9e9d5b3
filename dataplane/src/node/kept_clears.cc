#include "node/kept_clears.h"

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "membership/clear_table.h"
#include "pool/pool_file.h"
#include "wire/clears.h"
#include "wire/frame.h"

namespace peercache {

ClearsOptions KeptClears(ClearsOptions options, const Pool& pool, DiskPages* disk, bool others) {
  ClearTable heard;
  std::optional<ClearState> known;  // of all that have pages of before
  const auto add = [&](const ClearState& state, bool has_pages) {
    heard.Take(state);
    if (has_pages) known = known ? KnownToBoth(*known, state) : state;
  };
  if (disk != nullptr) {
    add(disk->KnownClears(), disk->has_past());
    options.record = [disk] { disk->RecordClears(); };
  }
  PoolFile* const file = pool.file();
  static_assert(sizeof(uint64_t) + kTagGroups * sizeof(ForgottenClears) + sizeof(uint32_t) +
                    kMostClears * sizeof(ClearEntry) <=
                PoolFile::kMostNote);
  if (file != nullptr) {
    const std::vector<std::byte> note = file->LoadNote();
    FrameReader reader(note);
    ClearState state;
    if (note.empty() || !state.Decode(&reader)) state = {};
    add(state, pool.adoption().pages > 0);
  }
  const bool may_have_pages = disk != nullptr && disk->may_have_past();
  options.pages_of_before = (known.has_value() || may_have_pages) && others;
  options.heard = heard.state();
  options.known = known.value_or(options.heard);
  // What has no pages yet gets only those of from now on, which have seen all that is known here.
  if (disk != nullptr && !disk->has_past() && !may_have_pages) disk->Know(options.known);
  if (file == nullptr) return options;
  options.keep = [file](const ClearState& state) {
    FrameWriter writer;
    writer.Start(MessageType::kClears, 0);
    state.Encode(&writer);
    file->SaveNote(writer.Finish().subspan(sizeof(FrameHeader)));
  };
  if (pool.adoption().pages == 0) options.keep(options.known);
  return options;
}

}  // namespace peercache
