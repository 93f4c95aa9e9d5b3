// PeerConnection: one connection of a TcpServer, and what has been received and not yet sent on it.
// PeerLane: one thread of the server, with its connections; only that thread touches them.
#pragma once

#include <asio.hpp>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/give_back.h"
#include "transport/peer_service.h"
#include "transport/tcp/gate.h"
#include "transport/tcp/in_flight.h"
#include "transport/tcp/inbox.h"
#include "transport/tcp/page_pipe.h"
#include "transport/tcp/server.h"
#include "transport/tcp/stream.h"

namespace peercache {

struct PeerLane;

struct PeerConnection {
  PeerConnection(PeerLane* l, asio::ip::tcp::socket s, Gate::Visit v,
                 const TcpServerOptions& options);
  ~PeerConnection() { Close(); }
  void Close() {
    if (!socket.is_open()) return;
    // Before the descriptor can be another connection's.
    in.hold().Release();
    unsent.Release();
    granted.cancel();
    in_flight.BeforeClose(socket.native_handle(), written);
    stream.Detach();
    asio::error_code ignored;
    socket.close(ignored);
  }
  bool Settle() { return in_flight.Settle(socket.native_handle(), written); }
  // Between requests, when none has come for a while.
  void Rest() {
    GiveBack(kKeptBytes, &answer.pages, &pages);
    in_flight.Rest();
    std::vector<std::byte>().swap(out);
    answer.frame = FrameWriter();
  }
  PeerLane* const lane;
  asio::ip::tcp::socket socket;
  Stream stream;                              // over the socket
  std::list<PeerConnection*>::iterator here;  // in one of the lane's lists
  std::optional<Gate::Visit> visit;           // while it is a stranger
  const TimePoint arrived = Clock::now();
  Inbox in;
  FrameMemory::Hold unsent;    // of the answers in `out`
  asio::steady_timer granted;  // never expires; cancelled when memory is granted, or at the end
  bool greeted = false;
  bool worked = false;       // since the sweeper came round
  bool awaits_turn = false;  // what it waits for memory for, if it does: not its frame
  bool writing = false;
  std::optional<Proof> expected;  // until it is greeted, where there is a secret
  uint64_t key = 0;               // that it was greeted by, and what for
  bool only_members = false;
  // Of the write in flight: its last progress, and when all of it must be done.
  TimePoint progress{}, write_until{};
  uint64_t written = 0;    // bytes that the socket has taken
  InFlight in_flight;      // of the answer that was sent last
  bool unsettled = false;  // it is in the lane's list of these
  PeerAnswer answer;
  std::shared_ptr<const void> lent;  // PeerAnswer::lent of an earlier answer
  std::vector<std::byte> out;        // complete answers without pages, sent together
  std::vector<iovec> pages;          // of the answer that is being sent
};

struct PeerLane {
  asio::io_context context{1};
  std::list<PeerConnection*> connections;
  std::vector<PagePipe> pipes;           // idle and empty
  std::list<PeerConnection*> strangers;  // the oldest first
  // With pages in flight, or a moment ago; and when these are looked at, if there are any.
  std::vector<PeerConnection*> unsettled;
  asio::steady_timer settle{context};
  // That wait for memory; and when these are looked at, if there are any.
  std::vector<PeerConnection*> waiting;
  asio::steady_timer grant{context};
  Meter complaints;
  std::thread thread;
};

inline PeerConnection::PeerConnection(PeerLane* l, asio::ip::tcp::socket s, Gate::Visit v,
                                      const TcpServerOptions& options)
    : lane(l),
      socket(std::move(s)),
      stream(socket.native_handle(),
             options.tls ? options.tls->Accepting(socket.native_handle()) : nullptr),
      visit(std::move(v)),
      in(options.memory),
      unsent(options.memory),
      granted(l->context, asio::steady_timer::time_point::max()) {}

}  // namespace peercache
