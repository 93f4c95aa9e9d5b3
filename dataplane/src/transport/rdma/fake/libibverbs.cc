#include <infiniband/verbs.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>

#include "transport/rdma/fake/fake_verbs.h"
#include "transport/rdma/fake/network.h"

#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace peercache::rdma {

using FakeClock = std::chrono::steady_clock;

struct FakeRead {
  ibv_send_wr work{};
  std::vector<ibv_sge> segments;
  FakeClock::time_point due;
  uint64_t bytes = 0, landed = 0;
  uint64_t number = 0;  // in the network
  bool fenced() const { return (work.send_flags & IBV_SEND_FENCE) != 0; }
};

struct FakeQueuePair {
  ibv_qp qp{};
  bool stopped = false;
  FakeClock::time_point busy_until;
  std::deque<FakeRead> under_way;
  FakeNetwork::End end{1, 0}, peer_end;
  uint32_t peer = 0;        // its number; 0: not connected
  uint64_t in_network = 0;  // READs
  uint32_t ece = 0, taken = 0;
};

struct FakeCompletionQueue {
  ibv_cq cq{};
  ibv_comp_channel* channel = nullptr;
  std::vector<FakeQueuePair*> pairs;  // that report here
};

// Memory that may be READ.
struct Readable {
  uint64_t address = 0, length = 0;
};

struct FakeVerbs::State {
  std::mutex mutex;
  std::condition_variable let_go;
  std::vector<std::string> calls;
  std::vector<Registered> registrations;
  std::vector<int> vectors;
  std::vector<Modified> modified;
  size_t destroyed = 0, doorbells = 0, posted = 0, polls = 0, reported = 0;
  uint64_t bytes_under_way = 0, peak_bytes = 0;
  uint32_t next_queue_pair = 1, next_key = 1;
  std::map<uint32_t, Readable> readable;  // by rkey
  size_t memory = 0;                      // registrations that there are
  std::map<ibv_qp*, std::unique_ptr<FakeQueuePair>> queue_pairs;
  std::map<uint32_t, FakeQueuePair*> by_number;
  std::map<uint8_t, uint32_t> turns;  // queue pairs that each port has had
  std::map<ibv_cq*, std::unique_ptr<FakeCompletionQueue>> queues;

  void Note(const char* call) {
    const std::lock_guard lock(mutex);
    calls.emplace_back(call);
  }
};

FakeVerbs::FakeVerbs() : state_(new State) {}

FakeVerbs& FakeVerbs::Get() {
  static auto* fake = new FakeVerbs;
  return *fake;
}

void FakeVerbs::Reset() {
  const std::lock_guard lock(state_->mutex);
  bytes_per_second = 0;
  brings = true;
  early_bytes = 0;
  addressed = both_ends = false;
  network = nullptr;
  most_landed = UINT64_MAX;
  good_reads = kAll;
  relaxed_error = 0;
  registers = SIZE_MAX;
  holds_on = 0;
  bond_members = shared_port = 0;
  ece = 0;
  state_->calls.clear();
  state_->registrations.clear();
  state_->vectors.clear();
  state_->modified.clear();
  state_->turns.clear();
  state_->destroyed = state_->doorbells = state_->posted = state_->polls = state_->reported = 0;
  state_->peak_bytes = state_->bytes_under_way;
}

int FakeVerbs::NameMember(ibv_qp* qp, uint8_t member) {
  const std::lock_guard lock(state_->mutex);
  if (qp->state != IBV_QPS_RTS) return EOPNOTSUPP;
  if (member == 0 || member > bond_members) return EINVAL;
  state_->queue_pairs.at(qp)->end.turn = member - 1U;
  return 0;
}

std::vector<std::string> FakeVerbs::calls() const {
  const std::lock_guard lock(state_->mutex);
  return state_->calls;
}
std::vector<FakeVerbs::Registered> FakeVerbs::registrations() const {
  const std::lock_guard lock(state_->mutex);
  return state_->registrations;
}
std::vector<int> FakeVerbs::vectors() const {
  const std::lock_guard lock(state_->mutex);
  return state_->vectors;
}
std::vector<FakeVerbs::Modified> FakeVerbs::modified() const {
  const std::lock_guard lock(state_->mutex);
  return state_->modified;
}
size_t FakeVerbs::destroyed() const {
  const std::lock_guard lock(state_->mutex);
  return state_->destroyed;
}

