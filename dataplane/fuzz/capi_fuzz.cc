// The C API: ops as a caller may fill them in, on a client without a member, which touches no
// memory of theirs. Each step is one op, filled in from its bytes; `argument` says what happens
// after it: bit 0: completions are reaped, bit 1: the op is cancelled. An op that is wrong is
// refused, with a text that names its place and field; one that is taken completes once for each of
// its pages.

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "fuzz.h"
#include "peercache/libpeercache.h"

namespace peercache::fuzz {
namespace {

Reached taken("ops taken"), refused("ops refused"), full("queues full"),
    uneven("ops with counts of iovs"), later("ops of a later release");

constexpr size_t kIovs = PC_MAX_PAGES;

// As bytes of a step give it; what they leave out is 0.
struct Fields {
  uint8_t kind, reserved;
  uint16_t flags;
  uint32_t pages;
  uint16_t per_page;
  uint8_t size;     // more than that of the struct
  uint8_t null;     // bits: keys, iovs, counts are NULL
  uint8_t spoiled;  // an iov
  uint8_t how;      // it is spoiled: not, length 0, too long, address 0, beyond all addresses
  uint16_t tag;
  uint16_t page_tokens;
  uint16_t deadline_us;
  uint8_t counts[12];
};

struct World {
  World() : keys(PC_MAX_PAGES), iovs(kIovs), counts(PC_MAX_PAGES, 1) {
    pc_open_args args{};
    args.size = sizeof(args);
    args.socket = "/nonexistent/peercache-fuzz.sock";
    Require(pc_open(&args, &client) == PC_OK, "a client needs no member");
    const pc_queue_args queue_args{sizeof(queue_args), 1, 4, 0};
    Require(pc_queue_open(client, &queue_args, &queue) == PC_OK, "a queue");
  }
  static World& Get() {
    static auto* const world = new World;
    return *world;
  }

  pc_client* client = nullptr;
  pc_queue* queue = nullptr;
  std::vector<pc_key> keys;
  std::vector<pc_iov> iovs;
  std::vector<uint32_t> counts;
  std::map<uint64_t, uint32_t> missing;  // pages of ops that have not completed
};

void Reap(World* world) {
  pc_completion done[7];
  for (;;) {
    const int64_t count = pc_reap(world->queue, done, std::size(done));
    Require(count >= 0, "a queue can be reaped");
    if (count == 0) return;
    for (int64_t i = 0; i < count; ++i) {
      const pc_completion& c = done[i];
      const auto op = world->missing.find(c.user_data);
      Require(op != world->missing.end(), "completions are of ops that were taken");
      Require(c.count >= 1 && c.count <= 64 && c.count <= op->second, "no page completes twice");
      Require(c.ok == 0, "nothing is there");
      op->second -= c.count;
      Require((op->second == 0) == ((c.flags & PC_MORE) == 0), "the last one says so");
      if (op->second == 0) world->missing.erase(op);
    }
  }
}

void Submit(World* world, const Fields& f, uint64_t user_data) {
  constexpr size_t kMore = 16;
  alignas(pc_op) unsigned char bytes[sizeof(pc_op) + kMore] = {};
  pc_op op{};
  op.size = static_cast<uint32_t>(sizeof(op) + f.size);
  op.kind = f.kind;
  op.reserved = f.reserved;
  op.flags = f.flags;
  op.pages = f.pages;
  op.iovs_per_page = f.per_page;
  op.tag = f.tag;
  op.page_tokens = f.page_tokens;
  op.deadline_us = f.deadline_us;
  op.user_data = user_data;
  op.keys = (f.null & 1) == 0 ? world->keys.data() : nullptr;
  op.iovs = (f.null & 2) == 0 ? world->iovs.data() : nullptr;
  op.iov_counts = (f.null & 4) == 0 ? world->counts.data() : nullptr;
  // Lists that are as long as a caller must say that they are.
  std::ranges::copy(f.counts, world->counts.begin());
  if (op.iovs_per_page >= 1 && op.iovs_per_page <= PC_MAX_IOVS && op.pages <= PC_MAX_PAGES)
    op.pages = std::min<uint32_t>(op.pages, kIovs / op.iovs_per_page);
  if (op.iovs_per_page == 0) op.pages = std::min<uint32_t>(op.pages, 1024);
  std::ranges::fill(world->iovs, pc_iov{4096, 512});
  pc_iov& iov = world->iovs[f.spoiled];
  if (f.how % 5 == 1) iov.length = 0;
  if (f.how % 5 == 2) iov.length = uint64_t{1} << 32;
  if (f.how % 5 == 3) iov.address = 0;
  if (f.how % 5 == 4) iov.address = UINT64_MAX;
  if (f.size > kMore) op.size = UINT32_MAX;
  std::memcpy(bytes, &op, sizeof(op));
  const int64_t done = pc_submit(world->queue, reinterpret_cast<const pc_op*>(bytes), 1);
  if (done == 1) {
    taken.Hit();
    if (f.size > 0) later.Hit();
    if (op.iovs_per_page == 0 && op.iovs != nullptr) uneven.Hit();
    Require(op.pages >= 1 && op.pages <= PC_MAX_PAGES, "an op has pages");
    world->missing[user_data] = op.pages;
  } else if (done == PC_EFULL) {
    full.Hit();
    Require(world->missing.size() == 4, "it has room for four");
  } else {
    refused.Hit();
    Require(done == PC_EINVAL, "an op that is not taken is wrong");
    Require(std::string(pc_error()).rfind("ops[0].", 0) == 0, "the text names the op");
    Require(std::string(pc_error()).find(": ") != std::string::npos, "and the field");
  }
}

}  // namespace
}  // namespace peercache::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace peercache::fuzz;
  SetUp();
  World& world = World::Get();
  Script script({data, size});
  Step step;
  uint64_t user_data = 1;
  for (int steps = 0; steps < 16 && script.Next(&step); ++steps, ++user_data) {
    Fields fields{};
    std::memcpy(&fields, step.bytes.data(), std::min(step.bytes.size(), sizeof(fields)));
    Submit(&world, fields, user_data);
    if ((step.argument & 2) != 0)
      Require(pc_cancel(world.queue, user_data) >= 0, "whatever is cancelled");
    if ((step.argument & 1) != 0) Reap(&world);
  }
  while (!world.missing.empty()) {
    Require(pc_wait(world.queue, 60'000) == PC_OK, "ops that were taken complete");
    Reap(&world);
  }
  return 0;
}
