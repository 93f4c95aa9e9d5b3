// PoolServer: hands this node's pool, to be read, to other nodes of the cluster on this machine.
//
//   reader                                   holder, at PoolSocket(directory, holder)
//   Hello{key id, nonce, to: the socket} ->
//                                        <-  Challenge, as on TCP (transport/peer_key.h)
//   Prove                                ->
//                                        <-  ProveOk with a read-only descriptor of the pool
//
// Without a secret HelloOk carries the descriptor: then whoever may connect to the socket, which is
// for this process's user alone, is a peer, as on the peer port. `to` keeps proofs of TCP
// connections from being good here, and the reverse.
//
// The connection then stays: the reader unmaps the pool when it ends, so that the memory of a node
// that is gone is freed. It ends with the node, and with the secret by which it was made.
//
// What a process has mapped cannot be taken back from it. Nobody but this node can write there
// (readable_pool.h).
//
// Where another process has the socket, as a node with the same name that has not quite ended, it
// waits for that.
//
// Thread-safe.
#pragma once

#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"
#include "node/peer/secret.h"
#include "wire/messages.h"

namespace peercache {

// Of one greeting, at most: how long it takes, and the body of each frame.
inline constexpr milliseconds kPoolGreeting{1000};
inline constexpr uint32_t kMaxPoolGreetingBody = 4096;

// Where node `node` waits for readers of its pool; `directory` is shared by the nodes of a machine.
std::string PoolSocket(const std::string& directory, uint64_t node);

// After the greeting neither side says anything: a connection with a byte or an end has ended.
bool PoolConnectionEnded(int fd);

class PoolServer {
 public:
  // `self`: this node. `secret` outlives this. `pool`: to be read (readable_pool.h).
  PoolServer(const std::string& directory, Hello self, const Secret* secret, UniqueFd pool);
  ~PoolServer();
  PoolServer(const PoolServer&) = delete;
  PoolServer& operator=(const PoolServer&) = delete;

 private:
  struct Reader {
    UniqueFd fd;
    uint64_t key;  // by which it has proven itself; 0: by none
  };
  void Run();
  // Until it listens; false: it is to stop.
  bool Listen();
  Status Greet(int fd, uint64_t* key) const;
  // Ends connections whose reader has gone or whose secret is not good any more.
  void DropEnded();

  const std::string path_;
  const Hello self_;  // `to` is path_
  const Secret* const secret_;
  const UniqueFd pool_;
  std::list<Reader> readers_;  // of the thread
  std::mutex mutex_;           // over the next two
  UniqueFd listener_;          // once it is there, it stays
  bool stop_ = false;
  std::condition_variable wake_;
  std::thread thread_;
};

}  // namespace peercache