uint32_t FakeVerbs::ece_taken(uint32_t queue) const {
  const std::lock_guard lock(state_->mutex);
  return state_->by_number.at(queue)->taken;
}

size_t FakeVerbs::doorbells() const {
  const std::lock_guard lock(state_->mutex);
  return state_->doorbells;
}

size_t FakeVerbs::posted() const {
  const std::lock_guard lock(state_->mutex);
  return state_->posted;
}

size_t FakeVerbs::polls() const {
  const std::lock_guard lock(state_->mutex);
  return state_->polls;
}

size_t FakeVerbs::reported() const {
  const std::lock_guard lock(state_->mutex);
  return state_->reported;
}

size_t FakeVerbs::under_way() const {
  const std::lock_guard lock(state_->mutex);
  size_t reads = 0;
  for (const auto& [qp, pair] : state_->queue_pairs) reads += pair->under_way.size();
  return reads;
}

size_t FakeVerbs::objects(const std::string& kind) const {
  const std::lock_guard lock(state_->mutex);
  return kind == "qp"   ? state_->queue_pairs.size()
         : kind == "cq" ? state_->queues.size()
                        : state_->memory;
}

uint64_t FakeVerbs::peak_bytes() const {
  const std::lock_guard lock(state_->mutex);
  return state_->peak_bytes;
}

namespace {

// As a device copies: whoever writes to the memory meanwhile is not waited for. ThreadSanitizer
// need not know of it.
#if defined(__SANITIZE_THREAD__)
__attribute__((no_sanitize_thread, noinline)) void Copy(std::byte* to, const std::byte* from,
                                                        size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    const volatile std::byte* const source = from + i;  // volatile: never a call of memcpy
    to[i] = *source;
  }
}
#else
void Copy(std::byte* to, const std::byte* from, size_t bytes) { std::memcpy(to, from, bytes); }
#endif

// What has not landed yet, up to `end`.
void Land(FakeRead* read, uint64_t end = UINT64_MAX) {
  end = std::min<uint64_t>(end, FakeVerbs::Get().most_landed);
  const auto* from = reinterpret_cast<const std::byte*>(read->work.wr.rdma.remote_addr);
  uint64_t at = 0;
  for (const ibv_sge& segment : read->segments) {
    const uint64_t first = std::max(at, read->landed), last = std::min(at + segment.length, end);
    if (first < last)
      Copy(reinterpret_cast<std::byte*>(segment.addr) + (first - at), from + first, last - first);
    at += segment.length;
  }
  read->landed = std::max(read->landed, std::min(at, end));
}

FakeVerbs::State& Known() { return *FakeVerbs::Get().state(); }

bool Allowed(const FakeRead& read) {
  const auto& rdma = read.work.wr.rdma;
  const auto memory = Known().readable.find(rdma.rkey);
  if (memory == Known().readable.end()) return false;
  const auto& [address, length] = memory->second;
  return rdma.remote_addr >= address && rdma.remote_addr - address <= length &&
         read.bytes <= length - (rdma.remote_addr - address);
}

// The queue pair at the other end answers.
bool Answered(const FakeQueuePair& pair) {
  if (!FakeVerbs::Get().both_ends || pair.peer == 0) return true;
  const auto peer = Known().by_number.find(pair.peer);
  return peer != Known().by_number.end() && !peer->second->stopped;
}

