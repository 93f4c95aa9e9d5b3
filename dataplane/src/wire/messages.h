// Messages: what travels inside frames. Encode appends to a started FrameWriter; Decode fails with
// false on anything malformed (short, long, over a bound), never worse.
//
// Vectors in messages are reused by their owners, so that steady traffic does not allocate.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/key.h"
#include "base/status.h"
#include "wire/clears.h"
#include "wire/frame.h"
#include "wire/member.h"
#include "wire/record.h"

namespace peercache {

struct ErrorMessage {
  Status status;
  void Encode(FrameWriter* w) const;
  bool Decode(FrameReader* r);
};

// ---- connection set-up between nodes -----------------------------------------------------------
// Where nodes share a secret, Hello is answered by Challenge, and Challenge by Prove, on which
// ProveOk follows (transport/peer_key.h). Else by HelloOk.
using Nonce = std::array<uint8_t, 32>;
using Proof = std::array<uint8_t, 32>;

struct Hello {
  std::string cluster;  // nodes of different clusters refuse each other
  // With a key: what the caller has dialled, as the member there says its address is. Empty: an
  // address of discovery, and nothing but membership is asked for. Empty without a key.
  std::string to;
  uint64_t node = 0;
  uint64_t incarnation = 0;
  uint32_t machine = 0;  // FrameHeader::number; not part of the body
  uint64_t key = 0;      // PeerKey::id; 0: the caller has no secret
  Nonce nonce{};         // only with a key
  void Encode(FrameWriter* w) const;
  bool Decode(FrameReader* r);
};
struct Challenge {
  uint64_t node = 0;
  uint64_t incarnation = 0;
  uint32_t machine = 0;  // FrameHeader::number; not part of the body
  Nonce nonce{};
  Proof proof{};  // that the answering node has the key
  void Encode(FrameWriter* w) const;
  bool Decode(FrameReader* r);
};
struct ProveMessage {
  Proof proof{};  // that the caller has it
  void Encode(FrameWriter* w) const;
  bool Decode(FrameReader* r);
};
struct HelloOk {
  uint64_t node = 0;
  uint64_t incarnation = 0;
  uint32_t machine = 0;  // FrameHeader::number; not part of the body
  void Encode(FrameWriter* w) const;
  bool Decode(FrameReader* r);
};

// ---- directory ---------------------------------------------------------------------------------
// Every answer of a shard to an owner.
struct ShardAnswer {
  int64_t stamp = 0;  // these two: ShardVoice
  uint64_t instance = 0;
  Code code = Code::kOk;          // e.g. kAborted: a newer (incarnation, epoch) is known
  std::vector<uint8_t> outcomes;  // PublishOutcome per item; Publish only
  // Of ContactOk, for owners that say kHearsClears. Older releases say nothing of clears.
  std::optional<ClearsVoice> clears{};
  void Encode(FrameWriter* w) const;
  bool Decode(FrameReader* r);

