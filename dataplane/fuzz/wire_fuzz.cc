// The wire: frames out of a stream, and every message out of a frame.
//
// The first byte of the input chooses. Streams: the rest is a script of chunks, sent over a socket
// pair with or without descriptors; what ReceiveFrame makes of them is compared with the plain
// definition of a frame. Messages: the rest is a body; what can be decoded can be encoded again,
// to the same bytes.

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fuzz.h"
#include "wire/fabric.h"
#include "wire/heartbeat.h"
#include "wire/messages.h"
#include "wire/stream.h"

namespace peercache::fuzz {
namespace {

Reached accepted("messages decoded"), refused("messages refused");
Reached received("frames received"), cut("streams cut off"), with("frames with descriptor"),
    several("several descriptors refused");

// ---- messages ----------------------------------------------------------------------------------

// Decodes, and on success encodes again.
using RoundTrip = bool (*)(FrameReader* r, FrameWriter* w);

template <typename T>
bool Whole(FrameReader* r, FrameWriter* w) {
  T message;
  if (!message.Decode(r)) return false;
  message.Encode(w);
  return true;
}

template <typename T, bool (*Decode)(FrameReader*, std::vector<T>*),
          void (*Encode)(std::span<const T>, FrameWriter*)>
bool List(FrameReader* r, FrameWriter* w) {
  std::vector<T> items;
  if (!Decode(r, &items)) return false;
  Encode(items, w);
  return true;
}

template <MessageType kType>
bool Owner(FrameReader* r, FrameWriter* w) {
  OwnerRequest request;
  if (!request.Decode(kType, r)) return false;
  if (kType == MessageType::kContact) EncodeContact(request.stamp, w);
  if (kType == MessageType::kPublish) EncodePublish(request.stamp, request.publish, w);
  if (kType == MessageType::kWithdraw) EncodeWithdraw(request.stamp, request.withdraw, w);
  return true;
}

bool Lookup(FrameReader* r, FrameWriter* w) {
  LookupRequest request;
  if (!request.Decode(r)) return false;
  EncodeLookup(request.reader, request.exclude, request.keys, w);
  return true;
}

bool LookupOk(FrameReader* r, FrameWriter* w) {
  std::vector<Record> records;
  std::vector<OtherRecord> others;
  if (!DecodeRecords(r, &records, &others)) return false;
  for (const OtherRecord& other : others) Require(other.index < records.size(), "of a key");
  EncodeRecords(records, others, w);
  return true;
}

bool Read(FrameReader* r, FrameWriter* w) {
  ReadRequest request;
  if (!request.Decode(r)) return false;
  EncodeRead(request.incarnation, request.items, w);
  return true;
}

bool Offer(FrameReader* r, FrameWriter* w) {
  OfferRequest offer;
  if (!offer.Decode(r)) return false;
  EncodeOffer(offer.from, offer.batch, offer.items, w);
  return true;
}

bool Pages(FrameReader* r, FrameWriter* w) {
  PagesRequest request;
  if (!request.Decode(r)) return false;
  Require(request.segments.size() == request.keys.size() * request.segments_per_page,
          "every page has its segments");
  EncodePages(request.tag, request.segments_per_page, request.keys, request.segments, w);
  return true;
}

// With what this release says at its end, or of an older one, without.
bool AnyHeartbeat(FrameReader* r, FrameWriter* w) {
  size_t size = sizeof(FrameHeader);
  for (FrameReader bytes = *r; !bytes.AtEnd(); ++size) bytes.Get<uint8_t>();
  Heartbeat heartbeat;
  if (!heartbeat.Decode(r)) return false;
  heartbeat.Encode(w);
  if (w->bytes().size() == size) return true;
  w->Start(MessageType::kHeartbeat, 1);
  heartbeat.Encode(w, FrameHeader::kHearsCrowds);
  return true;
}

// A list may be said in vain, or twice: what is encoded again means the same in fewer bytes.
bool SaidOnce(FrameReader* r, FrameWriter* w) {
  const FrameReader body = *r;
  MemberListMessage list, again;
  if (!list.DecodeOnce(r)) return false;
  FrameWriter encoded;
  encoded.Start(MessageType::kHeartbeatOk, 1);
  list.EncodeOnce(&encoded);
  FrameReader reader(encoded.Finish().subspan(sizeof(FrameHeader)));
  Require(again.DecodeOnce(&reader) && again.warming == list.warming, "what was encoded");
  Require(std::ranges::equal(again.members, list.members,
                             [](const WireListedMember& a, const WireListedMember& b) {
                               return a.age_ns == b.age_ns && a.member.id == b.member.id &&
                                      a.member.state == b.member.state &&
                                      a.member.synced == b.member.synced &&
                                      a.member.unreachable == b.member.unreachable;
                             }),
          "what was encoded means the same");
  for (FrameReader bytes = body; !bytes.AtEnd();) w->Put(bytes.Get<uint8_t>());
  return true;
}

// In the order of the seeds of make_corpus.cc.
constexpr RoundTrip kMessages[] = {
    Whole<ErrorMessage>,
    Whole<Hello>,
    Whole<HelloOk>,
    Whole<ShardAnswer>,
    Lookup,
    LookupOk,
    Owner<MessageType::kContact>,
    Owner<MessageType::kPublish>,
    Owner<MessageType::kWithdraw>,
    Read,
    List<uint32_t, DecodeReadOk, EncodeReadOk>,
    AnyHeartbeat,
    Whole<MemberListMessage>,
    Whole<LeaveRequest>,
    Whole<AttachRequest>,
    Whole<AttachOk>,
    Whole<RegionRequest>,
    Pages,
    List<Key, DecodeKeys, EncodeKeys>,
    List<uint8_t, DecodeFlags, EncodeFlags>,
    Whole<ConnectRequest>,
    Whole<ConnectOk>,
    Whole<ConnectOk>,  // connect-later
    Offer,
    Whole<OfferAnswer>,
    Whole<DmaBufOk>,
    Whole<DirectoryOk>,
    Whole<ShardAnswer>,  // contact-ok
    Whole<ClearsMessage>,
    Whole<ClearsAnswer>,
    Whole<Hello>,  // hello-key
    Whole<Hello>,  // hello-members
    Whole<Challenge>,
    Whole<ProveMessage>,
    SaidOnce,
    Whole<WithdrawAnswer>,
    List<Key, DecodeKeys, EncodeKeys>,  // fetch
    Whole<FetchAnswer>,
};

std::vector<std::byte> Encoded(RoundTrip message, ConstBytes body, bool* decoded) {
  FrameReader r(body);
  FrameWriter w;
  w.Start(MessageType::kError, 1);
  *decoded = message(&r, &w);
  const auto frame = w.Finish();
  return {frame.begin() + sizeof(FrameHeader), frame.end()};
}

void FuzzMessage(uint8_t which, Input body) {
  const RoundTrip message = kMessages[which % std::size(kMessages)];
  // A copy of its own, so that the sanitizer sees every byte too far.
  const std::vector<uint8_t> exact(body.begin(), body.end());
  bool decoded = false;
  const auto once = Encoded(message, AsBytes(exact), &decoded);
  (decoded ? accepted : refused).Hit();
  if (!decoded) return;
  Require(once.size() == exact.size(), "a message is encoded in as many bytes as it was decoded");
  bool again = false;
  const auto twice = Encoded(message, once, &again);
  Require(again, "what was encoded can be decoded");
  Require(once == twice, "what was encoded means the same");
}

// ---- streams -----------------------------------------------------------------------------------

// What a stream means: frames up to the first thing that is none.
struct Expected {
  std::vector<ConstBytes> bodies;
  bool clean_end = false;  // nothing is left over
};
Expected Parse(ConstBytes stream, uint32_t max_body) {
  Expected expected;
  while (stream.size() >= sizeof(FrameHeader)) {
    FrameHeader header;
    std::memcpy(&header, stream.data(), sizeof(header));
    if (!CheckHeader(header).ok() || header.payload_length != 0) return expected;
    if (header.body_length > max_body) return expected;
    if (stream.size() - sizeof(header) < header.body_length) return expected;
    expected.bodies.push_back(stream.subspan(sizeof(header), header.body_length));
    stream = stream.subspan(sizeof(header) + header.body_length);
  }
  expected.clean_end = stream.empty();
  return expected;
}

// Chunks up to what a socket buffers, so that one thread can be both sides.
constexpr size_t kMaxStream = 64 << 10;

// False when the socket is full, which a few hundred chunks of any size make it.
bool SendChunk(int socket, ConstBytes bytes, int descriptors) {
  iovec iov{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 8)] = {};
  msghdr message{};
  message.msg_iov = &iov;
  message.msg_iovlen = 1;
  if (descriptors > 0) {
    const std::vector<int> fds(static_cast<size_t>(descriptors), STDERR_FILENO);
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(c), fds.data(), sizeof(int) * fds.size());
  }
  const ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  if (sent < 0 && errno == EAGAIN) return false;
  Require(sent == static_cast<ssize_t>(bytes.size()), "the chunk fits the socket");
  return true;
}

