// Contents: writes the contents blocks of the region that a log is filling.
//
// A block is written when it is full, and otherwise half a second after its oldest page. The next
// version of a block that was not full goes to the other one of two places, so a torn write never
// takes the pages that an earlier version has named:
//
//   pages      places 0  1  2
//   62 full          .. v1        block 0, first version, 10 pages
//                    v1 v2        block 0 again, 62 pages: done; place 0 is free
//                    v3 v2 ..     block 1; its other place is 2
//
// Used by the device's thread alone, but for the request itself.
#pragma once

#include <array>
#include <atomic>
#include <optional>

#include "disk/aligned.h"
#include "disk/catalog.h"
#include "disk/device.h"
#include "disk/regions.h"

namespace peercache::disk {

class Contents {
 public:
  // A write that has failed.
  struct Failure {
    uint32_t region;
    int error;  // errno
  };

  Contents(uint64_t file_id, const Geometry& geometry, Device* device, Regions* regions,
           Duration flush_after);

  // Takes the page for a block. False: it has to wait for a write; call Progress and try again.
  // The page's bytes are on the device.
  // `number` counts up.
  bool Add(const DiskPage& page, uint64_t epoch, uint64_t number, TimePoint now);
  // Takes note of a write that has ended; begins one that is due. `flush`: whatever there is, is.
  std::optional<Failure> Progress(TimePoint now, bool flush);
  // The number of the first page that was added and is in no block on the device yet.
  uint64_t FirstOwed(uint64_t otherwise) const {
    return block_.count != noted_ ? numbers_[noted_] : otherwise;
  }
  // When a write is due, at the latest.
  TimePoint due() const {
    return block_.count != noted_ ? since_ + flush_after_ : TimePoint::max();
  }

 private:
  void Write(TimePoint now);
  void Ended();

  const Geometry geometry_;
  Device* const device_;
  Regions* const regions_;
  const Duration flush_after_;

  ContentsBlock block_;
  std::array<uint64_t, kEntriesPerBlock> numbers_{};
  uint32_t noted_ = 0;  // of its pages, those in a version on the device
  uint32_t writing_count_ = 0;
  uint32_t place_ = 0, other_ = 1, next_place_ = 2;
  TimePoint since_{};  // of the oldest page that is not noted

  AlignedBuffer image_;
  IoRequest request_;
  bool writing_ = false;
  std::atomic<bool> ended_{false};
};

}  // namespace peercache::disk
