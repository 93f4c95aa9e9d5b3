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

ClearsOptions KeptClears(ClearsOptions options, const Pool& pool, const DiskPages* disk,
                         bool others) {
  ClearTable heard;
  std::optional<ClearState> known;  // of all that have pages of before
  const auto add = [&](const ClearState& state, bool has_pages) {
    heard.Take(state);
    if (has_pages) known = known ? KnownToBoth(*known, state) : state;
  };
  if (disk != nullptr) add(disk->KnownClears(), disk->has_past());
  PoolFile* const file = pool.file();
  static_assert(2 * sizeof(uint64_t) + sizeof(uint32_t) + kMostClears * sizeof(ClearEntry) <=
                PoolFile::kMostNote);
  if (file != nullptr) {
    const std::vector<std::byte> note = file->LoadNote();
    FrameReader reader(note);
    ClearState state;
    if (note.empty() || !state.Decode(&reader) || !state.DecodeForgotten(&reader)) state = {};
    add(state, pool.adoption().pages > 0);
  }
  options.pages_of_before = known.has_value() && others;
  options.heard = heard.state();
  options.known = known.value_or(options.heard);
  if (file == nullptr) return options;
  options.keep = [file](const ClearState& state) {
    FrameWriter writer;
    writer.Start(MessageType::kClears, 0);
    state.Encode(&writer);
    state.EncodeForgotten(&writer);
    file->SaveNote(writer.Finish().subspan(sizeof(FrameHeader)));
  };
  return options;
}

}  // namespace peercache
