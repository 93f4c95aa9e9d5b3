#include "rdma_world.h"

#include <algorithm>
#include <cstring>

#include "base/divide.h"
#include "transport/rdma/run_reads.h"

namespace peercache::rdma {

// Its rails have no port in sysfs that could come up.
class RailTesting {
 public:
  static void Up(Rail* rail) {
    RailAddress address;
    address.ethernet = true;
    address.mtu = IBV_MTU_4096;
    rail->state_.See({std::move(address), WaitsFor::kNothing});
  }
};

}  // namespace peercache::rdma

namespace peercache::fuzz {
namespace {

using rdma::PageState;

constexpr size_t kGap = 64;
constexpr size_t kHeaderBytes = 2 * RdmaWorld::kPages * sizeof(SlotHeader);
constexpr std::byte kUntouched{0xee};
constexpr Duration kStall = milliseconds(20), kCall = milliseconds(100);

std::shared_ptr<MappedRegion> Memory(size_t bytes) {
  auto made = MappedRegion::Create("fuzz", DivideUp(bytes, SmallPageSize()) * SmallPageSize(),
                                   HugePages::kOff);
  Require(made.ok(), "there is memory");
  return std::make_shared<MappedRegion>(std::move(*made));
}

std::unique_ptr<rdma::Rails> OpenRails() {
  std::vector<rdma::RailSpec> specs(RdmaWorld::kRails);
  for (size_t i = 0; i < specs.size(); ++i) {
    specs[i].name = "fake0:" + std::to_string(i + 1);
    specs[i].device = "fake0";
  }
  auto rails = rdma::Rails::Open(specs, {});
  Require(rails.ok(), "the rails open");
  return std::move(*rails);
}

size_t SlotBytes(uint32_t length) { return DivideUp(length, 64) * 64 + sizeof(SlotHeader); }

size_t Total(size_t beside) {
  size_t bytes = 0;
  for (const uint32_t length : RdmaWorld::kLengths) bytes += SlotBytes(length) + beside;
  return bytes;
}

uint64_t Word(Input bytes) {
  uint64_t word = 0;
  std::memcpy(&word, bytes.data(), sizeof(word));
  return word;
}

}  // namespace

RdmaWorld& RdmaWorld::Get() {
  static auto* const world = new RdmaWorld;
  return *world;
}

RdmaWorld::RdmaWorld()
    : rails_(OpenRails()),
      pool_(Memory(Total(0))),
      memory_(Memory(kHeaderBytes + Total(2 * kGap))) {
  Require(
      holder_.Register("pool", pool(), *rails_, rdma::Registration::For::kRemoteRead, pool_).ok() &&
          reader_
              .Register("reader", memory_->bytes(), *rails_, rdma::Registration::For::kLocalWrite,
                        memory_)
              .ok(),
      "memory is registered");
  auto block = header_memory_.Take();
  Require(block.ok(), "also that of headers");
  header_memory_.Return(*block);
  rails_->Stop();  // or they would be looked for in sysfs, and go down
  for (const auto& rail : rails_->all()) rdma::RailTesting::Up(rail.get());
  acceptor_ = std::make_unique<rdma::Acceptor>(rails_.get(), &holder_, pool(), 4096);

  right_.resize(pool().size());
  for (size_t i = 0; i < right_.size(); ++i) right_[i] = static_cast<std::byte>(i * 7 / 5);
  uint64_t offset = 0;
  for (size_t i = 0; i < kPages; ++i) {
    SlotHeader header;
    header.length = kLengths[i];
    header.key.bytes.fill(static_cast<uint8_t>(i + 1));
    header.generation = i + 10;
    std::memcpy(&right_[offset], &header, sizeof(header));
    pages_.push_back({.key = header.key,
                      .offset = offset,
                      .generation = header.generation,
                      .length = header.length,
                      .to = {}});
    offset += SlotBytes(kLengths[i]);
  }
}

void RdmaWorld::Restore() {
  fake().Reset();
  std::memcpy(pool().data(), right_.data(), right_.size());
}

std::span<SlotHeader> RdmaWorld::headers() const {
  return {reinterpret_cast<SlotHeader*>(memory_->data()), 2 * kPages};
}

std::span<std::byte> RdmaWorld::Place(size_t page) const {
  size_t at = kHeaderBytes + kGap;
  for (size_t i = 0; i < page; ++i) at += SlotBytes(kLengths[i]) + 2 * kGap;
  return memory_->bytes().subspan(at, kLengths[page]);
}

void RdmaWorld::CheckGaps() const {
  const std::byte* at = memory_->data() + kHeaderBytes;
  const auto untouched = [&at](const std::byte* to) {
    return std::all_of(at, to, [](std::byte b) { return b == kUntouched; });
  };
  for (size_t i = 0; i < kPages; ++i) {
    Require(untouched(Place(i).data()), "nothing is written between the pages");
    at = Place(i).data() + Place(i).size();
  }
  Require(untouched(memory_->data() + memory_->size()), "or behind them");
}

ConnectOk RdmaWorld::RightAnswer(const ConnectRequest& request, rdma::Acceptor::Queues* queues) {
  ConnectOk answer;
  do {
    auto accepted = acceptor_->Accept(request, &answer);
    Require(accepted.ok(), "the holder accepts");
    *queues = std::move(*accepted);
  } while (answer.later);
  return answer;
}

void RdmaWorld::Lie(Input edits, ConnectOk* answer) {
  for (; edits.size() >= 9; edits = edits.subspan(9)) {
    const uint64_t value = Word(edits.subspan(1));
    const auto queue = [&]() -> ConnectOk::Served* {
      return answer->queues.empty() ? nullptr
                                    : &answer->queues[value >> 32 & (answer->queues.size() - 1)];
    };
    switch (edits[0] % 8) {
      case 0: answer->pool += value; break;
      case 1: answer->pool_bytes = value; break;
      case 2:  // with keys for all its chunks, as far as they may travel
        if (value == 0) break;
        answer->chunk_bytes = value;
        for (auto& served : answer->queues)
          if (!served.rkeys.empty())
            served.rkeys.resize(
                std::min<uint64_t>(DivideUp(answer->pool_bytes, value), kMaxPoolChunks),
                served.rkeys[0]);
        break;
      case 3:
        if (auto* served = queue(); served != nullptr && !served->rkeys.empty())
          served->rkeys[value % served->rkeys.size()] ^= static_cast<uint32_t>(value);
        break;
      case 4:
        if (auto* served = queue()) served->queue.queue = static_cast<uint32_t>(value);
        break;
      case 5:
        if (auto* served = queue()) {
          served->queue.mtu = static_cast<uint8_t>(value);
          served->queue.reads = static_cast<uint8_t>(value >> 8);
          served->queue.ethernet = static_cast<uint8_t>(value >> 16);
        }
        break;
      case 6: answer->queues.resize(value % (kMaxRails + 1)); break;
      case 7: answer->later = value % 2 == 1; break;
    }
  }
}

bool RdmaWorld::Travels(ConnectOk* answer) {
  FrameWriter writer;
  writer.Start(MessageType::kConnectOk, 1);
  answer->Encode(&writer);
  const auto frame = writer.Finish(0);
  FrameReader reader(frame.subspan(sizeof(FrameHeader)));
  return answer->Decode(&reader);
}

RdmaWorld::Outcome RdmaWorld::Read(rdma::ReadChannel* channel, uint64_t pool, Input lies) {
  std::vector<rdma::PageRead> reads = pages_;
  std::vector<Bytes> places;
  for (size_t i = 0; i < kPages; ++i) places.push_back(Place(i));
  for (size_t i = 0; i < kPages; ++i) reads[i].to = std::span(&places[i], 1);
  for (; lies.size() >= 10; lies = lies.subspan(10)) {
    rdma::PageRead& read = reads[lies[0] % kPages];
    const uint64_t value = Word(lies.subspan(2));
    switch (lies[1] % 3) {  // a record's length is compared with the page's before
      case 0: read.offset = value; break;
      case 1: read.generation = value; break;
      case 2: read.bare = value % 2 == 1; break;
    }
  }
  const Bytes all = memory_->bytes().subspan(kHeaderBytes);
  std::fill(all.begin(), all.end(), kUntouched);
  std::vector<PageState> states(kPages);
  const auto ranges = reader_.ranges();
  const TimePoint now = Clock::now();
  channel->Begin(reads, *ranges, headers(), states, kStall, now);
  const rdma::RunningRead running{channel, -1};
  rdma::RunReads(std::span(&running, 1), {now + kCall, Duration{}, now + kCall / 2});
  Require(channel->done(), "a batch ends");
  Require(fake().under_way() == 0, "and nothing lands after it");
  CheckGaps();

  Outcome outcome;
  for (size_t i = 0; i < kPages; ++i) {
    Require(states[i] != PageState::kPending && states[i] != PageState::kUnregistered,
            "every page has an outcome");
    outcome.stale += states[i] == PageState::kStale;
    outcome.failed += states[i] == PageState::kFailed;
    if (states[i] != PageState::kRead) continue;
    ++outcome.read;
    if (pool == 0) continue;
    const auto* slot = reinterpret_cast<const std::byte*>(pool + reads[i].offset);
    if (!reads[i].bare) {
      SlotHeader header;
      std::memcpy(&header, slot, sizeof(header));
      Require(header.key == reads[i].key && header.generation == reads[i].generation,
              "what counts as read is the page that was asked for");
      slot += sizeof(header);
    }
    Require(std::memcmp(places[i].data(), slot, places[i].size()) == 0,
            "byte for byte as the holder has it");
  }
  return outcome;
}

}  // namespace peercache::fuzz
