// PyClient: the Client as Python sees it. Nothing raises: bad arguments and faults of the cache are
// misses, and both are counted (stats()["faults"], stats()["last_fault"]).
//
// The GIL is released while the node works. Thread-safe; close() lets calls in flight finish.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "base/status.h"
#include "bindings/arguments.h"
#include "bindings/page_map.h"
#include "bindings/py_async.h"
#include "client/client.h"

namespace peercache::bindings {

class PyClient {
 public:
  explicit PyClient(std::shared_ptr<Client> client) : client_(std::move(client)) {}

  bool Attached() const;
  std::string RegisterRegion(int fd, uint64_t base, uint64_t length, uint64_t offset);
  // (DmaBufWays, "") or (None, reason).
  pybind11::tuple RegisterDmaBuf(int fd, uint64_t address, uint64_t length, uint64_t offset);
  pybind11::tuple RegisterDevicePointer(uint64_t address, uint64_t length);
  pybind11::list Set(const pybind11::handle& prefix, uint64_t tag, const pybind11::handle& keys,
                     const pybind11::handle& ptrs, const pybind11::handle& sizes);
  pybind11::list Get(const pybind11::handle& prefix, const pybind11::handle& keys,
                     const pybind11::handle& ptrs, const pybind11::handle& sizes,
                     PageTokens page_tokens);
  // Like Set and Get, of the pages whose rows are the `count` int64 at address `rows`. None, and
  // nothing was done, when they are not pages of the map, one for each key, or a key is no hash.
  pybind11::object SetRows(const pybind11::handle& prefix, uint64_t tag,
                           const pybind11::handle& keys, const PageMap& map, uint64_t rows,
                           size_t count);
  pybind11::object GetRows(const pybind11::handle& prefix, const pybind11::handle& keys,
                           const PageMap& map, uint64_t rows, size_t count, PageTokens page_tokens);
  size_t Exists(const pybind11::handle& prefix, const pybind11::handle& keys,
                PageTokens page_tokens);
  // For each of the prefixes a bytes object with 1 for each key that can be read, else 0. None, and
  // nothing was asked, when a key is no hash or the node's release does not know the question.
  pybind11::object Presence(const pybind11::handle& prefixes, const pybind11::handle& keys);
  void SetPrefill(uint32_t tokens_per_second);
  std::string Clear(uint64_t tag);
  // Null when the client is closed.
  std::unique_ptr<PyAsyncClient> Asynchronous(size_t window, size_t max_pending);
  pybind11::dict Stats() const;
  void Close();

 private:
  enum class Direction { kSet, kGet };
  pybind11::list Move(Direction direction, const pybind11::handle& prefix, uint64_t tag,
                      const pybind11::handle& keys, const pybind11::handle& ptrs,
                      const pybind11::handle& sizes, Counting counting = {});
  pybind11::object MoveRows(Direction direction, const pybind11::handle& prefix, uint64_t tag,
                            const pybind11::handle& keys, const PageMap& map, uint64_t rows,
                            size_t count, Counting counting = {});
  static pybind11::list Call(Client* client, Direction direction, uint64_t tag,
                             std::span<const Key> keys, std::span<const Segment> segments,
                             Counting counting);
  template <typename Register>
  pybind11::tuple RegisterDevice(const Register& register_at);
  std::shared_ptr<Client> client() const;
  void Fault(const Status& status);

  mutable std::mutex mutex_;
  std::shared_ptr<Client> client_;  // null once closed
  ClientStats last_;                // of the client that was closed
  uint64_t bad_calls_ = 0;
  uint64_t faults_before_bad_call_ = 0;  // of the client; more now: its last fault is the latest
  std::string last_bad_call_;
};

void BindClient(pybind11::module_* module);

}  // namespace peercache::bindings