int PostSend(ibv_qp* qp, ibv_send_wr* work, ibv_send_wr**) {
  const std::lock_guard lock(Known().mutex);
  FakeQueuePair& pair = *Known().queue_pairs.at(qp);
  ++Known().doorbells;
  const uint64_t rate = FakeVerbs::Get().bytes_per_second;
  for (; work != nullptr; work = work->next) {
    FakeRead read{*work, {work->sg_list, work->sg_list + work->num_sge}, {}};
    for (const ibv_sge& segment : read.segments) read.bytes += segment.length;
    Known().bytes_under_way += read.bytes;
    ++Known().posted;
    if (FakeNetwork* const network = FakeVerbs::Get().network) {
      read.number = pair.in_network++;
      network->Post(qp->qp_num, pair.end, pair.peer_end, read.bytes, read.fenced());
    }
    pair.busy_until = std::max(pair.busy_until, FakeClock::now());
    if (rate > 0) pair.busy_until += std::chrono::nanoseconds(read.bytes * 1'000'000'000 / rate);
    read.due = pair.busy_until;
    const bool held =
        !pair.under_way.empty() &&
        (read.fenced() || std::any_of(pair.under_way.begin() + 1, pair.under_way.end(),
                                      std::mem_fn(&FakeRead::fenced)));
    if (!held && FakeVerbs::Get().brings && Allowed(read))
      Land(&read, FakeVerbs::Get().early_bytes);
    pair.under_way.push_back(std::move(read));
  }
  Known().peak_bytes = std::max(Known().peak_bytes, Known().bytes_under_way);
  return 0;
}

int PollCq(ibv_cq* cq, int most, ibv_wc* done) {
  const std::lock_guard lock(Known().mutex);
  FakeVerbs& fake = FakeVerbs::Get();
  const auto now = FakeClock::now();
  const FakeNetwork* const network = fake.network;
  const auto under_way = [&](const FakeQueuePair& pair, const FakeRead& read) {
    if (network != nullptr) return read.number >= network->Completed(pair.qp.qp_num);
    return !fake.brings || read.due > now;
  };
  ++Known().polls;
  int count = 0;
  for (FakeQueuePair* const pair : Known().queues.at(cq)->pairs) {
    while (count < most && !pair->under_way.empty()) {
      FakeRead& read = pair->under_way.front();
      bool report = true;
      ibv_wc wc{};
      wc.wr_id = read.work.wr_id;
      if (pair->stopped) {
        if (pair->qp.qp_num == fake.holds_on) break;
        wc.status = IBV_WC_WR_FLUSH_ERR;
      } else {
        if (under_way(*pair, read)) break;
        if (!Answered(*pair)) {
          wc.status = IBV_WC_RETRY_EXC_ERR;
        } else if (!Allowed(read)) {
          wc.status = IBV_WC_REM_ACCESS_ERR;
        } else if (fake.good_reads == 0) {
          wc.status = fake.then;
          fake.good_reads = FakeVerbs::kAll;
        } else {
          if (fake.good_reads != FakeVerbs::kAll) --fake.good_reads;
          Land(&read);
        }
        pair->stopped = wc.status != IBV_WC_SUCCESS;
        report = pair->stopped || (read.work.send_flags & IBV_SEND_SIGNALED) != 0;
      }
      Known().bytes_under_way -= read.bytes;
      pair->under_way.pop_front();
      if (report) done[count++] = wc;
    }
  }
  Known().reported += static_cast<size_t>(count);
  return count;
}

// Readable when the next READ that is signalled is due.
int RequestNotify(ibv_cq* cq, int) {
  const std::lock_guard lock(Known().mutex);
  auto first = FakeClock::time_point::max();
  for (const auto& [qp, pair] : Known().queue_pairs) {
    if (qp->send_cq != cq || !FakeVerbs::Get().brings) continue;
    const auto& reads = pair->under_way;
    const auto next = std::find_if(reads.begin(), reads.end(), [](const FakeRead& read) {
      return (read.work.send_flags & IBV_SEND_SIGNALED) != 0;
    });
    if (next != reads.end()) first = std::min(first, next->due);
  }
  itimerspec when{};
  if (first != FakeClock::time_point::max()) {
    const int64_t ns = std::chrono::nanoseconds(first.time_since_epoch()).count();
    when.it_value = {ns / 1'000'000'000, std::max<int64_t>(ns % 1'000'000'000, 1)};
  }
  timerfd_settime(Known().queues.at(cq)->channel->fd, TFD_TIMER_ABSTIME, &when, nullptr);
  return 0;
}

ibv_mr* Register(ibv_pd* pd, void* address, size_t length, const char* by, unsigned access) {
  std::unique_lock lock(Known().mutex);
  while (Known().registrations.size() >= FakeVerbs::Get().registers) {
    lock.unlock();
    usleep(1000);
    lock.lock();
  }
  Known().registrations.push_back({by, access});
  const int error = FakeVerbs::Get().relaxed_error;
  if (error != 0 && (access & IBV_ACCESS_RELAXED_ORDERING) != 0) {
    errno = error;
    return nullptr;
  }
  auto* mr = new ibv_mr{};
  mr->context = pd->context;
  mr->pd = pd;
  mr->addr = address;
  mr->length = length;
  mr->lkey = mr->rkey = Known().next_key++;
  ++Known().memory;
  if ((access & IBV_ACCESS_REMOTE_READ) != 0)
    Known().readable[mr->rkey] = {reinterpret_cast<uint64_t>(address), length};
  return mr;
}

