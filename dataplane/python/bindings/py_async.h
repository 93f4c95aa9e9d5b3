// PyAsyncClient: the AsyncClient as Python sees it. Nothing raises: a call that cannot be taken is
// (None, reason). Thread-safe; the GIL is released wherever something may wait.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <mutex>

#include "bindings/arguments.h"
#include "client/async_client.h"

namespace peercache::bindings {

class PyAsyncClient {
 public:
  explicit PyAsyncClient(std::unique_ptr<AsyncClient> async) : async_(std::move(async)) {}
  ~PyAsyncClient() { Close(); }
  PyAsyncClient(const PyAsyncClient&) = delete;
  PyAsyncClient& operator=(const PyAsyncClient&) = delete;

  // Each answers (AsyncCall, "") or (None, reason).
  pybind11::tuple Set(const pybind11::handle& prefix, uint64_t tag, const pybind11::handle& keys,
                      const pybind11::handle& ptrs, const pybind11::handle& sizes);
  pybind11::tuple Get(const pybind11::handle& prefix, const pybind11::handle& keys,
                      const pybind11::handle& ptrs, const pybind11::handle& sizes,
                      PageTokens page_tokens);
  pybind11::tuple Presence(const pybind11::handle& prefix, const pybind11::handle& keys,
                           PageTokens page_tokens);
  // Finishes what was submitted.
  void Close();

 private:
  template <typename Submit>
  pybind11::tuple Move(const pybind11::handle& prefix, const pybind11::handle& keys,
                       const pybind11::handle& ptrs, const pybind11::handle& sizes, Submit submit);
  std::shared_ptr<AsyncClient> async() const;

  mutable std::mutex mutex_;
  std::shared_ptr<AsyncClient> async_;  // null once closed
};

void BindAsync(pybind11::module_* module);

}  // namespace peercache::bindings