 protected:
  bool DecodeStart(FrameReader* r);  // without clears
};
// Of WithdrawOk, for owners that say kHearsServed. Older releases, and a shard that refuses, say
// nothing of the records.
struct WithdrawAnswer : ShardAnswer {
  std::vector<uint32_t> unserved_ms;  // for each item: Shard::Withdraw
  void Encode(FrameWriter* w) const;
  bool Decode(FrameReader* r);
  // For how long, at least, item i of `items` was not served. 0: it does not say.
  uint32_t UnservedMillis(size_t i, size_t items) const {
    return unserved_ms.size() == items ? unserved_ms[i] : 0;
  }
};
struct LookupRequest {
  uint64_t reader = 0;
  std::vector<uint64_t> exclude;
  std::vector<Key> keys;
  bool Decode(FrameReader* r);
};
void EncodeLookup(uint64_t reader, std::span<const uint64_t> exclude, std::span<const Key> keys,
                  FrameWriter* w);
// One record per key, node 0 for none. `others`: further holders, only for readers whose Lookup
// says that they choose themselves (FrameHeader::kChooses).
void EncodeRecords(std::span<const Record> records, std::span<const OtherRecord> others,
                   FrameWriter* w);
bool DecodeRecords(FrameReader* r, std::vector<Record>* records, std::vector<OtherRecord>* others);

// Answers Directory, a request without body: where the buckets of the shard are
// (directory/buckets.h) and whose records they may be searched for.
struct DirectoryOk {
  uint64_t instance = 0;  // seed of the buckets' checksums
  uint64_t offset = 0;    // of the first bucket, in what Connect says of the pool
  uint64_t buckets = 0;   // a power of two; 0: there are none, this shard is asked for records
  std::vector<ServedOwner> owners;
  void Encode(FrameWriter* w) const;
  bool Decode(FrameReader* r);
};

struct OwnerRequest {  // Contact, Publish or Withdraw
  OwnerStamp stamp;
  std::vector<PublishItem> publish;
  std::vector<WithdrawItem> withdraw;
  bool Decode(MessageType type, FrameReader* r);
};
void EncodeContact(const OwnerStamp& stamp, FrameWriter* w);
void EncodePublish(const OwnerStamp& stamp, std::span<const PublishItem> items, FrameWriter* w);
void EncodeWithdraw(const OwnerStamp& stamp, std::span<const WithdrawItem> items, FrameWriter* w);

// ---- page reads --------------------------------------------------------------------------------
struct ReadItem {
  uint64_t offset = 0, generation = 0;
  uint32_t length = 0, reserved = 0;
  Key key;
};
static_assert(sizeof(ReadItem) == 56);
struct ReadRequest {
  uint64_t incarnation = 0;  // of the holder, from the record
  std::vector<ReadItem> items;
  bool Decode(FrameReader* r);
};
void EncodeRead(uint64_t incarnation, std::span<const ReadItem> items, FrameWriter* w);
// lengths[i] = 0: absent; else the payload holds that many bytes of page i, in order of i.
void EncodeReadOk(std::span<const uint32_t> lengths, FrameWriter* w);
bool DecodeReadOk(FrameReader* r, std::vector<uint32_t>* lengths);

// ---- pages on a peer's disk ---------------------------------------------------------------------
// A reader that has a record of the tier kDisk asks its holder for where the pages are in its pool;
// the request is EncodeKeys. The holder begins to bring those there that are on disk, and waits for
// none: the reader asks again for what is coming.
enum FetchState : uint32_t {
  kFetchAbsent = 0,  // it does not have the page, or no room for it
  kFetchComing = 1,
  kFetchHere = 2,  // to be read there, for a lease from when it was asked
};
struct FetchPlace {
  uint64_t offset = 0, generation = 0;
  uint32_t length = 0;
  uint32_t state = kFetchAbsent;
};
static_assert(sizeof(FetchPlace) == 24);
struct FetchAnswer {
  uint64_t incarnation = 0;  // of the holder
  std::vector<FetchPlace> places;
  void Encode(FrameWriter* w) const;
  bool Decode(FrameReader* r);
};

// ---- pages of a node that leaves ---------------------------------------------------------------
// The node offers pages, and its peer takes over what it has room for: it looks them up, reads them
// and sets them as any reader and any setter would. That takes longer than an answer may, so the
// same offer is made again until its answer is done.
struct OfferItem {
  Key key;
  uint64_t tag = 0;
  uint32_t length = 0;
  uint32_t heat = 0;  // pool/heat.h
};
static_assert(sizeof(OfferItem) == 48);
struct OfferRequest {
  uint64_t from = 0;
  uint64_t batch = 0;            // never used for other pages by this node, in all its lives
  std::vector<OfferItem> items;  // none: how much room is there?
  bool Decode(FrameReader* r);
};
void EncodeOffer(uint64_t from, uint64_t batch, std::span<const OfferItem> items, FrameWriter* w);
enum OfferOutcome : uint8_t {
  kNotTaken = 0,  // could not be read, or not be published
  kTaken = 1,     // readers find it at the peer from now on
  kNoRoom = 2,    // not without something going that is read as often
};
struct OfferAnswer {
  uint64_t room = 0;              // bytes that nothing has to go for
  uint8_t done = 0;               // 1: nothing is under way any more
  std::vector<uint8_t> outcomes;  // OfferOutcome per item, when done
  void Encode(FrameWriter* w) const;
  bool Decode(FrameReader* r);
};

// ---- membership --------------------------------------------------------------------------------
struct WireListedMember {
  Member member;
  int64_t age_ns = 0;
};
// The first `most` entries of each of the member's lists.
void EncodeMember(const Member& member, size_t most, FrameWriter* w);
// False for a member whose lists are longer than `most`.
bool DecodeMember(FrameReader* r, size_t most, Member* member);
struct MemberListMessage {
  // Entries of all lists that EncodeOnce says whole: 2 MiB.
  static constexpr size_t kMostWhole = size_t{256} << 10;

