// Writes the seeds: make_corpus DIR fills DIR/TARGET/seed-NAME with valid conversations, and with
// some that are almost valid. Seeds are what a fuzzer starts from: it cannot guess a magic number,
// a length or an order of messages, but it is good at breaking them.
//
// The build writes them into its own folder: a seed of yesterday's messages tests nothing today.

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>

#include "corpus.h"
#include "directory/buckets.h"
#include "fuzz.h"
#include "samples.h"

namespace peercache::fuzz {
namespace {

// Seeds by their path in the corpus.
std::map<std::filesystem::path, Blob> seeds;

// ---- wire ------------------------------------------------------------------------------------

void WireSeeds() {
  for (uint8_t i = 0; i < Samples().size(); ++i) {
    Seed("wire", Samples()[i].name, With(i, BodyOf(Samples()[i])));
  }
  // A count beyond what follows, a name with a space, a flag that is none.
  const auto damaged = [](const char* what, const char* name, size_t at, uint8_t value) {
    const auto decoder = static_cast<uint8_t>(&Named(name) - Samples().data());
    Blob body = BodyOf(Named(name));
    body.at(at) = value;
    Seed("wire", what, With(decoder, body));
  };
  damaged("bad-count", "exists", 0, 255);
  damaged("bad-name", "leave", 3, ' ');
  damaged("bad-flag", "flags", 4, 2);
  const Blob frame = FrameOf(Named("attach"));
  const Blob half(frame.begin(), frame.begin() + 40), rest(frame.begin() + 40, frame.end());
  const uint8_t kStream = 0xff, kWithDescriptors = 0, kPlain = 1;
  Seed("wire", "stream-two",
       With(kStream, Steps().Add(kPlain, 0, frame).Add(kPlain, 0, frame).bytes));
  Seed("wire", "stream-pieces",
       With(kStream, Steps().Add(kPlain, 0, half).Add(kPlain, 0, rest).bytes));
  Seed("wire", "stream-cut", With(kStream, Steps().Add(kPlain, 0, half).bytes));
  Seed("wire", "stream-descriptor",
       With(kStream, Steps().Add(kWithDescriptors, 1, frame).Add(kPlain, 0, frame).bytes));
  Seed("wire", "stream-descriptors", With(kStream, Steps().Add(kWithDescriptors, 3, frame).bytes));
  Seed("wire", "stream-two-descriptors",
       With(kStream, Steps().Add(kWithDescriptors, 1, half).Add(kWithDescriptors, 1, rest).bytes));
  Seed("wire", "stream-foreign",
       With(kStream,
            Steps().Add(kPlain, 0, Text("GET / HTTP/1.1\r\nHost: somebody else\r\n\r\n")).bytes));
}

// ---- peers -----------------------------------------------------------------------------------

void PeerSeeds() {
  const MessageType kRequests[] = {
      MessageType::kLookup, MessageType::kContact,   MessageType::kPublish, MessageType::kWithdraw,
      MessageType::kRead,   MessageType::kHeartbeat, MessageType::kLeave,   MessageType::kClearTag,
      MessageType::kOffer,  MessageType::kDirectory, MessageType::kClears,  MessageType::kFetch};
  const uint8_t kValid = 1;
  Steps all;
  all.Add(Of(MessageType::kHello), kValid);
  for (const MessageType type : kRequests) all.Add(Of(type), kValid);
  Seed("peer_requests", "all", all.bytes);
  Seed("peer_requests", "publish-and-find",
       Steps()
           .Add(Of(MessageType::kPublish), kValid)
           .Add(Of(MessageType::kContact), kValid)
           .Add(Of(MessageType::kLookup), kValid)
           .Add(Of(MessageType::kWithdraw), kValid)
           .Add(Of(MessageType::kLookup), kValid)
           .bytes);
  Seed("peer_requests", "clears",
       Steps()
           .Add(Of(MessageType::kClearTag), kValid)
           .Add(Of(MessageType::kClears), kValid)
           .Add(Of(MessageType::kContact), kValid | FrameHeader::kHearsClears)
           .Add(Of(MessageType::kClears), 0, BodyOf(Named("clears")))
           .bytes);
  Seed("peer_requests", "withdrawn",
       Steps()
           .Add(Of(MessageType::kPublish), kValid)
           .Add(Of(MessageType::kContact), kValid)
           .Add(Of(MessageType::kLookup), kValid)
           .Add(Of(MessageType::kWithdraw), kValid | FrameHeader::kHearsServed)
           .bytes);
  Seed("peer_requests", "members",
       Steps()
           .Add(Of(MessageType::kHeartbeat), kValid)
           .Add(Of(MessageType::kLeave), kValid)
           .Add(Of(MessageType::kHeartbeat), kValid)
           .Add(Of(MessageType::kHeartbeat), 0, BodyOf(Named("heartbeat")))
           .bytes);
  // Another generation of the second page.
  const Blob other_generation = {12 + 56 + 8, 0, 0xff};
  Seed("peer_requests", "moved-on",
       Steps().Add(Of(MessageType::kRead), kValid, other_generation).bytes);
  for (const Sample& m : Samples()) {
    Seed("peer_requests", std::string("raw-") + m.name,
         Steps().Add(Of(m.type), 0, BodyOf(m)).bytes);
  }

  const uint8_t kRaw = 0, kBody = 1, kFrame = 2, kPause = 3;
  Steps server;
  server.Add(kFrame, Of(MessageType::kHello));
  for (const MessageType type : kRequests) server.Add(kFrame, Of(type));
  Seed("peer_server", "all", server.bytes);
  Steps slow;
  slow.Add(kFrame, Of(MessageType::kHello)).Add(kPause);
  for (const MessageType type : kRequests) slow.Add(kFrame, Of(type)).Add(kPause);
  Seed("peer_server", "one-by-one", slow.bytes);
  Seed("peer_server", "publish-and-find",
       Steps()
           .Add(kFrame, Of(MessageType::kHello))
           .Add(kFrame, Of(MessageType::kPublish))
           .Add(kPause)
           .Add(kFrame, Of(MessageType::kContact))
           .Add(kPause)
           .Add(kFrame, Of(MessageType::kLookup))
           .bytes);
  const Blob hello = FrameOf(Named("hello"));
  const Blob head(hello.begin(), hello.begin() + 20), tail(hello.begin() + 20, hello.end());
  Seed("peer_server", "pieces",
       Steps()
           .Add(kRaw, 0, head)
           .Add(kPause)
           .Add(kRaw, 0, tail)
           .Add(kFrame, Of(MessageType::kRead))
           .bytes);
  Seed("peer_server", "no-hello", Steps().Add(kFrame, Of(MessageType::kRead)).bytes);
  const auto keyed = [&](const char* greeting) {
    return Steps()
        .Add(kBody, Of(MessageType::kHello), BodyOf(Named(greeting)))
        .Add(kPause)
        .Add(kFrame, Of(MessageType::kProve));
  };
  Seed("peer_server", "secret", keyed("hello-key").Add(kFrame, Of(MessageType::kLookup)).bytes);
  Seed("peer_server", "secret-of-membership",
       keyed("hello-members").Add(kFrame, Of(MessageType::kHeartbeat)).bytes);
  Seed("peer_server", "secret-of-membership-only",
       keyed("hello-members").Add(kFrame, Of(MessageType::kLookup)).bytes);
  Seed("peer_server", "secret-too-early",
       Steps()
           .Add(kBody, Of(MessageType::kHello), BodyOf(Named("hello-key")))
           .Add(kFrame, Of(MessageType::kLookup))
           .bytes);
  const Blob other_proof = {5, 0, 'x'};
  Seed("peer_server", "secret-wrong-proof",
       Steps()
           .Add(kBody, Of(MessageType::kHello), BodyOf(Named("hello-key")))
           .Add(kPause)
           .Add(kFrame, Of(MessageType::kProve), other_proof)
           .bytes);
  Seed("peer_server", "hello-twice",
       Steps().Add(kFrame, Of(MessageType::kHello)).Add(kFrame, Of(MessageType::kHello)).bytes);
  Seed("peer_server", "large-hello",
       Steps().Add(kBody, Of(MessageType::kHello), Blob(9000, 'x')).bytes);
  Seed("peer_server", "foreign",
       Steps().Add(kRaw, 0, Text("GET / HTTP/1.1\r\nHost: x\r\n\r\n")).bytes);
  for (const Sample& m : Samples()) {
    Seed("peer_server", std::string("body-") + m.name,
         Steps().Add(kFrame, Of(MessageType::kHello)).Add(kBody, Of(m.type), BodyOf(m)).bytes);
  }
}

void PublisherSeeds() {
  const uint8_t kBody = 1, kRight = 2, kNext = 3;
  const uint8_t kPublishOk = Of(MessageType::kPublishOk), kContactOk = Of(MessageType::kContactOk),
                kWithdrawOk = Of(MessageType::kWithdrawOk), kError = Of(MessageType::kError);
  // Where an edit finds the parts of a ShardAnswer: behind the header.
  const uint8_t kIncarnation = 40, kCode = 48, kOutcomes = 53;
  const Blob all_served = {kOutcomes + 1, 0, 1, kOutcomes + 2, 0, 1};
  const auto greeted = [] { return Steps().Add(kRight, Of(MessageType::kHelloOk)); };
  Seed("publisher", "all",
       greeted()
           .Add(kRight, kPublishOk, all_served)
           .Add(kRight, kContactOk)
           .Add(kRight, kPublishOk, all_served)
           .Add(kRight, kWithdrawOk)
           .Add(kRight, kContactOk)
           .bytes);
  Seed("publisher", "stored-and-refused",
       greeted()
           .Add(kRight, kPublishOk)
           .Add(kRight, kContactOk)
           .Add(kRight, kContactOk)
           .Add(kRight, kPublishOk)
           .Add(kRight, kContactOk)
           .Add(kRight, kWithdrawOk)
           .Add(kRight, kContactOk)
           .bytes);
  Seed("publisher", "restarted",
       greeted()
           .Add(kRight, kPublishOk, all_served)
           .Add(kRight, kContactOk, Blob{kIncarnation, 0, 8})
           .Add(kRight, kPublishOk, all_served)
           .Add(kRight, kWithdrawOk)
           .bytes);
  Seed("publisher", "overtaken",
       greeted()
           .Add(kRight, kPublishOk, Blob{kCode, 0, static_cast<uint8_t>(Code::kAborted)})
           .Add(kRight, kContactOk, Blob{kCode, 0, static_cast<uint8_t>(Code::kAborted)})
           .Add(kRight, kPublishOk)
           .bytes);
  Seed("publisher", "strange-outcomes",
       greeted().Add(kRight, kPublishOk, Blob{kOutcomes, 0, 3, kOutcomes + 1, 0, 255}).bytes);
  Seed("publisher", "few-outcomes",
       greeted().Add(kBody, kPublishOk, BodyOf(Named("shard-answer"))).bytes);
  Seed("publisher", "busy", greeted().Add(kRight, kError).bytes);
  Seed("publisher", "gone-between",
       greeted()
           .Add(kRight, kPublishOk, all_served)
           .Add(kNext)
           .Add(kRight, Of(MessageType::kHelloOk))
           .Add(kRight, kContactOk)
           .Add(kNext)
           .Add(kRight, Of(MessageType::kHelloOk))
           .Add(kRight, kPublishOk, all_served)
           .bytes);
  Seed("publisher", "silent", Blob{});
}

// ---- the rest ----------------------------------------------------------------------------------

void MembershipSeeds() {
  const uint8_t kList = 0, kRightList = 1, kMerge = 2, kBeat = 3, kRightBeat = 4, kLeave = 5,
                kTable = 6;
  Steps cluster;
  for (uint8_t i = 0; i < 4; ++i) cluster.Add(kRightBeat, i);
  cluster.Add(kTable, 10).Add(kMerge, 1).Add(kLeave, 2).Add(kTable, 1).Add(kMerge, 1);
  cluster.Add(kRightBeat, 2).Add(kTable, 40).Add(kMerge, 100);
  Seed("membership", "cluster", cluster.bytes);
  Seed("membership", "two-hosts",
       Steps()
           .Add(kRightList, 0)
           .Add(kRightList, 2)
           .Add(kMerge, 1)
           .Add(kRightList, 4, Blob{0, 0, 1})
           .Add(kMerge, 1)
           .Add(kMerge, 255)
           .bytes);
  Seed("membership", "bodies",
       Steps()
           .Add(kList, 0, BodyOf(Named("heartbeat-ok")))
           .Add(kList, 0, BodyOf(Named("heartbeat-ok-once")))
           .Add(kBeat, 0, BodyOf(Named("heartbeat")))
           .Add(kTable, 10)
           .Add(kMerge, 1)
           .bytes);
}

void HttpSeeds() {
  const auto text = [](const char* name, std::string_view contents) {
    Seed("http", name, Blob(contents.begin(), contents.end()));
  };
  text("status", "GET /v1/status HTTP/1.1\r\nHost: node\r\n\r\n");
  text("two",
       "GET /readyz HTTP/1.1\r\nHost: node\r\n\r\nHEAD / HTTP/1.1\r\nHost: node\r\nConnection: "
       "close\r\n\r\n");
  text("old", "GET /metrics HTTP/1.0\r\nAccept-Encoding: gzip, br\r\n\r\n");
  text("range", "GET /metrics HTTP/1.1\r\nHost: node\r\nRange: bytes=5-9\r\n\r\n");
  text("ranges", "GET /metrics HTTP/1.1\r\nHost: node\r\nRange: bytes=0-9,100-,-5\r\n\r\n");
  text("query", "GET /%2e%2e/x?a=%00&b=%zz&c HTTP/1.1\r\nHost: node\r\n\r\n");
  text("body", "POST /healthz HTTP/1.1\r\nHost: node\r\nContent-Length: 5\r\n\r\nhello");
  text("form",
       "POST / HTTP/1.1\r\nHost: node\r\nContent-Type: multipart/form-data; boundary=b\r\n"
       "Content-Length: 58\r\n\r\n--b\r\nContent-Disposition: form-data; "
       "name=\"x\"\r\n\r\n1\r\n--b--");
  text("large", "PUT / HTTP/1.1\r\nHost: node\r\nContent-Length: 99999999999\r\n\r\nx");
  text("chunks",
       "POST / HTTP/1.1\r\nHost: node\r\nTransfer-Encoding: "
       "chunked\r\n\r\n5\r\nhello\r\nffffffff\r\nx");
  text("expect",
       "POST / HTTP/1.1\r\nHost: node\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc");
  text("length", "POST / HTTP/1.1\r\nHost: node\r\nContent-Length: -1\r\n\r\n");
  text("long", "GET /" + std::string(9000, 'a') + " HTTP/1.1\r\nHost: node\r\n\r\n");
  text("foreign", "SSH-2.0-OpenSSH_9.2\r\n");
  text("silent", "");
}

// A bucket as bucket_fuzz.cc has granted it, behind a byte that has its checksum made right.
void BucketSeeds() {
  const uint8_t kAsIs = 0, kMadeRight = 1;
  const auto seed = [](const char* name, uint8_t first, const Bucket& bucket) {
    Blob blob(sizeof(bucket));
    std::memcpy(blob.data(), &bucket, sizeof(bucket));
    Seed("bucket", name, With(first, blob));
  };
  const auto with = [](uint16_t owner, uint32_t era, uint32_t elsewhere) {
    Bucket bucket;
    bucket.elsewhere = elsewhere;
    bucket.entries[2] = {
        .offset = 4096, .generation = 8, .checksum = 1, .length = 4096, .era = era, .owner = owner};
    return bucket;
  };
  seed("unused", kAsIs, {});
  seed("torn", kAsIs, with(0, 5, 0));
  seed("found", kMadeRight, with(0, 5, 0));
  seed("own", kMadeRight, with(2, 5, 0));
  seed("void", kMadeRight, with(0, 4, 0));
  seed("younger", kMadeRight, with(0, 6, 0));
  seed("ended", kMadeRight, with(1, 5, 0));
  seed("stranger", kMadeRight, with(9, 5, 0));
  seed("elsewhere", kMadeRight, with(0, 4, 1));
  Seed("bucket", "short", Blob{kMadeRight, 1, 2, 3});
}

// Changes to the file that pool_fuzz.cc begins with.
void PoolSeeds() {
  const uint8_t kHeader = 0, kStates = 1, kSlot = 2;
  const auto change = [](const char* name, uint8_t where, uint8_t slot, uint16_t offset,
                         Blob bytes) {
    bytes.insert(bytes.begin(), {static_cast<uint8_t>(offset), static_cast<uint8_t>(offset >> 8)});
    Seed("pool", name, Steps().Add(where, slot, bytes).bytes);
  };
  Seed("pool", "whole", {});
  change("magic", kHeader, 0, 0, {0});
  change("fingerprint-length", kHeader, 0, 8, {0xff, 0xff, 0xff, 0xff});
  change("crashed", kHeader, 0, 12, {11});
  change("generation-limit", kHeader, 0, 16, {3});
  change("fingerprint", kHeader, 0, 40, {'x'});
  change("note", kHeader, 0, 4096 + 20, {1, 2});
  change("span-class", kStates, 0, 0, {0xff});
  change("span-chunks", kStates, 0, 4, {9});
  change("span-gone", kStates, 0, 0, {0, 0, 0, 0, 0, 0, 0, 0});
  change("states", kStates, 0, 16, {1, 2, 3, 4, 5, 0});
  change("no-state", kStates, 0, 16, {77});
  change("replicas", kStates, 0, 16, {5, 5, 5, 5, 5, 5});
  change("key", kSlot, 1, 8, {1});
  change("key-twice", kSlot, 1, 8, Blob(32, 1));
  change("length", kSlot, 2, 4, {0, 0, 0, 0});
  change("generation", kSlot, 3, 40, {0, 0, 0, 0, 0, 0, 0, 0});
}

void ConfigSeeds() {
  const auto text = [&](const char* name, uint8_t parser, std::string_view contents) {
    Seed("config", name, With(parser, Blob(contents.begin(), contents.end())));
  };
  text("size", 0, "64Gi");
  text("size-large", 0, "18446744073709551615");
  text("hosts", 1, "a.b:1,[fd00::1]:31998,10.0.0.1:65535");
  text("users", 2, "same,0,4294967295");
  text("any-user", 2, "any");
  text("huge-pages", 3, "2Mi");
  text("tenant", 3, "team-a");
  text("token", 5, "the first of the two\r\nthe second of the two\n\n");
  const char* values[] = {"node7", "10.0.0.1:31998", "64Gi", "250", "on", "0660", "auto", "info"};
  for (uint8_t i = 0; i < std::size(values); ++i) {
    text(("option-" + std::to_string(i)).c_str(), 4,
         std::string(1, static_cast<char>(3 * i)) + values[i]);
  }
  text("file", 6, "# a node\npool-size = \"64Gi\"\nhttp = on\n\nlease-ms=250\n");
  text("file-sections", 6, "[section]\npool-size = 1\n[[list]]\nx=[1,2,\"3\"]\n");
  text("file-quotes", 6, "cluster = 'a b' # ...\nsocket = \"/run/\\\"x\\\".sock\"\n");
}

// Fields of an op, as capi_fuzz.cc has them, from the first one on.
void CApiSeeds() {
  const uint8_t kSet = 1, kGet = 2, kPresence = 3, kReap = 1, kCancel = 2;
  const Blob presence = {kPresence, 0, 0, 0, 100, 0, 0, 0, 0, 0, 0, 6};
  const Blob get = {kGet, 0, 1, 0, 2, 0, 0, 0, 3, 0, 0, 4};
  const Blob late = {kPresence, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 16, 0, 50, 0};
  Blob uneven = {kSet, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0};
  uneven.insert(uneven.end(), {1, 2, 1, 3, 1, 2, 1, 1, 2, 2, 3, 1});
  Blob large = get;
  large[4] = 0;
  large[6] = 1;
  large[8] = 1;
  Blob later = presence;
  later[10] = 8;
  Steps all;
  for (const Blob& op : {presence, get, late, uneven, large, later}) all.Add(0, kReap, op);
  Seed("capi", "ops", all.bytes);
  Steps many;
  for (int i = 0; i < 8; ++i) many.Add(0, 0, large);
  Seed("capi", "full", many.bytes);
  Steps cancelled;
  for (int i = 0; i < 4; ++i) cancelled.Add(0, kCancel, large);
  Seed("capi", "cancel", cancelled.bytes);
  for (uint8_t how = 0; how < 5; ++how) {
    Blob spoiled = get;
    spoiled.insert(spoiled.end(), {how, how});
    Seed("capi", "iov-" + std::to_string(how), Steps().Add(0, kReap, spoiled).bytes);
  }
  for (uint8_t field = 0; field < 20; ++field) {
    Blob wrong = late;
    wrong[field] ^= 0x81;
    Seed("capi", "wrong-" + std::to_string(field), Steps().Add(0, kReap, wrong).bytes);
  }
}

void TlsSeeds() {
  const uint8_t kClientSays = 0, kServerSays = 1, kEditToServer = 2, kEditToClient = 3, kInsert = 4,
                kLose = 6, kHangUp = 7, kArrive = 8;
  const auto talk = [&] {
    Steps steps;
    steps.Add(kClientSays, 0, Text("a question")).Add(kServerSays, 0, Text("the answer to it"));
    return steps;
  };
  // Shaken after three turns.
  const auto shaken = [&] {
    Steps steps = talk();
    for (int turn = 0; turn < 4; ++turn) steps.Add(kArrive);
    return steps;
  };
  const Blob edit = {0, 0, 0x80}, inside = {40, 0, 0x55}, length = {3, 0, 0xff};
  Seed("tls", "talk", talk().bytes);
  Seed("tls", "talk-on", shaken().Add(kClientSays, 0, Blob(5000, 7)).bytes);
  Seed("tls", "edit-hello", talk().Add(kEditToServer, 0, inside).bytes);
  Seed("tls", "edit-type", talk().Add(kEditToServer, 0, edit).bytes);
  Seed("tls", "edit-length", talk().Add(kEditToServer, 0, length).bytes);
  Seed("tls", "edit-answer", talk().Add(kArrive).Add(kEditToClient, 0, inside).bytes);
  Seed("tls", "edit-record",
       shaken().Add(kClientSays, 0, Blob(100, 9)).Add(kEditToServer, 0, inside).bytes);
  Seed("tls", "garbage", talk().Add(kInsert, 0, Text("GET / HTTP/1.1\r\n\r\n")).bytes);
  Seed("tls", "cut-hello", talk().Add(kLose, 1, Blob(20, 0)).Add(kHangUp).bytes);
  Seed("tls", "cut-record",
       shaken().Add(kClientSays, 0, Blob(100, 9)).Add(kLose, 1, Blob(9, 0)).Add(kHangUp).bytes);
  Seed("tls", "hang-up", shaken().Add(kHangUp).bytes);
}

void Write(const std::filesystem::path& path, const Blob& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  file.close();
  Require(file.good(), "the seed is written");
}

}  // namespace

void Seed(const std::string& target, const std::string& name, const Blob& bytes) {
  const bool fresh = seeds.emplace(std::filesystem::path(target) / ("seed-" + name), bytes).second;
  Require(fresh, "every seed has a name of its own");
}

}  // namespace peercache::fuzz

int main(int argc, char** argv) {
  using namespace peercache::fuzz;
  if (argc != 2) {
    std::cerr << "usage: make_corpus DIR\n";
    return 2;
  }
  WireSeeds();
  PeerSeeds();
  EngineSeeds();
  ClientSeeds();
  CApiSeeds();
  RemoteSeeds();
  PublisherSeeds();
  MembershipSeeds();
  BucketSeeds();
  PoolSeeds();
  ConfigSeeds();
  HttpSeeds();
  TlsSeeds();
  ReadChannelSeeds();
  LinksSeeds();
  DiskSeeds();
  const std::filesystem::path dir = argv[1];
  std::filesystem::remove_all(dir);  // also the seeds of a former build
  for (const auto& [path, bytes] : seeds) Write(dir / path, bytes);
  return 0;
}
