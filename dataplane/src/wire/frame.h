// Frame: the one envelope of every PeerCache connection, between nodes (TCP) and between engine and
// node (Unix socket). Little-endian, flat, bounded:
//
//   FrameHeader (32 bytes) | body (at most kMaxBody) | payload (page bytes; only after ReadOk)
//
// Requests of one connection are answered in order and carry the request's id, so a connection can
// be pipelined. A malformed frame is answered with Error and the connection is closed.
//
// FrameWriter appends flat values to a reusable buffer; FrameReader takes them out again and turns
// every overrun into !ok() instead of undefined behaviour.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/status.h"

namespace peercache {

static_assert(std::endian::native == std::endian::little,
              "the wire is little-endian and structs travel as they are in memory");

enum class MessageType : uint8_t {
  kError = 1,
  kHello = 2,
  kHelloOk = 3,
  kChallenge = 5,  // answers a Hello that names a key
  kProve = 6,
  kProveOk = 7,
  // node to node
  kLookup = 16,
  kLookupOk = 17,
  kPublish = 18,
  kPublishOk = 19,
  kWithdraw = 20,
  kWithdrawOk = 21,
  kContact = 22,
  kContactOk = 23,
  kRead = 24,
  kReadOk = 25,
  kHeartbeat = 26,
  kHeartbeatOk = 27,
  kLeave = 28,
  kLeaveOk = 29,
  kClearTag = 30,
  kClearTagOk = 31,
  kConnect = 32,
  kConnectOk = 33,
  kOffer = 34,
  kOfferOk = 35,
  kDirectory = 36,
  kDirectoryOk = 37,
  kClears = 38,
  kClearsOk = 39,
  kFetch = 40,
  kFetchOk = 41,
  // engine to node
  kAttach = 64,
  kAttachOk = 65,
  kRegion = 66,
  kRegionOk = 67,
  kSet = 68,
  kSetOk = 69,
  kGet = 70,
  kGetOk = 71,
  kExists = 72,
  kExistsOk = 73,
  kClear = 74,
  kClearOk = 75,
  kDmaBuf = 76,
  kDmaBufOk = 77,
  kDevicePointer = 78,
  kDevicePointerOk = 79,
  kPresence = 80,
  kPresenceOk = 81,
  kPrefill = 82,
  kPrefillOk = 83,
};

// Of a good answer to a request.
constexpr MessageType AnswerTo(MessageType request) {
  return static_cast<MessageType>(static_cast<uint8_t>(request) + 1);
}

struct FrameHeader {
  uint32_t magic = kMagic;
  uint8_t version = kVersion;
  MessageType type = MessageType::kError;
  // Of AttachOk: kCan... of the node. Of Lookup: kChooses. Of Contact: kHearsClears. Of Withdraw:
  // kHearsServed. Of Exists and Get: kUncounted. Of Heartbeat: kHearsCrowds. Of HeartbeatOk:
  // kHears... of the host. Of ClearsOk: kNoted. Older releases send 0, and look at none.
  uint16_t can = 0;
  uint64_t request_id = 0;
  uint32_t body_length = 0;
  // Of Hello, HelloOk and Challenge: which machine the sender runs on (base/machine.h). Of Exists
  // and Get: tokens of a page. Of Clears: ClearsMessage::view. 0: not told, as by older releases,
  // which look at it in Hello and HelloOk only.
  uint32_t number = 0;
  uint64_t payload_length = 0;

