#include "node/mapped/mapped_reader.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "base/copy.h"
#include "node/mapped/pool_server.h"
#include "pool/slot_header.h"
#include "wire/stream.h"

namespace peercache {
namespace {

// How soon a node that has come is mapped, and one that has gone is unmapped.
constexpr milliseconds kWatchEvery{200};

// The page that the record names is in this slot now. A holder that is gone may have left a file
// that its next process makes anew, and then the header is not there. model: check_slot
bool Holds(const std::byte* at, const RemotePage& page) {
  SlotHeader header;
  const ConstBytes there(at, sizeof(header));
  uint64_t generation = 0;
  return GuardedLoad(at + offsetof(SlotHeader, generation), &generation) &&
         generation == page.record.generation &&
         GuardedGather(std::as_writable_bytes(std::span(&header, 1)), {&there, 1}) &&
         header.IsOf(page.key, page.record.length);
}

}  // namespace

MappedReader::MappedReader(std::string directory, Hello self, Peers* peers, const Secret* secret)
    : directory_(std::move(directory)),
      self_(std::move(self)),
      peers_(peers),
      secret_(secret),
      thread_([this] { Run(); }) {}

MappedReader::~MappedReader() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

std::shared_ptr<const MappedReader::Mappings> MappedReader::Now() const {
  std::lock_guard lock(mutex_);
  return mappings_;
}

std::vector<size_t> MappedReader::Read(const ReadBatch& batch, std::vector<size_t> asked) {
  const auto mappings = Now();
  if (mappings->empty() || batch.to.unmapped) return asked;
  struct Work {
    size_t page;
    const MappedRegion* pool;
  };
  std::vector<Work> here;
  uint64_t bytes = 0;
  std::erase_if(asked, [&](size_t i) {
    const Record& r = batch.pages[i].record;
    const auto found = std::ranges::find_if(*mappings, [&](const auto& mapping) {
      return mapping->node == r.node && mapping->incarnation == r.incarnation;
    });
    if (found == mappings->end()) return false;
    here.push_back({i, &(*found)->pool});
    bytes += r.length;
    return true;
  });
  batch.crew->ForBytes(here.size(), bytes, [&](size_t w) {
    const auto [i, pool] = here[w];
    batch.outcomes[i] = Copy(batch.pages[i], *pool, batch.to);
  });
  for (const Work& work : here)
    if (batch.outcomes[work.page] == ReadOutcome::kUnreachable) asked.push_back(work.page);
  return asked;
}

ReadOutcome MappedReader::Copy(const RemotePage& page, const MappedRegion& pool,
                               const Destinations& to) {
  const Record& r = page.record;
  const uint64_t slot = sizeof(SlotHeader) + uint64_t{r.length};
  if (r.offset % alignof(SlotHeader) != 0 || slot > pool.size() || r.offset > pool.size() - slot)
    return ReadOutcome::kStale;
  const std::byte* const header = pool.data() + r.offset;
  if (!Holds(header, page)) return ReadOutcome::kStale;
  {
    const Permit::Use use(to.permit);
    const ConstBytes payload(header + sizeof(SlotHeader), r.length);
    if (!use || !GuardedScatter(to.Of(page.page), payload)) return ReadOutcome::kUnreachable;
  }
  // The bytes above are read before the header below: a holder voids it before it writes any byte
  // of the slot. model: header_last
  std::atomic_thread_fence(std::memory_order_acquire);
  if (!Holds(header, page)) return ReadOutcome::kStale;
  // model: check_lease, time_last
  return Clock::now() < page.until ? ReadOutcome::kReadMapped : ReadOutcome::kUnreachable;
}

void MappedReader::Run() {
  std::vector<uint64_t> failed;  // said so already
  for (;;) {
    Mappings now = *Now();
    const size_t ended = std::erase_if(
        now, [](const auto& mapping) { return PoolConnectionEnded(mapping->connection.get()); });
    bool changed = ended > 0;
    for (const PeerRef& peer : peers_->InView()) {
      const auto is_peer = [&](const auto& mapping) { return mapping->node == peer->node(); };
      if (!peer->way(peers_->machine()).here || std::ranges::any_of(now, is_peer)) continue;
      auto mapping = Map(peer->node());
      const auto known = std::ranges::find(failed, peer->node());
      if (mapping.ok()) {
        spdlog::info("the pool of {}, on this machine, is mapped", peers_->NameOf(*peer));
        now.push_back(std::make_shared<Mapping>(std::move(*mapping)));
        if (known != failed.end()) failed.erase(known);
        changed = true;
      } else if (known == failed.end()) {
        failed.push_back(peer->node());
        spdlog::info("the pool of {}, on this machine, is not mapped, but read as any other: {}",
                     peers_->NameOf(*peer), mapping.status().ToString());
      }
    }
    std::shared_ptr<const Mappings> before;  // unmapped without the lock
    if (changed) {
      std::lock_guard lock(mutex_);
      before = std::exchange(mappings_, std::make_shared<Mappings>(std::move(now)));
    }
    before.reset();
    now.clear();
    std::unique_lock lock(mutex_);
    if (wake_.wait_for(lock, kWatchEvery, [this] { return stop_; })) return;
  }
}

Result<MappedReader::Mapping> MappedReader::Map(uint64_t node) const {
  const TimePoint deadline = Clock::now() + kPoolGreeting;
  Hello hello = self_;
  hello.to = PoolSocket(directory_, node);
  Mapping mapping;
  auto fd = ConnectUnix(hello.to);
  if (!fd.ok()) return fd.status();
  const auto key = secret_->ToProve(Clock::now());
  if (key) {
    const auto nonce = FreshNonce();
    if (!nonce.ok()) return nonce.status();
    hello.key = key->id;
    hello.nonce = *nonce;
  }
  ReceivedFrame frame;
  FrameWriter request;
  // Sends what is in `request`; the answer's body.
  const auto exchange = [&](MessageType expected) -> Result<FrameReader> {
    if (Status s = SendFrame(fd->get(), request.Finish(), -1, deadline); !s.ok()) return s;
    if (Status s = ReceiveFrame(fd->get(), deadline, &frame, kMaxPoolGreetingBody); !s.ok())
      return s;
    if (frame.header.type != expected) return Corrupt("another answer than the greeting's");
    return FrameReader(frame.body);
  };
  request.Start(MessageType::kHello, 0);
  hello.Encode(&request);
  auto body = exchange(key ? MessageType::kChallenge : MessageType::kHelloOk);
  if (!body.ok()) return body.status();
  Challenge who;
  HelloOk ok;
  if (key ? !who.Decode(&*body) : !ok.Decode(&*body)) return Corrupt("malformed greeting");
  if (key) {
    who.machine = frame.header.number;
    const auto proof = Respond(*key, hello, who);
    if (!proof.ok()) return proof.status();
    request.Start(MessageType::kProve, 0);
    ProveMessage{*proof}.Encode(&request);
    if (auto proven = exchange(MessageType::kProveOk); !proven.ok()) return proven.status();
  }
  mapping.node = key ? who.node : ok.node;
  mapping.incarnation = key ? who.incarnation : ok.incarnation;
  if (mapping.node != node) return Unavailable("another node answers");
  struct stat info {};
  if (!frame.fd || fstat(frame.fd.get(), &info) != 0)
    return Corrupt("no memory came with the greeting");
  // A file can be cut short while it is read; an embedded node leaves its process's signals alone.
  if (!CopyGuardInstalled() && (fcntl(frame.fd.get(), F_GET_SEALS) & F_SEAL_SHRINK) == 0)
    return Unavailable("it is a file, which a node inside of another process does not map");
  auto pool =
      MappedRegion::Map(std::move(frame.fd), static_cast<size_t>(info.st_size), MapAccess::kRead);
  if (!pool.ok()) return pool.status();
  mapping.pool = std::move(*pool);
  mapping.connection = std::move(*fd);
  return mapping;
}

}  // namespace peercache