// The next descriptor this process would get: grows when one is leaked.
int NextDescriptor() {
  const int fd = dup(STDERR_FILENO);
  close(fd);
  return fd;
}

void FuzzStream(Input input) {
  const int before = NextDescriptor();
  {
    int ends[2];
    Require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0, "pair");
    UniqueFd sender(ends[0]), receiver(ends[1]);
    std::vector<uint8_t> stream;
    bool plain = true;  // no descriptor
    Script script(input);
    for (Step step; script.Next(&step);) {
      if (step.bytes.empty() || stream.size() + step.bytes.size() > kMaxStream) continue;
      const int descriptors = step.operation % 4 == 0 ? step.argument % 4 : 0;
      if (!SendChunk(sender.get(), AsBytes(step.bytes), descriptors)) break;
      plain &= descriptors == 0;
      stream.insert(stream.end(), step.bytes.begin(), step.bytes.end());
    }
    sender.Reset();
    const uint32_t max_body = input.size() % 2 == 0 ? kMaxBody : 64;
    const Expected expected = Parse(AsBytes(stream), max_body);
    ReceivedFrame frame;
    size_t frames = 0;
    Status s;
    while ((s = ReceiveFrame(receiver.get(), Clock::now(), &frame, max_body)).ok()) {
      Require(frames < expected.bodies.size(), "no more frames than were sent");
      Require(std::ranges::equal(frame.body, expected.bodies[frames]), "the body that was sent");
      ++frames;
      received.Hit();
      if (frame.fd) {
        with.Hit();
        Require((fcntl(frame.fd.get(), F_GETFD) & FD_CLOEXEC) != 0, "descriptors close on exec");
      }
    }
    if (plain) Require(frames == expected.bodies.size(), "every whole frame arrives");
    if (plain && expected.clean_end) Require(s.code() == Code::kUnavailable, "the end is the end");
    if (plain && !expected.clean_end) cut.Hit();
    if (!plain && s.message().find("more than one file descriptor") != std::string::npos) {
      several.Hit();
    }
    Require(s.code() != Code::kDeadlineExceeded, "everything was there");
  }
  Require(NextDescriptor() == before, "no descriptor is leaked");
}

}  // namespace
}  // namespace peercache::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace peercache::fuzz;
  SetUp();
  const Input input(data, size);
  if (input.empty()) return 0;
  if (input[0] == 0xff) {
    FuzzStream(input.subspan(1));
  } else {
    FuzzMessage(input[0], input.subspan(1));
  }
  return 0;
}
