#include "bindings/py_async.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace py = pybind11;

namespace peercache::bindings {
namespace {

// Far enough for any wait, and near enough not to overflow a time point.
constexpr double kLongestWaitSeconds = 1e6;

py::tuple Refused(const Status& status) { return py::make_tuple(py::none(), status.message()); }

py::tuple Answer(const Result<AsyncClient::Call>& call) {
  return call.ok() ? py::make_tuple(*call, "") : Refused(call.status());
}

Status Closed() { return Unavailable("the client is closed"); }

bool Wait(const AsyncCall& call, double seconds) {
  const std::chrono::duration<double> limit(std::clamp(seconds, 0.0, kLongestWaitSeconds));
  const TimePoint deadline = Clock::now() + std::chrono::duration_cast<Duration>(limit);
  py::gil_scoped_release released;
  return call.WaitUntil(deadline);
}

}  // namespace

std::shared_ptr<AsyncClient> PyAsyncClient::async() const {
  std::lock_guard lock(mutex_);
  return async_;
}

template <typename Submit>
py::tuple PyAsyncClient::Move(const py::handle& prefix, const py::handle& keys,
                              const py::handle& ptrs, const py::handle& sizes, Submit submit) {
  const auto async = this->async();
  if (!async) return Refused(Closed());
  const auto parsed = ParseKeys(prefix, keys);
  if (!parsed.ok()) return Refused(parsed.status());
  const auto segments = ParseSegments(ptrs, sizes);
  if (!segments.ok()) return Refused(segments.status());
  const size_t per_page = parsed->empty() ? 1 : segments->size() / parsed->size();
  return Answer(submit(async.get(), *parsed, *segments, per_page));
}

py::tuple PyAsyncClient::Set(const py::handle& prefix, uint64_t tag, const py::handle& keys,
                             const py::handle& ptrs, const py::handle& sizes) {
  return Move(prefix, keys, ptrs, sizes,
              [tag](AsyncClient* async, const auto& page_keys, const auto& segments, size_t n) {
                return async->Set(page_keys, segments, n, tag);
              });
}

py::tuple PyAsyncClient::Get(const py::handle& prefix, const py::handle& keys,
                             const py::handle& ptrs, const py::handle& sizes,
                             PageTokens page_tokens) {
  return Move(prefix, keys, ptrs, sizes,
              [&](AsyncClient* async, const auto& page_keys, const auto& segments, size_t n) {
                return async->Get(page_keys, segments, n, CountingOf(page_tokens));
              });
}

py::tuple PyAsyncClient::Presence(const py::handle& prefix, const py::handle& keys,
                                  PageTokens page_tokens) {
  const auto async = this->async();
  if (!async) return Refused(Closed());
  const auto parsed = ParseKeys(prefix, keys);
  if (!parsed.ok()) return Refused(parsed.status());
  return Answer(async->Presence(*parsed, CountingOf(page_tokens)));
}

void PyAsyncClient::Close() {
  py::gil_scoped_release released;
  std::shared_ptr<AsyncClient> last;
  std::lock_guard lock(mutex_);
  last.swap(async_);
}

void BindAsync(py::module_* module) {
  py::class_<AsyncCall, std::shared_ptr<AsyncCall>>(*module, "AsyncCall")
      .def("done", &AsyncCall::done)
      .def("wait", &Wait, py::arg("seconds"),
           "Whether it is done within so many seconds; if not, it stays under way.")
      .def(
          "pages",
          [](const AsyncCall& call) -> py::object {
            return call.done() ? py::object(ToBools(call.pages())) : py::none();
          },
          "Per page whether a set or get worked, or whether it can be read; None before it is "
          "done.");
  py::class_<PyAsyncClient>(*module, "AsyncClient")
      .def("set", &PyAsyncClient::Set, py::arg("prefix"), py::arg("tag"), py::arg("keys"),
           py::arg("ptrs"), py::arg("sizes"), "(AsyncCall, \"\") or (None, reason).")
      .def("get", &PyAsyncClient::Get, py::arg("prefix"), py::arg("keys"), py::arg("ptrs"),
           py::arg("sizes"), py::arg("page_tokens") = PageTokens(0),
           "(AsyncCall, \"\") or (None, reason). page_tokens as Client.get has it.")
      .def("presence", &PyAsyncClient::Presence, py::arg("prefix"), py::arg("keys"),
           py::arg("page_tokens") = PageTokens(0),
           "(AsyncCall, \"\") or (None, reason). page_tokens: the keys are one prompt's, in its "
           "order; None when other calls count them.")
      .def("close", &PyAsyncClient::Close, "Finishes what was submitted.");
}

}  // namespace peercache::bindings
