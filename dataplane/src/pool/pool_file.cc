#include "pool/pool_file.h"

#include <fmt/format.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/checksum.h"
#include "base/divide.h"
#include "base/size.h"
#include "base/small_file.h"

namespace peercache {

namespace {

constexpr uint64_t kMagic = 0x31'4c'4f'4f'50'43'50'50;  // "PPCPOOL1"
constexpr uint32_t kFormat = 3;
constexpr size_t kMostFingerprint = 3 << 10;
constexpr size_t kNoteBytes = 36 << 10;
constexpr uint64_t kMostGenerations = uint64_t{1} << 62;  // there is no end to them
constexpr Duration kMostRest = std::chrono::hours(24);    // nor to this
// A process that was told to end has so long to let go of its memory.
constexpr milliseconds kPatience{10'000};

}  // namespace

struct PoolFile::Header {
  uint64_t magic;  // written last
  uint32_t fingerprint_length;
  std::atomic<uint32_t> crashed;  // the signal
  std::atomic<uint64_t> generation_limit;
  std::atomic<uint64_t> incarnation;
  char fingerprint[kMostFingerprint];
  std::atomic<uint64_t> rest;  // nanoseconds
};

struct PoolFile::Note {
  uint64_t sequence;  // 0: none
  uint64_t checksum;  // of what follows
  uint32_t length;
  std::byte bytes[kMostNote];

