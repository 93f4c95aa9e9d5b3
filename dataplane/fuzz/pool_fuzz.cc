// The file that a pool leaves to the process after it: states, header, notes, headers of slots.
//
// Each input is a list of changes to a file that a real pool has left, {where, slot, offset (2
// bytes), bytes}. Whatever they are, the next pool starts; what it takes over lies within slots
// that do not overlap, is found under its key, and goes; and the pool can be filled to the last
// slot.

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstring>
#include <set>
#include <string>

#include "fuzz.h"
#include "pool/pool.h"
#include "pool/pool_file.h"

namespace peercache::fuzz {
namespace {

Reached whole("whole"), page_lost("page lost"), different("different"), crashed("crashed"),
    damaged("damaged"), note("note"), note_lost("note lost");

constexpr size_t kPages = 8, kPage = 300 << 10;        // two spans of one class
constexpr size_t kHeader = 0, kSlot = 2, kPlaces = 3;  // 1: the states of slots

PoolOptions Options() {
  PoolOptions options;
  options.bytes = size_t{4} << 20;
  options.huge_pages = HugePages::kOff;
  options.file = {"/dev/shm", "peercache-fuzz-" + std::to_string(getpid()), {{"node", "a"}}, {}};
  return options;
}

Key KeyOf(size_t n) {
  Key key;
  key.bytes.fill(static_cast<uint8_t>(n + 1));
  return key;
}

// What the changes are made to.
struct Left {
  uint64_t tail = 0, offsets[kPages] = {};
};

void Set(int file, uint64_t at, ConstBytes bytes) {
  Require(pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(at)) ==
              static_cast<ssize_t>(bytes.size()),
          "the file takes changes");
}

Left Leave(std::string* path) {
  Left left;
  auto pool = Pool::Create(Options());
  Require(pool.ok(), "a pool starts");
  *path = (*pool)->file()->path();
  for (size_t n = 0; n < kPages; ++n) {
    auto slot = (*pool)->Reserve(kPage);
    Require(slot.ok(), "there is room");
    std::memset(slot->payload().data(), static_cast<int>(n + 1), 64);
    bool duplicate = false;
    left.offsets[n] = (*pool)->Commit(std::move(*slot), KeyOf(n), n % 2, 0, &duplicate).offset();
  }
  const std::byte kept[3] = {};
  (*pool)->file()->SaveNote(kept);
  left.tail = (*pool)->size();
  return left;
}

void CheckAndFill(Pool* pool) {
  uint64_t seen = 0;
  pool->ForEachReady([&](const PageInfo& page) {
    ++seen;
    const PagePin pin = pool->Find(page.key);
    Require(pin && pin.offset() == page.offset, "a page is found under its key");
    Require(page.offset + sizeof(SlotHeader) + page.length <= pool->size(), "within the pool");
  });
  Require(seen == pool->stats().pages && seen == pool->adoption().pages, "the pages are counted");
  const size_t used = pool->stats().used_bytes;
  std::vector<Reservation> slots;
  for (auto slot = pool->Reserve(kPage); slot.ok(); slot = pool->Reserve(kPage)) {
    std::memset(slot->payload().data(), 0xee, 64);
    slots.push_back(std::move(*slot));
  }
  Require(pool->stats().used_bytes >= used, "slots are disjoint");
  pool->ForEachReady([&](const PageInfo& page) {
    const PagePin pin = pool->Find(page.key);
    Require(page.length < 64 || pin.payload()[0] != std::byte{0xee}, "no page was written over");
  });
  slots.clear();
  std::set<uint64_t> tags;
  pool->ForEachReady([&](const PageInfo& page) { tags.insert(page.tag); });
  for (const uint64_t tag : tags)
    for (const Victim& victim : pool->TakeTagged(tag, nullptr))
      pool->Quarantine(victim, Clock::now() - milliseconds(1));
  pool->Reclaim(Clock::now());
  Require(pool->stats().used_bytes == 0, "all pages can go");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  SetUp();
  spdlog::set_level(spdlog::level::off);
  std::string path;
  const Left left = Leave(&path);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  const auto end = static_cast<uint64_t>(lseek(file, 0, SEEK_END));
  Script script(Input(data, size));
  for (Step step; script.Next(&step);) {
    if (step.bytes.size() < 2) continue;
    const size_t offset = step.bytes[0] | size_t{step.bytes[1]} << 8;
    uint64_t begin = left.tail, limit = end;
    if (step.operation % kPlaces == kHeader) begin = end - PoolFile::kTailBytes;
    if (step.operation % kPlaces == kSlot) {
      begin = left.offsets[step.argument % kPages];
      limit = begin + sizeof(SlotHeader);
    }
    const ConstBytes bytes = AsBytes(step.bytes.subspan(2));
    if (begin + offset + bytes.size() <= limit) Set(file, begin + offset, bytes);
  }
  close(file);
  {
    auto next = Pool::Create(Options());
    Require(next.ok(), "the next pool starts whatever is there");
    switch ((*next)->adoption().start) {
      case PoolStart::kAdopted:
        ((*next)->adoption().pages == kPages ? whole : page_lost).Hit();
        ((*next)->file()->LoadNote().size() == 3 ? note : note_lost).Hit();
        break;
      case PoolStart::kDifferent: different.Hit(); break;
      case PoolStart::kCrashed: crashed.Hit(); break;
      case PoolStart::kDamaged: damaged.Hit(); break;
      default: Fail("a file that was used is neither new nor none");
    }
    CheckAndFill(next->get());
  }
  unlink(path.c_str());
  return 0;
}

}  // namespace peercache::fuzz
