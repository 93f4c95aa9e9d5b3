// PoolFile: the pool's memory as a file that outlives the process (docs/dev/pool-file.md).
//
//   slots | what is beside them | states of the slots | header, notes
//
// The header is at the end, where it is found whatever the sizes are. It has the fingerprint of the
// process that wrote it, and what the next one must know: the generations and the incarnation that
// were used, for how long others may still read what is there, whether a fault ended the process,
// and notes, which are the node's.
//
// A file whose pages this process cannot go on with is emptied, and why() says so. It is other
// memory then, and no generation is that of a page before. Its error is one that the process cannot
// start with.
//
// Not thread-safe, but for SaveNote.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/crash_mark.h"
#include "base/memory_file.h"
#include "base/status.h"
#include "pool/fingerprint.h"
#include "pool/pool_file_options.h"
#include "pool/pool_layout.h"

namespace peercache {

class PoolFile {
 public:
  static constexpr size_t kMostNote = 32 << 10;
  // Of the header and the notes.
  static constexpr size_t kTailBytes = 80 << 10;

  // `huge_pages`: what its file system must have.
  static Result<std::unique_ptr<PoolFile>> Open(const PoolFileOptions& options,
                                                const PoolLayout& layout, HugePages huge_pages,
                                                int numa_node);

  // The memory of the pages; once.
  MappedRegion TakePages() { return std::move(pages_); }
  std::span<std::byte> states() const { return tail_.bytes().first(states_); }
  PoolStart start() const { return start_; }
  const std::string& why() const { return why_; }
  const std::string& path() const { return file_.path(); }
  // For how long memory that was taken over is not written: the longest `rest` of this process and
  // of those before, back to the last one that has rested.
  Duration rest() const { return rest_; }
  // That time has passed: what this process has promised counts from now on.
  void Rested();

  // The states are not such as a pool writes: gives up the pages after all. Before TakePages.
  Status Damaged(const std::string& why);
  // All generations below this one may have been used. The first is that of the process before.
  uint64_t generation_limit() const;
  void RaiseGenerationLimit(uint64_t limit);
  // `incarnation`, or one above that of the process before.
  uint64_t Incarnation(uint64_t incarnation);
  // At most kMostNote bytes that the next process finds. It finds the one before when this process
  // is killed meanwhile.
  void SaveNote(std::span<const std::byte> note);
  std::vector<std::byte> LoadNote() const;

 private:
  struct Header;
  struct Note;
  PoolFile(MemoryFile file, const PoolFileOptions& options, const PoolLayout& layout,
           int numa_node);
  Header* header() const;
  Note* NoteAt(size_t i) const;
  const Note* LatestNote() const;
  size_t size() const;
  // Of the file as it is. kAdopted, or why it must be emptied.
  PoolStart Look();
  Status CheckPages(HugePages huge_pages) const;
  Status Begin();
  Status Map();

  MemoryFile file_;
  Fingerprint fingerprint_;
  const size_t page_bytes_, states_;
  const int numa_node_;
  PoolStart start_ = PoolStart::kNew;
  std::string why_;
  MappedRegion pages_, tail_;
  std::mutex note_mutex_;
  std::optional<CrashMark> crash_mark_;
  const Duration own_rest_;
  Duration rest_;
};

}  // namespace peercache
