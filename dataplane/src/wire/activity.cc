#include "wire/activity.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <string_view>

#include "wire/heartbeat.h"

namespace peercache {
namespace {

void AddTo(uint64_t n, uint64_t* sum) {
  if (__builtin_add_overflow(*sum, n, sum)) *sum = UINT64_MAX;
}

template <size_t N>
void AddTo(const std::array<uint64_t, N>& from, std::array<uint64_t, N>* to) {
  for (size_t i = 0; i < N; ++i) AddTo(from[i], &(*to)[i]);
}

template <size_t N>
void PutPlaces(const std::array<uint64_t, N>& places, FrameWriter* w) {
  static_assert(N < 256);
  size_t used = N;
  while (used > 0 && places[used - 1] == 0) --used;
  w->Put(static_cast<uint8_t>(used));
  w->PutSpan(std::span<const uint64_t>(places).first(used));
}

template <size_t N>
bool GetPlaces(FrameReader* r, std::array<uint64_t, N>* places) {
  const auto used = r->Get<uint8_t>();
  if (used > N) return false;
  places->fill(0);
  for (size_t i = 0; i < used; ++i) (*places)[i] = r->Get<uint64_t>();
  // Each flow has one form on the wire.
  return used == 0 || (*places)[used - 1] != 0;
}

}  // namespace

uint64_t Flow::delivered_pages() const {
  uint64_t sum = 0;
  for (const uint64_t n : delivered) AddTo(n, &sum);
  return sum;
}

void Flow::Add(const Flow& other) {
  AddTo(other.looked_up, &looked_up);
  AddTo(other.delivered, &delivered);
  AddTo(other.missed, &missed);
  AddTo(other.read_bytes, &read_bytes);
  AddTo(other.written_bytes, &written_bytes);
  AddTo(other.served_bytes, &served_bytes);
  AddTo(other.evicted, &evicted);
  AddTo(other.gets, &gets);
  AddTo(other.sets, &sets);
}

void Activity::Encode(FrameWriter* w, bool with_drives) const {
  w->Put(milliseconds);
  w->Put(machine);
  for (const uint64_t n :
       {flow.looked_up, flow.read_bytes, flow.written_bytes, flow.served_bytes, flow.evicted})
    w->Put(n);
  PutPlaces(flow.delivered, w);
  PutPlaces(flow.missed, w);
  PutPlaces(flow.gets, w);
  PutPlaces(flow.sets, w);
  const size_t from = std::min(sources.size(), kMostSources);
  w->Put(static_cast<uint8_t>(from));
  for (size_t i = 0; i < from; ++i) {
    w->Put(sources[i].node);
    w->Put(sources[i].bytes);
  }
  const size_t over = std::min(rails.size(), kMostRails);
  w->Put(static_cast<uint8_t>(over));
  for (size_t i = 0; i < over; ++i) {
    w->PutString(std::string_view(rails[i].name).substr(0, kMaxRailNameBytes));
    w->Put(static_cast<uint8_t>(rails[i].up));
    w->Put(rails[i].bytes);
  }
  if (!with_drives || drives.total == 0) return;
  for (const uint8_t n : {drives.total, drives.on, drives.recovering}) w->Put(n);
  w->Put(drives.used_bytes);
  w->Put(drives.capacity_bytes);
  w->Put(drives.budget_bytes);
  w->Put(drives.budget_left_bytes);
  w->PutString(std::string_view(drives.off).substr(0, kMaxDriveBytes));
}

bool Activity::Decode(FrameReader* r) {
  milliseconds = r->Get<uint32_t>();
  machine = r->Get<uint32_t>();
  for (uint64_t* n :
       {&flow.looked_up, &flow.read_bytes, &flow.written_bytes, &flow.served_bytes, &flow.evicted})
    *n = r->Get<uint64_t>();
  if (milliseconds == 0 || milliseconds > kLongestMilliseconds) return false;
  if (!GetPlaces(r, &flow.delivered) || !GetPlaces(r, &flow.missed)) return false;
  if (!GetPlaces(r, &flow.gets) || !GetPlaces(r, &flow.sets)) return false;
  const auto from = r->Get<uint8_t>();
  if (from > kMostSources) return false;
  sources.resize(from);
  for (Source& source : sources) {
    source.node = r->Get<uint64_t>();
    source.bytes = r->Get<uint64_t>();
  }
  const auto over = r->Get<uint8_t>();
  if (over > kMostRails) return false;
  rails.resize(over);
  for (Rail& rail : rails) {
    rail.name = r->GetText(kMaxRailNameBytes);
    const auto up = r->Get<uint8_t>();
    if (up > 1) return false;
    rail.up = up == 1;
    rail.bytes = r->Get<uint64_t>();
  }
  drives = {};
  if (!r->ok() || r->AtEnd()) return r->ok();
  for (uint8_t* n : {&drives.total, &drives.on, &drives.recovering}) *n = r->Get<uint8_t>();
  drives.used_bytes = r->Get<uint64_t>();
  drives.capacity_bytes = r->Get<uint64_t>();
  drives.budget_bytes = r->Get<uint64_t>();
  drives.budget_left_bytes = r->Get<uint64_t>();
  drives.off = r->GetText(kMaxDriveBytes);
  return r->ok() && drives.total > 0 && drives.on <= drives.total &&
         drives.recovering <= drives.on && drives.used_bytes <= drives.capacity_bytes &&
         drives.budget_left_bytes <= drives.budget_bytes;
}

}  // namespace peercache
