// Index: key -> where a page is on disk, for all devices together.
//
// Entries lie in blocks of 32, and a region has a list of blocks: its entries go together when it
// is given up. A hash table of 4-byte entry numbers finds them: open addressing with linear
// probing at a load of at most 3/4, with a byte of the hash beside each number, so that a probe
// touches another entry's key once in 256 times. Removal shifts back: no tombstones. The size is
// fixed when it is made; the kernel gives the memory when it is first touched.
//
// Costs: about 76 bytes a page (index_test.cc measures it). All operations take a few probes; none
// allocates but the constructor. Not thread-safe (catalog.h).
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/key.h"
#include "base/seeded_hash.h"
#include "disk/disk_page.h"
#include "disk/format.h"

namespace peercache::disk {

// Zeroed memory of a fixed number of elements, which costs nothing before it is touched.
template <typename T>
class LazyArray {
 public:
  explicit LazyArray(size_t count) : bytes_(count * sizeof(T)) {
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED) data_ = static_cast<T*>(memory);
  }
  ~LazyArray() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  LazyArray(const LazyArray&) = delete;
  LazyArray& operator=(const LazyArray&) = delete;
  explicit operator bool() const { return data_ != nullptr; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }

 private:
  const size_t bytes_;
  T* data_ = nullptr;
};

class Index {
 public:
  static constexpr uint32_t kPerBlock = 32;
  using Number = uint32_t;  // of an entry
  static constexpr Number kNone = UINT32_MAX;

  // `pages`: how many it holds at least. `regions`: of each device.
  Index(uint64_t pages, const std::vector<uint32_t>& regions);

  // False: the system gave no memory.
  bool ok() const { return blocks_ && table_ && hashes_; }
  uint64_t size() const { return size_; }
  uint64_t capacity() const { return uint64_t{block_count_} * kPerBlock; }
  // Blocks that are free: each region that is written takes them as it needs them.
  uint64_t free_pages() const { return uint64_t{free_blocks_} * kPerBlock; }

  Number Find(const Key& key) const;
  // Ahead of calls with the key: brings what they look at first into the processor's cache. Needs
  // no lock.
  void Prefetch(const Key& key) const {
    const uint64_t home = Home(hash_(key));
    __builtin_prefetch(&table_[home]);
    __builtin_prefetch(&hashes_[home]);
  }
  // False: it is full. page.key must not be there.
  bool Insert(const DiskPage& page);
  // Its entry stays unused until its region is dropped.
  void Erase(Number number);
  DiskPage At(Number number) const;
  uint64_t SequenceAt(Number number) const;
  void SetRead(Number number);
  void SetNote(Number number, uint32_t note);

  // All entries are those that are Used in the blocks below blocks().
  uint32_t blocks() const { return fresh_; }
  bool Used(uint32_t block, uint32_t i) const;
  static Number NumberOf(uint32_t block, uint32_t i) { return block * kPerBlock + i; }
  // The entries of a region, block by block: pass the result to go on, kNone at first and at the
  // end. A region keeps its blocks until they are dropped.
  uint32_t NextBlock(RegionId region, uint32_t block) const;
  // Erases what is left of the first block of a region and frees the block. False: it has none.
  bool DropBlock(RegionId region);

 private:
  struct Block {  // fields side by side: 68 bytes an entry
    Key keys[kPerBlock];
    uint64_t checksums[kPerBlock];
    uint64_t tags[kPerBlock];
    uint64_t sequences[kPerBlock];
    uint32_t lengths[kPerBlock];  // 0: unused
    uint32_t places[kPerBlock];   // offset, which is a multiple of kBlock; owner; kRead
    uint32_t notes[kPerBlock];
    RegionId region;
    uint32_t count;  // entries that were ever used
    uint32_t next;   // of the region, or of the free ones, plus 1; 0: none
  };
  struct Region {
    uint32_t first = 0, last = 0;  // blocks plus 1; 0: none
  };
  static constexpr uint32_t kRead = 1;
  static constexpr int kOwnerShift = 1;
  static_assert(UINT8_MAX << kOwnerShift < kBlock);

  Region& Of(RegionId id) { return regions_[id.device][id.region]; }
  const Region& Of(RegionId id) const { return regions_[id.device][id.region]; }
  // Where probing for a hash begins, by its high bits; the byte beside is of its low ones.
  uint64_t Home(uint64_t hash) const;
  static uint8_t Byte(uint64_t hash) { return static_cast<uint8_t>(hash); }
  const Key& KeyOf(Number number) const {
    return blocks_[number / kPerBlock].keys[number % kPerBlock];
  }
  uint64_t Next(uint64_t at) const { return at + 1 == buckets_ ? 0 : at + 1; }
  // The block that the next entry of the region goes to; nullptr: the index is full.
  Block* Room(RegionId region);

  const SeededHash hash_;
  const uint32_t block_count_;
  const uint64_t buckets_;
  LazyArray<Block> blocks_;
  LazyArray<Number> table_;    // entry plus 1; 0: empty
  LazyArray<uint8_t> hashes_;  // of the same bucket
  std::vector<std::vector<Region>> regions_;
  uint64_t size_ = 0;
  uint32_t free_blocks_;
  uint32_t free_ = 0;   // the first free block that was used before, plus 1
  uint32_t fresh_ = 0;  // blocks from here on were never used
};

}  // namespace peercache::disk