ibv_device* TheDevice() {
  static ibv_device device{};
  std::strcpy(device.name, "fake0");
  return &device;
}

}  // namespace

void FakeVerbs::LetGo() {
  const std::lock_guard lock(state_->mutex);
  for (auto& [qp, pair] : state_->queue_pairs) {
    if (qp->qp_num != holds_on) continue;
    for (FakeRead& read : pair->under_way) {
      Land(&read);
      state_->bytes_under_way -= read.bytes;
    }
    pair->under_way.clear();
  }
  holds_on = 0;
  state_->let_go.notify_all();
}

}  // namespace peercache::rdma

#pragma GCC visibility push(default)
extern "C" {

using namespace peercache::rdma;  // NOLINT: the whole file is this library

ibv_device** ibv_get_device_list(int* count) {
  Known().Note("ibv_get_device_list");
  *count = 1;
  return new ibv_device* [2] { TheDevice(), nullptr };
}
void ibv_free_device_list(ibv_device** list) { delete[] list; }
const char* ibv_get_device_name(ibv_device* device) { return device->name; }
__be64 ibv_get_device_guid(ibv_device*) { return 0; }
ibv_context* ibv_open_device(ibv_device* device) {
  Known().Note("ibv_open_device");
  auto* context = new ibv_context{};
  context->device = device;
  context->ops.post_send = PostSend;
  context->ops.poll_cq = PollCq;
  context->ops.req_notify_cq = RequestNotify;
  context->async_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  context->num_comp_vectors = FakeVerbs::kVectors;
  return context;
}
int ibv_close_device(ibv_context* context) {
  close(context->async_fd);
  delete context;
  return 0;
}
int ibv_query_device(ibv_context*, ibv_device_attr* attributes) {
  attributes->max_mr_size = UINT64_MAX;
  attributes->max_qp_wr = attributes->max_cqe = 1 << 15;
  attributes->max_sge = attributes->max_sge_rd = 30;
  attributes->max_qp_rd_atom = attributes->max_qp_init_rd_atom = 16;
  return 0;
}
int ibv_query_port(ibv_context*, uint8_t, struct _compat_ibv_port_attr* compatible) {
  auto* attributes = reinterpret_cast<ibv_port_attr*>(compatible);
  attributes->state = IBV_PORT_ACTIVE;
  attributes->max_mtu = attributes->active_mtu = IBV_MTU_4096;
  attributes->max_msg_sz = 1U << 30;
  return 0;
}
int ibv_query_pkey(ibv_context*, uint8_t, int, __be16* pkey) {
  *pkey = 0xffff;
  return 0;
}
int ibv_query_gid(ibv_context*, uint8_t port, int, ibv_gid* gid) {
  std::memset(gid, 0, sizeof(*gid));
  if (!FakeVerbs::Get().addressed) return 0;
  constexpr uint8_t kNetwork[] = {0xff, 0xff, 10, 0, 0};
  std::copy(std::begin(kNetwork), std::end(kNetwork), gid->raw + 10);
  gid->raw[15] = FakeVerbs::GidByte(port);
  return 0;
}
int ibv_get_async_event(ibv_context*, ibv_async_event*) {
  errno = EAGAIN;
  return -1;
}
void ibv_ack_async_event(ibv_async_event*) {}
ibv_pd* ibv_alloc_pd(ibv_context* context) { return new ibv_pd{context, 0}; }
int ibv_dealloc_pd(ibv_pd* pd) {
  delete pd;
  return 0;
}
ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, size_t length, int access) {
  return Register(pd, address, length, "ibv_reg_mr", static_cast<unsigned>(access));
}
ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, size_t length, uint64_t, unsigned int access) {
  return Register(pd, address, length, "ibv_reg_mr_iova2", access);
}
ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, uint64_t, size_t length, uint64_t iova, int, int access) {
  return Register(pd, reinterpret_cast<void*>(iova), length, "ibv_reg_dmabuf_mr",
                  static_cast<unsigned>(access));
}
int ibv_dereg_mr(ibv_mr* mr) {
  const std::lock_guard lock(Known().mutex);
  Known().readable.erase(mr->rkey);
  --Known().memory;
  delete mr;
  return 0;
}
ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  return new ibv_comp_channel{context, timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC), 0};
}
int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  close(channel->fd);
  delete channel;
  return 0;
}
ibv_cq* ibv_create_cq(ibv_context* context, int, void* user, ibv_comp_channel* channel,
                      int vector) {
  const std::lock_guard lock(Known().mutex);
  if (channel != nullptr) Known().vectors.push_back(vector);
  auto queue = std::make_unique<FakeCompletionQueue>();
  queue->cq.context = context;
  queue->cq.cq_context = user;
  queue->channel = channel;
  ibv_cq* const cq = &queue->cq;
  Known().queues[cq] = std::move(queue);
  return cq;
}
int ibv_destroy_cq(ibv_cq* cq) {
  const std::lock_guard lock(Known().mutex);
  Known().queues.erase(cq);
  return 0;
}
int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq**, void**) {
  uint64_t times = 0;
  return read(channel->fd, &times, sizeof(times)) == sizeof(times) ? 0 : -1;
}
void ibv_ack_cq_events(ibv_cq*, unsigned int) {}
ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
  const std::lock_guard lock(Known().mutex);
  auto pair = std::make_unique<FakeQueuePair>();
  pair->qp.context = pd->context;
  pair->qp.pd = pd;
  pair->qp.send_cq = attributes->send_cq;
  pair->qp.qp_num = Known().next_queue_pair++;
  pair->ece = FakeVerbs::Get().ece;
  ibv_qp* const qp = &pair->qp;
  if (qp->send_cq != nullptr) Known().queues.at(qp->send_cq)->pairs.push_back(pair.get());
  Known().by_number[qp->qp_num] = pair.get();
  Known().queue_pairs[qp] = std::move(pair);
  return qp;
}
int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  const std::lock_guard lock(Known().mutex);
  Known().modified.push_back({*attributes, mask});
  FakeQueuePair& pair = *Known().queue_pairs.at(qp);
  qp->state = attributes->qp_state;
  if ((mask & IBV_QP_PORT) != 0) {
    const uint8_t port = attributes->port_num;
    pair.end = {port, Known().turns[port]++};
    if (port == FakeVerbs::Get().shared_port) ++Known().turns[port];
  }
  if ((mask & IBV_QP_DEST_QPN) != 0) {
    pair.peer = attributes->dest_qp_num;
    const auto peer = Known().by_number.find(pair.peer);
    if (peer != Known().by_number.end()) {
      pair.peer_end = peer->second->end;
      pair.end.selective = (pair.taken & peer->second->taken) != 0;
    }
  }
  if (attributes->qp_state == IBV_QPS_ERR) {
    pair.stopped = true;
    if (FakeNetwork* const network = FakeVerbs::Get().network) network->Forget(qp->qp_num);
  }
  return 0;
}
int ibv_destroy_qp(ibv_qp* qp) {
  std::unique_lock lock(Known().mutex);
  const uint32_t number = qp->qp_num;
  Known().let_go.wait(lock, [&] { return FakeVerbs::Get().holds_on != number; });
  FakeQueuePair* const pair = Known().queue_pairs.at(qp).get();
  for (const FakeRead& read : pair->under_way) Known().bytes_under_way -= read.bytes;
  if (qp->send_cq != nullptr) std::erase(Known().queues.at(qp->send_cq)->pairs, pair);
  Known().by_number.erase(number);
  Known().queue_pairs.erase(qp);
  ++Known().destroyed;
  return 0;
}
int ibv_query_ece(ibv_qp* qp, ibv_ece* ece) {
  const std::lock_guard lock(Known().mutex);
  *ece = {0x15b3, Known().queue_pairs.at(qp)->ece, 0};
  return 0;
}
// A queue pair that can receive already is as it is.
int ibv_set_ece(ibv_qp* qp, ibv_ece* ece) {
  const std::lock_guard lock(Known().mutex);
  FakeQueuePair& pair = *Known().queue_pairs.at(qp);
  if (ece->vendor_id != 0x15b3 || qp->state != IBV_QPS_INIT) return EINVAL;
  pair.ece = pair.taken = pair.ece & ece->options;
  return 0;
}
const char* ibv_wc_status_str(ibv_wc_status) { return "a status"; }
const char* ibv_port_state_str(ibv_port_state) { return "a state"; }
const char* ibv_event_type_str(ibv_event_type) { return "an event"; }
ibv_fork_status ibv_is_fork_initialized() {
  Known().Note("ibv_is_fork_initialized");
  return FakeVerbs::Get().fork;
}
int ibv_fork_init() {
  Known().Note("ibv_fork_init");
  return 0;
}

}  // extern "C"
#pragma GCC visibility pop
