// Seeds of engines, their client, and what a node hears from others while it reads for them.
#include "corpus.h"

namespace peercache::fuzz {

void EngineSeeds() {
  const uint8_t kRaw = 0, kBody = 1, kFrame = 2, kRegion = 3, kReopen = 4, kCut = 5, kAwait = 6;
  const auto type = [](MessageType t) { return Blob{Of(t)}; };
  const auto attached = [&] { return Steps().Add(kFrame, 0, type(MessageType::kAttach)); };
  Seed("engine", "all",
       attached()
           .Add(kRegion, 0, Blob{0})
           .Add(kFrame, 0, type(MessageType::kSet))
           .Add(kFrame, 0, type(MessageType::kExists))
           .Add(kFrame, 0, type(MessageType::kGet))
           .Add(kFrame, 0, type(MessageType::kClear))
           .Add(kFrame, 0, type(MessageType::kExists))
           .bytes);
  Seed("engine", "presence",
       attached()
           .Add(kFrame, 0, type(MessageType::kPresence))
           .Add(kRegion, 0, Blob{0})
           .Add(kFrame, 0, type(MessageType::kSet))
           .Add(kFrame, 0, type(MessageType::kPresence))
           .Add(kBody, 0, With(Of(MessageType::kPresence), Blob{2, 0, 0, 0, 1}))
           .bytes);
  Seed("engine", "two-connections",
       attached()
           .Add(kFrame, 1, type(MessageType::kAttach))
           .Add(kRegion, 0, Blob{0})
           .Add(kAwait, 0)
           .Add(kFrame, 1, type(MessageType::kSet))
           .Add(kFrame, 0, type(MessageType::kGet))
           .Add(kReopen, 1)
           .Add(kFrame, 0, type(MessageType::kGet))
           .bytes);
  Seed("engine", "memory-taken-away",
       attached()
           .Add(kRegion, 0, Blob{1})
           .Add(kFrame, 0, type(MessageType::kSet))
           .Add(kAwait, 0)
           .Add(kCut, 0, Blob{17})
           .Add(kFrame, 0, type(MessageType::kGet))
           .Add(kFrame, 0, type(MessageType::kSet))
           .bytes);
  for (uint8_t kind = 2; kind < 9; ++kind) {
    Seed("engine", "descriptor-" + std::to_string(kind),
         attached().Add(kRegion, 0, Blob{kind}).Add(kFrame, 0, type(MessageType::kGet)).bytes);
  }
  for (uint8_t kind = 0; kind < 9; ++kind) {
    Seed("engine", "dma-buf-" + std::to_string(kind),
         attached()
             .Add(kRegion, 0, Blob{static_cast<uint8_t>(0x80 + kind)})
             .Add(kFrame, 0, type(MessageType::kGet))
             .bytes);
  }
  // offset + length beyond everything, then a drop.
  Seed("engine", "region-overflow",
       attached()
           .Add(kRegion, 0, Blob{0, 4, 0, 0xff, 5, 0, 0xff, 11, 0, 0xff, 19, 0, 0xff})
           .Add(kBody, 0, With(Of(MessageType::kRegion), Blob(20, 0)))
           .bytes);
  Seed("engine", "not-attached",
       Steps()
           .Add(kFrame, 0, type(MessageType::kSet))
           .Add(kFrame, 1, type(MessageType::kGet))
           .bytes);
  Seed("engine", "gone-in-the-middle",
       attached()
           .Add(kRegion, 0, Blob{0})
           .Add(kFrame, 0, type(MessageType::kSet))
           .Add(kReopen, 0)
           .Add(kRaw, 0, FrameOf(Named("attach")))
           .bytes);
  Seed("engine", "foreign", Steps().Add(kRaw, 2, Text("GET / HTTP/1.1\r\nHost: x\r\n\r\n")).bytes);
  for (const char* name : {"attach", "region", "set", "exists", "flags", "hello"}) {
    const Sample& m = Named(name);
    Seed("engine", std::string("body-") + name,
         attached().Add(kRegion, 0, Blob{0}).Add(kBody, 0, With(Of(m.type), BodyOf(m))).bytes);
  }
}

void ClientSeeds() {
  const uint8_t kRaw = 0, kBody = 1, kRight = 2, kId = 3, kNext = 4;
  const auto connected = [&] {
    // The client keeps the first connection, and calls on others.
    return Steps()
        .Add(kRight, Of(MessageType::kAttachOk))
        .Add(kNext)
        .Add(kRight, Of(MessageType::kAttachOk))
        .Add(kRight, Of(MessageType::kRegionOk));
  };
  const auto all = [&] {
    return connected()
        .Add(kRight, Of(MessageType::kSetOk))
        .Add(kRight, Of(MessageType::kGetOk))
        .Add(kRight, Of(MessageType::kExistsOk))
        .Add(kRight, Of(MessageType::kClearOk));
  };
  const auto more = [&] {
    return all().Add(kRight, Of(MessageType::kRegionOk)).Add(kRight, Of(MessageType::kGetOk));
  };
  Seed("client", "all", more().bytes);
  Seed("client", "presence", more().Add(kRight, Of(MessageType::kPresenceOk)).bytes);
  Seed("client", "presence-of-fewer",
       more().Add(kBody, Of(MessageType::kPresenceOk), Blob{3, 0, 0, 0, 1, 1, 1}).bytes);
  Seed("client", "silent", Blob{});
  Seed("client", "attach-only", Steps().Add(kRight, Of(MessageType::kAttachOk)).bytes);
  Seed("client", "refused", Steps().Add(kRight, Of(MessageType::kError)).bytes);
  Seed("client", "errors",
       connected()
           .Add(kRight, Of(MessageType::kError))
           .Add(kRight, Of(MessageType::kError))
           .Add(kRight, Of(MessageType::kError))
           .bytes);
  Seed("client", "restarted",
       connected()
           .Add(kNext)
           .Add(kRight, Of(MessageType::kError))
           .Add(kNext)
           .Add(kRight, Of(MessageType::kAttachOk), Blob{0, 0, 6})
           .Add(kRight, Of(MessageType::kRegionOk))
           .Add(kNext)
           .Add(kRight, Of(MessageType::kAttachOk), Blob{0, 0, 6})
           .Add(kRight, Of(MessageType::kSetOk))
           .Add(kRight, Of(MessageType::kGetOk))
           .bytes);
  Seed("client", "wrong-id", connected().Add(kId, 200).Add(kRight, Of(MessageType::kSetOk)).bytes);
  Seed("client", "wrong-type", connected().Add(kRight, Of(MessageType::kExistsOk)).bytes);
  Seed("client", "strange-flags",
       connected()
           .Add(kBody, Of(MessageType::kSetOk), Blob{4, 0, 0, 0, 2, 3, 255, 1})
           .Add(kBody, Of(MessageType::kGetOk), Blob{5, 0, 0, 0, 1, 1, 1, 1, 1})
           .bytes);
  Seed("client", "too-many-hits",
       connected()
           .Add(kRight, Of(MessageType::kSetOk))
           .Add(kRight, Of(MessageType::kGetOk))
           .Add(kBody, Of(MessageType::kExistsOk), Blob{5, 0, 0, 0})
           .bytes);
  Seed("client", "foreign",
       Steps().Add(kRaw, 0, Text("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")).bytes);
}

void RemoteSeeds() {
  const uint8_t kRaw = 0, kBody = 1, kRight = 2, kNext = 3;
  const auto greeted = [] { return Steps().Add(kRight, Of(MessageType::kHelloOk)); };
  const auto found = [&] { return greeted().Add(kRight, Of(MessageType::kLookupOk)); };
  Seed("remote", "all",
       found().Add(kRight, Of(MessageType::kReadOk)).Add(kRight, Of(MessageType::kReadOk)).bytes);
  Seed("remote", "silent", Blob{});
  Seed("remote", "hello-only", greeted().bytes);
  Seed("remote", "refused", Steps().Add(kRight, Of(MessageType::kError)).bytes);
  Seed("remote", "busy", found().Add(kRight, Of(MessageType::kError)).bytes);
  Seed("remote", "gone-between",
       found()
           .Add(kNext)
           .Add(kRight, Of(MessageType::kHelloOk))
           .Add(kRight, Of(MessageType::kReadOk))
           .bytes);
  // Longer and shorter than asked for, a payload that ends early, another request's answer.
  Seed("remote", "longer-page",
       found().Add(kRight, Of(MessageType::kReadOk), Blob{36, 0, 1}).bytes);
  Seed("remote", "more-payload",
       found().Add(kRight, Of(MessageType::kReadOk), Blob{24, 0, 1}).bytes);
  Seed("remote", "other-request",
       found().Add(kRight, Of(MessageType::kReadOk), Blob{8, 0, 2}).bytes);
  Seed("remote", "payload-with-lookup",
       greeted().Add(kRight, Of(MessageType::kLookupOk), Blob{24, 0, 1}).bytes);
  for (const char* name : {"lookup-ok", "read-ok", "hello-ok", "error"}) {
    const Sample& m = Named(name);
    Seed("remote", std::string("body-") + name, found().Add(kBody, Of(m.type), BodyOf(m)).bytes);
  }
  Seed("remote", "foreign",
       Steps().Add(kRaw, 0, Text("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")).bytes);
}

}  // namespace peercache::fuzz
