#include "disk/contents.h"

#include <utility>

namespace peercache::disk {

Contents::Contents(uint64_t file_id, const Geometry& geometry, Device* device, Regions* regions,
                   Duration flush_after)
    : geometry_(geometry),
      device_(device),
      regions_(regions),
      flush_after_(flush_after),
      image_(kBlock) {
  block_.file_id = file_id;
}

bool Contents::Add(const DiskPage& page, uint64_t epoch, uint64_t number, TimePoint now) {
  if (block_.epoch != epoch) {
    if (block_.count != noted_ || writing_) return false;
    block_.epoch = epoch;
    block_.region = page.at.region;
    block_.count = noted_ = 0;
    place_ = 0;
    other_ = 1;
    next_place_ = 2;
  }
  if (block_.count == kEntriesPerBlock) return false;
  if (block_.count == noted_) since_ = now;
  numbers_[block_.count] = number;
  block_.entries[block_.count++] = {.key = page.key,
                                    .length = page.length,
                                    .offset = page.offset,
                                    .checksum = page.checksum,
                                    .tag = page.tag,
                                    .sequence = page.sequence};
  return true;
}

std::optional<Contents::Failure> Contents::Progress(TimePoint now, bool flush) {
  std::optional<Failure> failure;
  if (writing_ && ended_.load(std::memory_order_acquire)) {
    if (const int error = request_.error(); error != 0) failure = {block_.region, error};
    Ended();
  }
  if (!writing_ && block_.count != noted_ &&
      (flush || block_.count == kEntriesPerBlock || now >= since_ + flush_after_))
    Write(now);
  return failure;
}

void Contents::Write(TimePoint now) {
  since_ = now;  // for pages that come while it is written
  EncodeContents(block_, image_.bytes());
  writing_ = true;
  writing_count_ = block_.count;
  ended_.store(false, std::memory_order_relaxed);
  request_.Set(IoRequest::Op::kWrite, image_.data(), kBlock,
               geometry_.region_at(block_.region) + uint64_t{place_} * kBlock);
  request_.context = this;
  request_.done = [](IoRequest* request) {
    static_cast<Contents*>(request->context)->ended_.store(true, std::memory_order_release);
  };
  if (device_->Submit(&request_)) return;
  request_.result = -ENODEV;
  ended_.store(true, std::memory_order_release);
}

void Contents::Ended() {
  writing_ = false;
  regions_->Owe(block_.region, -static_cast<int>(writing_count_ - noted_));
  noted_ = writing_count_;
  // Pages that came meanwhile are in the next version.
  if (noted_ == kEntriesPerBlock) {
    block_.count = noted_ = 0;
    place_ = std::exchange(other_, next_place_);
    ++next_place_;
  } else {
    std::swap(place_, other_);
  }
}

}  // namespace peercache::disk