  uint8_t warming = 0;
  std::vector<WireListedMember> members;
  // As older releases read it: each member with its lists, cut to kMostListedBefore.
  void Encode(FrameWriter* w) const;
  bool Decode(FrameReader* r);
  // Says each list once, however many members have it. Lists that do not fit into kMostWhole are
  // cut to kMostListedBefore, so any answer has a bound.
  void EncodeOnce(FrameWriter* w) const;
  bool DecodeOnce(FrameReader* r);
};
struct LeaveRequest {
  std::string id;
  uint64_t incarnation = 0;
  void Encode(FrameWriter* w) const;
  bool Decode(FrameReader* r);
};

// ---- engine sessions ---------------------------------------------------------------------------
// The connections of one engine share a session: the first Attach (session = 0) makes it, the
// others name it. It ends with its last connection.
struct AttachRequest {
  uint64_t session = 0;
  std::string engine;
  std::string version;
  void Encode(FrameWriter* w) const;
  bool Decode(FrameReader* r);
};
struct AttachOk {
  uint64_t session = 0;
  std::string node;
  std::string version;
  void Encode(FrameWriter* w) const;
  bool Decode(FrameReader* r);
};
struct RegionRequest {  // travels with one file descriptor
  uint32_t region = 0;
  uint64_t offset = 0, length = 0;
  void Encode(FrameWriter* w) const;
  bool Decode(FrameReader* r);
};
// Device memory to share, as a region: DmaBuf has the form of a RegionRequest, whose length is not
// 0, and travels with the descriptor of a dma-buf. So has DevicePointer, which comes without a
// descriptor: its offset is an address of the process that both the engine and the node are in.
struct DmaBufOk {
  // Which ways lead there: READs of the rails, copies by the node. One of them does.
  uint8_t rdma = 0, copies = 0;
  std::string missing;  // why the other does not, and what would change that
  void Encode(FrameWriter* w) const;
  bool Decode(FrameReader* r);
};
struct WireSegment {
  uint64_t offset = 0;  // in the region
  uint32_t region = 0;
  uint32_t length = 0;
};
static_assert(sizeof(WireSegment) == 16);
struct PagesRequest {  // Set and Get
  uint64_t tag = 0;    // Set only
  uint32_t segments_per_page = 0;
  std::vector<Key> keys;
  std::vector<WireSegment> segments;  // keys.size() * segments_per_page
  bool Decode(FrameReader* r);
};
void EncodePages(uint64_t tag, uint32_t segments_per_page, std::span<const Key> keys,
                 std::span<const WireSegment> segments, FrameWriter* w);
// Exists and Presence. The first is answered by the length of the leading run of keys that can be
// read, the second by a flag for each key.
void EncodeKeys(std::span<const Key> keys, FrameWriter* w);
bool DecodeKeys(FrameReader* r, std::vector<Key>* keys);
// One per page or key, each 0 or 1.
void EncodeFlags(std::span<const uint8_t> flags, FrameWriter* w);
bool DecodeFlags(FrameReader* r, std::vector<uint8_t>* flags);

inline constexpr uint32_t kMaxSegmentsPerPage = 1024;
inline constexpr size_t kMaxIdBytes = 128;
// Of a member's id, MACHINE.GROUP, for which Kubernetes allows 253 and 63 characters.
inline constexpr size_t kMaxMemberIdBytes = 320;
// Of Hello::to. Older releases had their token in its place.
inline constexpr size_t kMaxToBytes = 4096;
inline constexpr size_t kMaxMissingBytes = 1024;
// Of one offer: pages, and bytes of all but its last page.
inline constexpr uint32_t kMaxOffered = 1024;
inline constexpr uint64_t kMaxOfferedBytes = 32 << 20;

}  // namespace peercache
