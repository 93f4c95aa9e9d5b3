// Measures what it costs to keep the pages of an answer pinned until its reader has acknowledged
// them, beside unpinning them as soon as they are in the socket:
//
//   cmake --build build/release --target in_flight_benchmark && build/release/in_flight_benchmark
//
// Time is CPU time of the one thread, so that other processes disturb little.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "transport/tcp/in_flight.h"
#include "transport/tcp/socket.h"

namespace {

using namespace peercache;

constexpr size_t kPageBytes = 4096, kMostPages = 128;
constexpr int kRounds = 5000;

double CpuNanos() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

class Connection {
 public:
  static Result<Connection> Make() {
    auto listener = Listen("127.0.0.1", 0);
    if (!listener.ok()) return listener.status();
    auto reader = StartConnect("127.0.0.1", listener->port);
    if (!reader.ok()) return reader.status();
    UniqueFd holder(accept(listener->fd.get(), nullptr, nullptr));
    if (holder.get() < 0) return Unavailable("nobody connects");
    for (const int socket : {holder.get(), reader->get()})
      (void)fcntl(socket, F_SETFL, 0);  // waits
    return Connection(std::move(holder), std::move(*reader));
  }
  // A byte each way: that of the reader acknowledges that of the holder. The bytes written so far.
  uint64_t Exchange() {
    char byte = 0;
    for (auto [from, to] : {std::pair(&holder_, &reader_), std::pair(&reader_, &holder_)})
      if (send(from->get(), &byte, 1, 0) != 1 || recv(to->get(), &byte, 1, MSG_WAITALL) != 1)
        std::abort();
    return ++written_;
  }
  int holder() const { return holder_.get(); }

 private:
  Connection(UniqueFd holder, UniqueFd reader)
      : holder_(std::move(holder)), reader_(std::move(reader)) {}
  UniqueFd holder_, reader_;
  uint64_t written_ = 0;
};

Key KeyOf(size_t number) {
  Key key;
  std::memcpy(key.bytes.data(), &number, sizeof(number));
  return key;
}

}  // namespace

int main() {
  auto pool = Pool::Create({.bytes = 64 << 20, .huge_pages = HugePages::kOff});
  auto connection = Connection::Make();
  if (!pool.ok() || !connection.ok()) return 1;
  for (size_t i = 0; i < kMostPages; ++i) {
    auto slot = (*pool)->Reserve(kPageBytes);
    bool duplicate = false;
    if (!slot.ok() || !(*pool)->Commit(std::move(*slot), KeyOf(i), 0, 0, &duplicate)) return 1;
  }
  InFlight in_flight;
  for (const size_t pages : {size_t{32}, kMostPages}) {
    std::vector<PagePin> pins;
    const auto pin = [&] {
      for (size_t i = 0; i < pages; ++i) pins.push_back((*pool)->Find(KeyOf(i)));
    };
    double held = 1e18, at_once = 1e18;
    for (int round = 0; round < kRounds; ++round) {
      pin();
      const uint64_t written = connection->Exchange();
      double start = CpuNanos();
      in_flight.Take(&pins);
      in_flight.Sent(written);
      if (!in_flight.Settle(connection->holder(), written)) return 1;
      held = std::min(held, CpuNanos() - start);
      pin();
      start = CpuNanos();
      pins.clear();
      at_once = std::min(at_once, CpuNanos() - start);
    }
    fmt::print(
        "{} pages: {:.0f} ns held until acknowledged, {:.0f} ns unpinned at once (best of {})\n",
        pages, held, at_once, kRounds);
  }
}