  uint64_t Sum() const {
    std::array<std::byte, sizeof(sequence) + sizeof(length)> head;
    std::memcpy(head.data(), &sequence, sizeof(sequence));
    std::memcpy(head.data() + sizeof(sequence), &length, sizeof(length));
    const std::array<std::span<const std::byte>, 2> parts = {std::span(head), {bytes, length}};
    return Checksum(parts);
  }
  bool Whole() const { return sequence != 0 && length <= kMostNote && checksum == Sum(); }
};

const char* PoolStartName(PoolStart start) {
  switch (start) {
    case PoolStart::kMemory: return "memory";
    case PoolStart::kNew: return "new";
    case PoolStart::kAdopted: return "adopted";
    case PoolStart::kDifferent: return "different";
    case PoolStart::kCrashed: return "crashed";
    case PoolStart::kDamaged: return "damaged";
  }
  return "unknown";
}

PoolFile::PoolFile(MemoryFile file, const PoolFileOptions& options, const PoolLayout& layout,
                   int numa_node)
    : file_(std::move(file)),
      fingerprint_(options.identity),
      page_bytes_(layout.pages()),
      states_(layout.states()),
      numa_node_(numa_node),
      own_rest_(options.rest),
      rest_(options.rest) {
  fingerprint_.insert(fingerprint_.begin(),
                      {{"format", fmt::format("{}", kFormat)},
                       {"boot", ReadSmallFile("/proc/sys/kernel/random/boot_id")},
                       {"size", FormatSize(size())},
                       {"slots", FormatSize(layout.slots)},
                       {"beside", FormatSize(layout.beside)},
                       {"layout", fmt::format("{:016x}", layout.Digest())}});
}

size_t PoolFile::size() const {
  const size_t page = file_.page_size();
  return DivideUp(page_bytes_ + states_ + kTailBytes, page) * page;
}

PoolFile::Header* PoolFile::header() const {
  static_assert(sizeof(Header) <= 4096 && sizeof(Note) <= kNoteBytes &&
                4096 + 2 * kNoteBytes <= kTailBytes);
  return reinterpret_cast<Header*>(tail_.data() + tail_.size() - kTailBytes);
}

PoolFile::Note* PoolFile::NoteAt(size_t i) const {
  return reinterpret_cast<Note*>(reinterpret_cast<std::byte*>(header()) + 4096 + i * kNoteBytes);
}

Result<std::unique_ptr<PoolFile>> PoolFile::Open(const PoolFileOptions& options,
                                                 const PoolLayout& layout, HugePages huge_pages,
                                                 int numa_node) {
  auto file = MemoryFile::Open("pool-file", options.path, options.name, kPatience);
  if (!file.ok()) return file.status();
  auto pool = std::unique_ptr<PoolFile>(new PoolFile(std::move(*file), options, layout, numa_node));
  if (FingerprintText(pool->fingerprint_).size() > kMostFingerprint)
    return InvalidArgument("pool-file: the names of node and cluster are too long for its header");
  if (Status s = pool->CheckPages(huge_pages); !s.ok()) return s;
  pool->start_ = pool->Look();
  const Status s = pool->start_ == PoolStart::kAdopted ? pool->Map() : pool->Begin();
  if (!s.ok()) return s;
  return pool;
}

Status PoolFile::CheckPages(HugePages huge_pages) const {
  const size_t page = file_.page_size();
  const bool fits = huge_pages == HugePages::kAuto ||
                    (huge_pages == HugePages::kOff && page == SmallPageSize()) ||
                    (huge_pages == HugePages::k2Mi && page == size_t{2} << 20) ||
                    (huge_pages == HugePages::k1Gi && page == size_t{1} << 30);
  if (fits) return {};
  return InvalidArgument(fmt::format(
      "huge-pages: {}, but pool-file {} is on a file system with pages of {}; write auto, "
      "or a path on a hugetlbfs that was mounted with -o pagesize=...",
      HugePagesName(huge_pages), file_.path(), FormatSize(page)));
}

PoolStart PoolFile::Look() {
  if (file_.size() == 0) return PoolStart::kNew;
  std::vector<std::byte> bytes(sizeof(Header));
  const auto& was = *reinterpret_cast<const Header*>(bytes.data());
  if (file_.size() < kTailBytes || !file_.Read(file_.size() - kTailBytes, bytes) ||
      was.magic != kMagic || was.fingerprint_length > kMostFingerprint ||
      was.generation_limit - 1 >= kMostGenerations) {
    why_ = "it is not a whole pool of this release";
    return PoolStart::kDamaged;
  }
  why_ = FingerprintDifference({was.fingerprint, was.fingerprint_length}, fingerprint_);
  if (!why_.empty()) return PoolStart::kDifferent;
  if (const uint32_t signal = was.crashed.load(); signal != 0) {
    why_ = fmt::format("the process before ended with {}, and may have written anywhere",
                       strsignal(static_cast<int>(signal)));
    return PoolStart::kCrashed;
  }
  if (file_.size() != size() || was.rest > static_cast<uint64_t>(kMostRest.count())) {
    why_ = "it does not have the size that it was made with, or its header is wrong";
    return PoolStart::kDamaged;
  }
  // model: rest_longest
  rest_ = std::max(own_rest_, Duration(static_cast<int64_t>(was.rest.load())));
  return PoolStart::kAdopted;
}

Status PoolFile::Damaged(const std::string& why) {
  start_ = PoolStart::kDamaged;
  why_ = why;
  return Begin();
}

Status PoolFile::Begin() {
  crash_mark_.reset();
  pages_ = {};
  tail_ = {};
  rest_ = own_rest_;
  if (Status s = file_.Renew(size()); !s.ok()) return s;
  if (Status s = Map(); !s.ok()) return s;
  const std::string text = FingerprintText(fingerprint_);
  std::memcpy(header()->fingerprint, text.data(), text.size());
  header()->fingerprint_length = static_cast<uint32_t>(text.size());
  // Who has mapped the file may still look for a page of before. No page here has the generation of
  // one: those began at this clock, too, and no process takes one each nanosecond.
  header()->generation_limit = static_cast<uint64_t>(Clock::now().time_since_epoch().count());
  std::atomic_ref(header()->magic).store(kMagic, std::memory_order_release);
  return {};
}

Status PoolFile::Map() {
  auto pages = file_.Map(0, page_bytes_, numa_node_);  // before any of it is there
  if (!pages.ok()) return pages.status().Annotate(file_.path());
  // What is written with every transition must not fault for want of memory. Huge pages that are
  // reserved can still be denied by a cgroup, as SIGBUS.
  const size_t first = file_.page_size() > SmallPageSize() ? 0 : page_bytes_;
  if (Status s = file_.Take(first, size() - first); !s.ok()) return s;
  auto tail = file_.Map(page_bytes_, size() - page_bytes_, -1);
  if (!tail.ok()) return tail.status().Annotate(file_.path());
  pages_ = std::move(*pages);
  tail_ = std::move(*tail);
  // Transparent huge pages where the mount has them; a hint.
  (void)::madvise(pages_.data(), pages_.size(), MADV_HUGEPAGE);
  crash_mark_.emplace(&header()->crashed);
  // Before any reader is told of a page under this process's lease. model: rest_kept
  header()->rest = static_cast<uint64_t>(rest_.count());
  return {};
}

void PoolFile::Rested() { header()->rest = static_cast<uint64_t>(own_rest_.count()); }

uint64_t PoolFile::generation_limit() const { return header()->generation_limit; }

void PoolFile::RaiseGenerationLimit(uint64_t limit) {
  header()->generation_limit.store(limit, std::memory_order_release);
}

uint64_t PoolFile::Incarnation(uint64_t incarnation) {
  const uint64_t chosen = std::max(incarnation, header()->incarnation + 1);
  header()->incarnation = chosen;
  return chosen;
}

const PoolFile::Note* PoolFile::LatestNote() const {
  const Note* latest = nullptr;
  for (size_t i = 0; i < 2; ++i) {
    const Note* note = NoteAt(i);
    if (note->Whole() && (latest == nullptr || note->sequence > latest->sequence)) latest = note;
  }
  return latest;
}

void PoolFile::SaveNote(std::span<const std::byte> bytes) {
  std::lock_guard lock(note_mutex_);
  const Note* latest = LatestNote();
  Note* note = NoteAt(latest == NoteAt(0) ? 1 : 0);
  note->sequence = 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  note->length = static_cast<uint32_t>(std::min(bytes.size(), kMostNote));
  std::memcpy(note->bytes, bytes.data(), note->length);
  note->sequence = latest == nullptr ? 1 : latest->sequence + 1;
  note->checksum = note->Sum();
}

std::vector<std::byte> PoolFile::LoadNote() const {
  const Note* note = LatestNote();
  if (note == nullptr) return {};
  return {note->bytes, note->bytes + note->length};
}

}  // namespace peercache
