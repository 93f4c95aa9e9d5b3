// Seeds of the targets over a fake RDMA device.
#include <cstring>

#include "corpus.h"

namespace peercache::fuzz {
namespace {

// A lie about ConnectOk, or behind `page` about a record.
Blob Lie(uint8_t which, uint64_t value) {
  Blob bytes(1 + sizeof(value), which);
  std::memcpy(&bytes[1], &value, sizeof(value));
  return bytes;
}

}  // namespace

void ReadChannelSeeds() {
  const uint8_t kLie = 0, kBody = 1, kMemory = 2, kBehave = 3, kRead = 4, kEnd = 5,
                kNothingEnds = 1;
  const uint8_t kPool = 0, kPoolBytes = 1, kChunkBytes = 2, kKey = 3, kQueue = 4, kLink = 5,
                kQueues = 6, kLater = 7;
  const uint8_t kOffset = 0, kGeneration = 1, kBare = 2;
  const uint64_t kSecondRail = uint64_t{1} << 32;
  const auto lie = [&](const char* name, uint8_t which, uint64_t value) {
    Seed("read_channel", name, Steps().Add(kLie, 0, Lie(which, value)).Add(kRead).bytes);
  };
  Seed("read_channel", "all", Steps().Add(kRead).Add(kRead).Add(kEnd).Add(kRead).bytes);
  lie("elsewhere", kPool, 64);
  lie("no-pool", kPoolBytes, 0);
  lie("small-pool", kPoolBytes, 4096);
  lie("chunks", kChunkBytes, 65'536);
  lie("chunks-within-headers", kChunkBytes, 224'540);
  lie("other-key", kKey, kSecondRail | 0x5a5a00);
  lie("no-queue", kQueue, 0);
  lie("other-mtu", kLink, 9);
  lie("few-queues", kQueues, 1);
  lie("later", kLater, 1);
  Seed("read_channel", "beyond",
       Steps()
           .Add(kLie, 0, Lie(kPoolBytes, uint64_t{1} << 40))
           .Add(kRead, 0, With(2, Lie(kOffset, uint64_t{1} << 30)))
           .Add(kRead)
           .bytes);
  Seed("read_channel", "another-page",
       Steps().Add(kRead, 0, With(1, Lie(kGeneration, 77))).Add(kRead).bytes);
  Seed("read_channel", "bare", Steps().Add(kRead, 0, With(3, Lie(kBare, 1))).bytes);
  Seed("read_channel", "body", Steps().Add(kBody, 0, BodyOf(Named("connect-ok"))).Add(kRead).bytes);
  Seed("read_channel", "rewritten",
       Steps().Add(kMemory, 0, Blob{9, 9, 9, 9}).Add(kRead).Add(kRead).bytes);
  Seed("read_channel", "one-fails",
       Steps().Add(kBehave, 0, Blob{5, 0, 11, 100, 0}).Add(kRead).Add(kRead).bytes);
  Seed("read_channel", "memory-fails",
       Steps().Add(kBehave, 0, Blob{5, 0, 3, 0, 0}).Add(kRead).Add(kRead).bytes);
  Seed("read_channel", "dead", Steps().Add(kBehave, kNothingEnds).Add(kRead).bytes);
  Seed("read_channel", "dies", Steps().Add(kRead).Add(kBehave, kNothingEnds).Add(kRead).bytes);
}

void LinksSeeds() {
  const uint8_t kRaw = 0, kHello = 1, kConnect = 2, kFrame = 3, kNext = 4, kBehave = 5;
  const uint8_t kPoolBytes = 1, kChunkBytes = 2, kLater = 7, kAsTheyAre = 1;
  const auto linked = [&] { return Steps().Add(kHello).Add(kConnect); };
  Seed("links", "all", linked().bytes);
  Seed("links", "again", linked().Add(kNext).Add(kHello).Add(kConnect).bytes);
  Seed("links", "later", Steps().Add(kHello).Add(kConnect, 0, Lie(kLater, 1)).Add(kConnect).bytes);
  Seed("links", "hello-only", Steps().Add(kHello).bytes);
  Seed("links", "silent", Blob{});
  Seed("links", "foreign", Steps().Add(kRaw, 0, Text("HTTP/1.1 400 Bad Request\r\n\r\n")).bytes);
  Seed("links", "refused",
       Steps().Add(kHello).Add(kFrame, Of(MessageType::kError), BodyOf(Named("error"))).bytes);
  Seed("links", "body",
       Steps()
           .Add(kHello)
           .Add(kFrame, Of(MessageType::kConnectOk), BodyOf(Named("connect-ok")))
           .bytes);
  Seed("links", "no-pool", Steps().Add(kHello).Add(kConnect, kAsTheyAre, Lie(kPoolBytes, 0)).bytes);
  Seed("links", "chunks-within-headers",
       Steps().Add(kHello).Add(kConnect, 0, Lie(kChunkBytes, 224'540)).bytes);
  Seed("links", "a-read-fails", linked().Add(kBehave, 0, Blob{4}).bytes);
}

}  // namespace peercache::fuzz
