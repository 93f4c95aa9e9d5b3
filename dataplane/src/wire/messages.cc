#include "wire/messages.h"

#include <algorithm>

namespace peercache {
namespace {

// A lookup names one more holder of a key (Shard::kHoldersNamed).
constexpr uint32_t kMaxOtherRecords = 3;

template <typename T>
void PutVector(std::span<const T> values, FrameWriter* w) {
  w->Put(static_cast<uint32_t>(values.size()));
  w->PutSpan(values);
}

template <typename T>
void GetVector(FrameReader* r, uint32_t max, std::vector<T>* out) {
  r->GetInto(r->GetCount(max), out);
}

}  // namespace

void ErrorMessage::Encode(FrameWriter* w) const {
  w->Put(static_cast<uint8_t>(status.code()));
  w->PutString(std::string_view(status.message()).substr(0, 4096));
}
bool ErrorMessage::Decode(FrameReader* r) {
  const auto code = r->Get<uint8_t>();
  std::string message = r->GetText(4096);
  if (!r->AtEnd() || code == 0 || code > static_cast<uint8_t>(Code::kInternal)) return false;
  status = Status(static_cast<Code>(code), std::move(message));
  return true;
}

void Hello::Encode(FrameWriter* w) const {
  w->PutString(cluster);
  w->PutString(to);
  w->Put(node);
  w->Put(incarnation);
  w->Machine(machine);
  if (key == 0) return;
  w->Put(key);
  w->Put(nonce);
}
bool Hello::Decode(FrameReader* r) {
  cluster = r->GetName(kMaxIdBytes);
  to = r->GetText(kMaxToBytes);
  node = r->Get<uint64_t>();
  incarnation = r->Get<uint64_t>();
  key = 0;
  if (r->AtEnd()) return true;
  key = r->Get<uint64_t>();
  nonce = r->Get<Nonce>();
  return r->AtEnd() && key != 0;
}
void Challenge::Encode(FrameWriter* w) const {
  w->Put(node);
  w->Put(incarnation);
  w->Machine(machine);
  w->Put(nonce);
  w->Put(proof);
}
bool Challenge::Decode(FrameReader* r) {
  node = r->Get<uint64_t>();
  incarnation = r->Get<uint64_t>();
  nonce = r->Get<Nonce>();
  proof = r->Get<Proof>();
  return r->AtEnd();
}
void ProveMessage::Encode(FrameWriter* w) const { w->Put(proof); }
bool ProveMessage::Decode(FrameReader* r) {
  proof = r->Get<Proof>();
  return r->AtEnd();
}
void HelloOk::Encode(FrameWriter* w) const {
  w->Put(node);
  w->Put(incarnation);
  w->Machine(machine);
}
bool HelloOk::Decode(FrameReader* r) {
  node = r->Get<uint64_t>();
  incarnation = r->Get<uint64_t>();
  return r->AtEnd();
}

void ShardAnswer::Encode(FrameWriter* w) const {
  w->Put(stamp);
  w->Put(instance);
  w->Put(static_cast<uint8_t>(code));
  PutVector(std::span<const uint8_t>(outcomes), w);
  if (clears) clears->Encode(w);
}
bool ShardAnswer::DecodeStart(FrameReader* r) {
  stamp = r->Get<int64_t>();
  instance = r->Get<uint64_t>();
  const auto value = r->Get<uint8_t>();
  GetVector(r, kMaxItems, &outcomes);
  if (value > static_cast<uint8_t>(Code::kInternal)) return false;
  if (std::ranges::any_of(outcomes, [](uint8_t o) { return o > kStored; })) return false;
  code = static_cast<Code>(value);
  clears.reset();
  return r->ok();
}
bool ShardAnswer::Decode(FrameReader* r) {
  return DecodeStart(r) && (r->AtEnd() || clears.emplace().Decode(r));
}
void WithdrawAnswer::Encode(FrameWriter* w) const {
  ShardAnswer::Encode(w);
  if (!unserved_ms.empty()) PutVector(std::span(unserved_ms), w);
}
bool WithdrawAnswer::Decode(FrameReader* r) {
  unserved_ms.clear();
  if (!DecodeStart(r)) return false;
  if (r->AtEnd()) return true;
  GetVector(r, kMaxItems, &unserved_ms);
  return r->AtEnd() && !unserved_ms.empty();
}

void EncodeLookup(uint64_t reader, std::span<const uint64_t> exclude, std::span<const Key> keys,
                  FrameWriter* w) {
  w->Put(reader);
  PutVector(exclude, w);
  PutVector(keys, w);
}
bool LookupRequest::Decode(FrameReader* r) {
  reader = r->Get<uint64_t>();
  GetVector(r, kMaxMembers, &exclude);
  GetVector(r, kMaxItems, &keys);
  return r->AtEnd();
}
void EncodeRecords(std::span<const Record> records, std::span<const OtherRecord> others,
                   FrameWriter* w) {
  PutVector(records, w);
  if (!others.empty()) PutVector(others, w);
}
bool DecodeRecords(FrameReader* r, std::vector<Record>* records, std::vector<OtherRecord>* others) {
  GetVector(r, kMaxItems, records);
  others->clear();
  if (r->AtEnd()) return true;
  GetVector(r, kMaxItems * kMaxOtherRecords, others);
  return r->AtEnd() && !others->empty() &&
         std::ranges::all_of(
             *others, [&](const OtherRecord& other) { return other.index < records->size(); });
}

void DirectoryOk::Encode(FrameWriter* w) const {
  w->Put(instance);
  w->Put(offset);
  w->Put(buckets);
  PutVector(std::span(owners), w);
}
bool DirectoryOk::Decode(FrameReader* r) {
  instance = r->Get<uint64_t>();
  offset = r->Get<uint64_t>();
  buckets = r->Get<uint64_t>();
  GetVector(r, UINT16_MAX, &owners);
  return r->AtEnd() && (buckets & (buckets - 1)) == 0;
}

bool OwnerRequest::Decode(MessageType type, FrameReader* r) {
  stamp = r->Get<OwnerStamp>();
  publish.clear();
  withdraw.clear();
  if (type == MessageType::kPublish) GetVector(r, kMaxItems, &publish);
  if (type == MessageType::kWithdraw) GetVector(r, kMaxItems, &withdraw);
  return r->AtEnd();
}
void EncodeContact(const OwnerStamp& stamp, FrameWriter* w) { w->Put(stamp); }
void EncodePublish(const OwnerStamp& stamp, std::span<const PublishItem> items, FrameWriter* w) {
  w->Put(stamp);
  PutVector(items, w);
}
void EncodeWithdraw(const OwnerStamp& stamp, std::span<const WithdrawItem> items, FrameWriter* w) {
  w->Put(stamp);
  PutVector(items, w);
}

bool ReadRequest::Decode(FrameReader* r) {
  incarnation = r->Get<uint64_t>();
  GetVector(r, kMaxItems, &items);
  return r->AtEnd();
}
void EncodeRead(uint64_t incarnation, std::span<const ReadItem> items, FrameWriter* w) {
  w->Put(incarnation);
  PutVector(items, w);
}
void EncodeReadOk(std::span<const uint32_t> lengths, FrameWriter* w) { PutVector(lengths, w); }
bool DecodeReadOk(FrameReader* r, std::vector<uint32_t>* lengths) {
  GetVector(r, kMaxItems, lengths);
  return r->AtEnd();
}

void FetchAnswer::Encode(FrameWriter* w) const {
  w->Put(incarnation);
  PutVector(std::span<const FetchPlace>(places), w);
}
bool FetchAnswer::Decode(FrameReader* r) {
  incarnation = r->Get<uint64_t>();
  GetVector(r, kMaxItems, &places);
  return r->AtEnd() && std::ranges::all_of(places, [](const FetchPlace& place) {
           return place.state <= kFetchHere;
         });
}

bool OfferRequest::Decode(FrameReader* r) {
  from = r->Get<uint64_t>();
  batch = r->Get<uint64_t>();
  GetVector(r, kMaxOffered, &items);
  uint64_t bytes = 0;  // of all but the last
  for (size_t i = 0; i + 1 < items.size(); ++i) bytes += items[i].length;
  return r->AtEnd() && bytes < kMaxOfferedBytes;
}
void EncodeOffer(uint64_t from, uint64_t batch, std::span<const OfferItem> items, FrameWriter* w) {
  w->Put(from);
  w->Put(batch);
  PutVector(items, w);
}
void OfferAnswer::Encode(FrameWriter* w) const {
  w->Put(room);
  w->Put(done);
  PutVector(std::span<const uint8_t>(outcomes), w);
}
bool OfferAnswer::Decode(FrameReader* r) {
  room = r->Get<uint64_t>();
  done = r->Get<uint8_t>();
  GetVector(r, kMaxOffered, &outcomes);
  return r->AtEnd() && done <= 1 &&
         std::ranges::all_of(outcomes, [](uint8_t o) { return o <= kNoRoom; });
}

void LeaveRequest::Encode(FrameWriter* w) const {
  w->PutString(id);
  w->Put(incarnation);
}
bool LeaveRequest::Decode(FrameReader* r) {
  id = r->GetName(kMaxMemberIdBytes);
  incarnation = r->Get<uint64_t>();
  return r->AtEnd();
}

void AttachRequest::Encode(FrameWriter* w) const {
  w->Put(session);
  w->PutString(engine);
  w->PutString(version);
}
bool AttachRequest::Decode(FrameReader* r) {
  session = r->Get<uint64_t>();
  engine = r->GetText(kMaxIdBytes);
  version = r->GetText(kMaxIdBytes);
  return r->AtEnd();
}
void AttachOk::Encode(FrameWriter* w) const {
  w->Put(session);
  w->PutString(node);
  w->PutString(version);
}
bool AttachOk::Decode(FrameReader* r) {
  session = r->Get<uint64_t>();
  node = r->GetText(kMaxMemberIdBytes);
  version = r->GetText(kMaxIdBytes);
  return r->AtEnd();
}
void RegionRequest::Encode(FrameWriter* w) const {
  w->Put(region);
  w->Put(offset);
  w->Put(length);
}
bool RegionRequest::Decode(FrameReader* r) {
  region = r->Get<uint32_t>();
  offset = r->Get<uint64_t>();
  length = r->Get<uint64_t>();
  return r->AtEnd();
}

void DmaBufOk::Encode(FrameWriter* w) const {
  w->Put(rdma);
  w->Put(copies);
  w->PutString(std::string_view(missing).substr(0, kMaxMissingBytes));
}
bool DmaBufOk::Decode(FrameReader* r) {
  rdma = r->Get<uint8_t>();
  copies = r->Get<uint8_t>();
  missing = r->GetText(kMaxMissingBytes);
  return r->AtEnd() && rdma <= 1 && copies <= 1;
}

void EncodePages(uint64_t tag, uint32_t segments_per_page, std::span<const Key> keys,
                 std::span<const WireSegment> segments, FrameWriter* w) {
  w->Put(tag);
  w->Put(segments_per_page);
  PutVector(keys, w);
  w->PutSpan(segments);
}
bool PagesRequest::Decode(FrameReader* r) {
  tag = r->Get<uint64_t>();
  segments_per_page = r->Get<uint32_t>();
  GetVector(r, kMaxItems, &keys);
  if (segments_per_page == 0 || segments_per_page > kMaxSegmentsPerPage) return false;
  const uint64_t count = uint64_t{segments_per_page} * keys.size();
  if (count * sizeof(WireSegment) > kMaxBody) return false;
  r->GetInto(static_cast<uint32_t>(count), &segments);
  return r->AtEnd() && segments.size() == count;
}
void EncodeKeys(std::span<const Key> keys, FrameWriter* w) { PutVector(keys, w); }
bool DecodeKeys(FrameReader* r, std::vector<Key>* keys) {
  GetVector(r, kMaxItems, keys);
  return r->AtEnd();
}
void EncodeFlags(std::span<const uint8_t> flags, FrameWriter* w) { PutVector(flags, w); }
bool DecodeFlags(FrameReader* r, std::vector<uint8_t>* flags) {
  GetVector(r, kMaxItems, flags);
  return r->AtEnd() && std::ranges::all_of(*flags, [](uint8_t flag) { return flag <= 1; });
}

}  // namespace peercache
