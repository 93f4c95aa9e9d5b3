// Upkeep: the node's housekeeping thread. It makes room before sets need it, keeps the directory
// repaired and fresh, and carries out clears. Everything that must wait for other nodes outside an
// engine's call happens here.
//
// Room is how sets ask for space and wait for it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "node/counters.h"
#include "node/publisher.h"
#include "node/views.h"
#include "pool/pool.h"

namespace peercache {

class Room {
 public:
  // Asks for room for a page of `length` bytes and waits until some slots were freed. False on
  // time-out.
  bool WaitForRoom(size_t length, TimePoint deadline);

 private:
  friend class Upkeep;
  std::mutex mutex_;
  std::condition_variable freed_, wanted_;
  size_t wanted_length_ = 0;  // largest page somebody waits for; 0: nobody
  uint64_t rounds_ = 0;       // of freeing
  bool stop_ = false;
};

struct UpkeepOptions {
  Duration tick = milliseconds(20);
  Duration keepalive = milliseconds(500);  // well below the shards' owner_ttl
};

class Upkeep {
 public:
  // `synced` is told the view for which every record is in place.
  Upkeep(UpkeepOptions options, Pool* pool, Shard* shard, Publisher* publisher, const Views* views,
         Room* room, std::function<void(const View&)> synced);
  ~Upkeep();

  // Takes the pages under `tag` out of service at once; their slots are freed in the background.
  // Returns how many can still be found: in use (being sent or published), or with records that are
  // not withdrawn yet. Ask again until there are none.
  size_t Clear(uint64_t tag);

 private:
  void RunRoom();
  void RunDirectory();
  void MakeRoom(size_t wanted_length);
  void Retire(std::vector<Victim> victims);

  const UpkeepOptions options_;
  Pool* const pool_;
  Shard* const shard_;
  Publisher* const publisher_;
  const Views* const views_;
  Room* const room_;
  const std::function<void(const View&)> synced_;
  std::mutex cleared_mutex_;
  std::vector<Victim> cleared_;
  size_t unwithdrawn_ = 0;  // cleared pages whose records may still be found
  std::atomic<bool> stop_{false};
  std::thread room_thread_, directory_thread_;
};

}  // namespace peercache