  static constexpr uint32_t kMagic = 0x31574350;  // "PCW1"
  static constexpr uint8_t kVersion = 1;
  // DmaBuf and DevicePointer. A node that does not know a message ends the session.
  static constexpr uint16_t kCanDevice = 1;
  // The reader takes all records of a key and chooses among them (node/peer/nearest.h).
  static constexpr uint16_t kChooses = 2;
  // The node takes Presence.
  static constexpr uint16_t kCanPresence = 4;
  // The node takes Prefill.
  static constexpr uint16_t kCanPrefill = 8;
  // The owner takes an answer that says which clears the shard's node knows.
  static constexpr uint16_t kHearsClears = 4;
  // The node does not count these pages: other calls count those that they belong to.
  static constexpr uint16_t kUncounted = 16;
  // The host takes heartbeats that end with the latest lookups (wire/heartbeat.h).
  static constexpr uint16_t kHearsLookups = 8;
  // The host takes lists of kMostListed entries (wire/member.h). The member takes an answer that
  // says each list once; a host that takes the former gives it.
  static constexpr uint16_t kHearsCrowds = 32;
  // The host takes heartbeats that end with what the member did (wire/activity.h).
  static constexpr uint16_t kHearsActivity = 64;
  // The host takes activities that end with the member's drives.
  static constexpr uint16_t kHearsDrives = 256;
  // The owner takes an answer that says for how long records were not served (WithdrawAnswer).
  static constexpr uint16_t kHearsServed = 128;
};
static_assert(sizeof(FrameHeader) == 32 && std::is_trivially_copyable_v<FrameHeader>);

// What an engine says of the pages of an Exists or Get, for the hit ratio (docs/hit-ratio.md).
struct Counting {
  uint32_t page_tokens = 0;  // 0: not told
  // False: part of pages that another call counts, such as a side pool's.
  bool counted = true;
  bool operator==(const Counting&) const = default;
};

inline constexpr uint32_t kMaxBody = 16u << 20;
inline constexpr uint64_t kMaxPayload = uint64_t{8} << 30;
// Keys in one Lookup, Publish, Withdraw, Read, Fetch, Set, Get, Exists or Presence; larger calls
// are split by senders.
inline constexpr uint32_t kMaxItems = 64 << 10;

// ok, or why this header cannot be the start of a frame. Says what was expected, because the usual
// cause is a foreign client on the port or a version skew.
Status CheckHeader(const FrameHeader& header);
inline Counting CountingOf(const FrameHeader& header) {
  return {header.number, (header.can & FrameHeader::kUncounted) == 0};
}

class FrameWriter {
 public:
  // Starts a new frame; the buffer is kept between frames.
  void Start(MessageType type, uint64_t request_id) {
    buffer_.resize(sizeof(FrameHeader));
    header_ = {};
    header_.type = type;
    header_.request_id = request_id;
  }
  void Can(uint16_t what) { header_.can = what; }
  void Machine(uint32_t machine) { header_.number = machine; }
  void View(uint32_t view) { header_.number = view; }
  void Count(Counting counting) {
    header_.number = counting.page_tokens;
    header_.can = counting.counted ? 0 : FrameHeader::kUncounted;
  }
  template <typename T>
  void Put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    PutBytes(&value, sizeof(value));
  }
  template <typename T>
  void PutSpan(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    PutBytes(values.data(), values.size_bytes());
  }
  void PutString(std::string_view text) {
    Put(static_cast<uint16_t>(text.size()));
    PutBytes(text.data(), text.size());
  }
  // Completes the header; the frame is bytes(). payload_length counts bytes sent after the frame.
  std::span<const std::byte> Finish(uint64_t payload_length = 0) {
    header_.body_length = static_cast<uint32_t>(buffer_.size() - sizeof(FrameHeader));
    header_.payload_length = payload_length;
    std::memcpy(buffer_.data(), &header_, sizeof(header_));
    return bytes();
  }
  std::span<const std::byte> bytes() const { return buffer_; }

 private:
  void PutBytes(const void* data, size_t size) {
    if (size == 0) return;
    const size_t at = buffer_.size();
    buffer_.resize(at + size);
    std::memcpy(buffer_.data() + at, data, size);
  }
  FrameHeader header_;
  std::vector<std::byte> buffer_;
};

class FrameReader {
 public:
  explicit FrameReader(std::span<const std::byte> body) : rest_(body) {}

  bool ok() const { return ok_; }
  // All bytes were consumed and nothing was missing: what a well-formed message ends with.
  bool AtEnd() const { return ok_ && rest_.empty(); }
  template <typename T>
  T Get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    if (auto bytes = Take(sizeof(T)); !bytes.empty()) std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  // A count that is at most `max`; anything else makes the reader !ok().
  uint32_t GetCount(uint32_t max) {
    const auto count = Get<uint32_t>();
    if (count > max) ok_ = false;
    return ok_ ? count : 0;
  }
  // Copies `count` values out; they need no alignment on the wire.
  template <typename T>
  void GetInto(uint32_t count, std::vector<T>* out) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto bytes = Take(size_t{count} * sizeof(T));
    out->resize(bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(out->data(), bytes.data(), bytes.size());
  }
  std::string GetString(size_t max) {
    const auto size = Get<uint16_t>();
    if (size > max) ok_ = false;
    const auto bytes = Take(size);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  // A string that identifies something: printable ASCII without spaces, or the reader is !ok().
  // Names go into logs, JSON and metrics of others.
  std::string GetName(size_t max) {
    std::string name = GetString(max);
    for (const char c : name) ok_ = ok_ && c > ' ' && c < 0x7f;
    return name;
  }
  // A string that people read: everything but printable ASCII becomes '?'.
  std::string GetText(size_t max) {
    std::string text = GetString(max);
    for (char& c : text) c = c >= ' ' && c < 0x7f ? c : '?';
    return text;
  }

 private:
  std::span<const std::byte> Take(size_t size) {
    if (!ok_ || size > rest_.size()) {
      ok_ = false;
      return {};
    }
    const auto bytes = rest_.first(size);
    rest_ = rest_.subspan(size);
    return bytes;
  }
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

}  // namespace peercache
