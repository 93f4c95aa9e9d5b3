#include "bindings/py_client.h"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <chrono>
#include <vector>

#include "bindings/arguments.h"

namespace py = pybind11;

namespace peercache::bindings {
namespace {

py::tuple Connect(const std::string& socket, const std::string& engine, int64_t timeout_ms,
                  uint64_t staging_bytes) {
  ClientOptions options;
  options.socket = socket;
  options.engine = engine;
  options.timeout = milliseconds(timeout_ms);
  options.staging_bytes = staging_bytes;
  auto connected = [&] {
    py::gil_scoped_release released;
    return Client::Connect(std::move(options));
  }();
  if (!connected.ok()) return py::make_tuple(py::none(), connected.status().message());
  return py::make_tuple(std::make_unique<PyClient>(std::move(connected.value())), "");
}

py::list AllFalse(const py::handle& keys) {
  const Py_ssize_t count = PySequence_Size(keys.ptr());
  if (count < 0) PyErr_Clear();
  return ToBools(std::vector<uint8_t>(count > 0 ? static_cast<size_t>(count) : 0));
}

}  // namespace

std::shared_ptr<Client> PyClient::client() const {
  std::lock_guard lock(mutex_);
  return client_;
}

void PyClient::Fault(const Status& status) {
  const auto client = this->client();
  const uint64_t faults = client ? client->stats().faults : 0;
  std::lock_guard lock(mutex_);
  ++bad_calls_;
  faults_before_bad_call_ = faults;
  last_bad_call_ = status.ToString();
}

bool PyClient::Attached() const {
  const auto client = this->client();
  return client && client->attached();
}

std::string PyClient::RegisterRegion(int fd, uint64_t base, uint64_t length, uint64_t offset) {
  const auto client = this->client();
  if (!client) return "the client is closed";
  py::gil_scoped_release released;
  const Status status = client->RegisterRegion(fd, reinterpret_cast<void*>(base), length, offset);
  return status.ok() ? "" : status.message();
}

template <typename Register>
py::tuple PyClient::RegisterDevice(const Register& register_at) {
  const auto client = this->client();
  if (!client) return py::make_tuple(py::none(), "the client is closed");
  auto ways = [&]() -> Result<DmaBufWays> {
    py::gil_scoped_release released;
    return register_at(client.get());
  }();
  if (!ways.ok()) return py::make_tuple(py::none(), ways.status().message());
  return py::make_tuple(std::move(*ways), "");
}

py::tuple PyClient::RegisterDmaBuf(int fd, uint64_t address, uint64_t length, uint64_t offset) {
  return RegisterDevice(
      [=](Client* client) { return client->RegisterDmaBuf(fd, address, length, offset); });
}

py::tuple PyClient::RegisterDevicePointer(uint64_t address, uint64_t length) {
  return RegisterDevice(
      [=](Client* client) { return client->RegisterDevicePointer(address, length); });
}

py::list PyClient::Move(Direction direction, const py::handle& prefix, uint64_t tag,
                        const py::handle& keys, const py::handle& ptrs, const py::handle& sizes,
                        Counting counting) {
  const auto client = this->client();
  if (!client) return AllFalse(keys);
  const auto parsed = ParseKeys(prefix, keys);
  if (!parsed.ok()) {
    Fault(parsed.status());
    return AllFalse(keys);
  }
  const auto segments = ParseSegments(ptrs, sizes);
  if (!segments.ok()) {
    Fault(segments.status());
    return AllFalse(keys);
  }
  if (parsed->empty()) return py::list();
  if (segments->empty() || segments->size() % parsed->size() != 0) {
    Fault(InvalidArgument(
        fmt::format("{} segments do not divide into {} pages", segments->size(), parsed->size())));
    return AllFalse(keys);
  }
  return Call(client.get(), direction, tag, *parsed, *segments, counting);
}

py::object PyClient::MoveRows(Direction direction, const py::handle& prefix, uint64_t tag,
                              const py::handle& keys, const PageMap& map, uint64_t rows,
                              size_t count, Counting counting) {
  const auto client = this->client();
  if (!client) return AllFalse(keys);
  const auto parsed = ParseKeys(prefix, keys);
  if (!parsed.ok()) return py::none();
  const auto segments = map.Segments({reinterpret_cast<const int64_t*>(rows), count});
  if (!segments || segments->size() != parsed->size() * map.per_page()) return py::none();
  if (parsed->empty()) return py::list();
  return Call(client.get(), direction, tag, *parsed, *segments, counting);
}

// `segments` divide into as many pages as there are keys, which is at least one.
py::list PyClient::Call(Client* client, Direction direction, uint64_t tag,
                        std::span<const Key> keys, std::span<const Segment> segments,
                        Counting counting) {
  std::vector<uint8_t> ok(keys.size());
  {
    py::gil_scoped_release released;
    const size_t per_page = segments.size() / keys.size();
    if (direction == Direction::kSet) {
      client->Set(keys, segments, per_page, tag, ok);
    } else {
      client->Get(keys, segments, per_page, ok, counting);
    }
  }
  return ToBools(ok);
}

py::list PyClient::Set(const py::handle& prefix, uint64_t tag, const py::handle& keys,
                       const py::handle& ptrs, const py::handle& sizes) {
  return Move(Direction::kSet, prefix, tag, keys, ptrs, sizes);
}

py::list PyClient::Get(const py::handle& prefix, const py::handle& keys, const py::handle& ptrs,
                       const py::handle& sizes, PageTokens page_tokens) {
  return Move(Direction::kGet, prefix, 0, keys, ptrs, sizes, CountingOf(page_tokens));
}

py::object PyClient::SetRows(const py::handle& prefix, uint64_t tag, const py::handle& keys,
                             const PageMap& map, uint64_t rows, size_t count) {
  return MoveRows(Direction::kSet, prefix, tag, keys, map, rows, count);
}

py::object PyClient::GetRows(const py::handle& prefix, const py::handle& keys, const PageMap& map,
                             uint64_t rows, size_t count, PageTokens page_tokens) {
  return MoveRows(Direction::kGet, prefix, 0, keys, map, rows, count, CountingOf(page_tokens));
}

size_t PyClient::Exists(const py::handle& prefix, const py::handle& keys, PageTokens page_tokens) {
  const auto client = this->client();
  if (!client) return 0;
  const auto parsed = ParseKeys(prefix, keys);
  if (!parsed.ok()) {
    Fault(parsed.status());
    return 0;
  }
  if (parsed->empty()) return 0;
  py::gil_scoped_release released;
  return client->Exists(*parsed, CountingOf(page_tokens));
}

py::object PyClient::Presence(const py::handle& prefixes, const py::handle& keys) {
  const auto parsed = ParseKeysOfEach(prefixes, keys);
  if (!parsed.ok()) return py::none();
  std::vector<uint8_t> there(parsed->keys.size());
  if (const auto client = this->client(); client && !there.empty()) {
    py::gil_scoped_release released;
    if (!client->Presence(parsed->keys, there)) there.clear();
  }
  if (there.size() != parsed->keys.size()) return py::none();
  const size_t each = there.size() / parsed->prefixes;
  py::list lists(parsed->prefixes);
  for (size_t i = 0; i < parsed->prefixes; ++i)
    lists[i] = py::bytes(reinterpret_cast<const char*>(there.data()) + i * each, each);
  return lists;
}

void PyClient::SetPrefill(uint32_t tokens_per_second) {
  if (const auto client = this->client()) client->SetPrefill(tokens_per_second);
}

std::string PyClient::Clear(uint64_t tag) {
  const auto client = this->client();
  if (!client) return "the client is closed";
  py::gil_scoped_release released;
  const Status status = client->Clear(tag);
  return status.ok() ? "" : status.message();
}

std::unique_ptr<PyAsyncClient> PyClient::Asynchronous(size_t window, size_t max_pending) {
  auto client = this->client();
  if (!client) return nullptr;
  return std::make_unique<PyAsyncClient>(
      std::make_unique<AsyncClient>(std::move(client), AsyncOptions{window, max_pending}));
}

py::dict PyClient::Stats() const {
  const auto client = this->client();
  std::unique_lock lock(mutex_);
  const ClientStats stats = client ? client->stats() : last_;
  const bool bad_call_is_latest = bad_calls_ > 0 && stats.faults <= faults_before_bad_call_;
  const std::string last_fault = bad_call_is_latest ? last_bad_call_ : stats.last_fault;
  const uint64_t bad_calls = bad_calls_;
  lock.unlock();
  py::dict dict;
  dict["set_pages"] = stats.set_pages;
  dict["set_failed"] = stats.set_failed;
  dict["get_pages"] = stats.get_pages;
  dict["get_hits"] = stats.get_hits;
  dict["exists_pages"] = stats.exists_pages;
  dict["exists_hits"] = stats.exists_hits;
  dict["presence_pages"] = stats.presence_pages;
  dict["presence_hits"] = stats.presence_hits;
  dict["bytes_set"] = stats.bytes_set;
  dict["bytes_get"] = stats.bytes_get;
  dict["staged_bytes"] = stats.staged_bytes;
  dict["faults"] = stats.faults + bad_calls;
  dict["reconnects"] = stats.reconnects;
  dict["last_fault"] = last_fault;
  dict["attached"] = client && stats.attached;
  dict["node"] = stats.node;
  dict["detached"] = client ? stats.detached : "the client is closed";
  return dict;
}

void PyClient::Close() {
  py::gil_scoped_release released;
  std::shared_ptr<Client> client;
  {
    std::lock_guard lock(mutex_);
    client.swap(client_);
    if (client) last_ = client->stats();
  }
}

void BindClient(py::module_* module) {
  module->def(
      "connect", &Connect, py::arg("socket"), py::arg("engine"), py::arg("timeout_ms"),
      py::arg("staging_bytes"),
      "A client of the node behind a Unix socket, now or when there is one: (Client, \"\"), "
      "or (None, reason) when waiting for it would not help.");
  py::class_<DmaBufWays>(*module, "DmaBufWays")
      .def_readonly("rdma", &DmaBufWays::rdma)
      .def_readonly("copies", &DmaBufWays::copies)
      .def_readonly("missing", &DmaBufWays::missing);
  py::class_<PyClient>(*module, "Client")
      .def_property_readonly("attached", &PyClient::Attached, "Whether there is a node now.")
      .def(
          "register_region", &PyClient::RegisterRegion, py::arg("fd"), py::arg("base"),
          py::arg("length"), py::arg("offset") = 0,
          "Shares bytes [offset, offset + length) of a memfd, mapped at `base`, with the node, now "
          "or when there is one: \"\" or the reason why not.")
      .def("register_dmabuf", &PyClient::RegisterDmaBuf, py::arg("fd"), py::arg("address"),
           py::arg("length"), py::arg("offset") = 0,
           "Shares bytes [offset, offset + length) of a dma-buf, which ptrs name by `address`: "
           "(DmaBufWays, \"\") or (None, what is missing).")
      .def("register_device_pointer", &PyClient::RegisterDevicePointer, py::arg("address"),
           py::arg("length"),
           "The same of device memory of this process, which the node is in (nvidia-peermem).")
      .def("set", &PyClient::Set, py::arg("prefix"), py::arg("tag"), py::arg("keys"),
           py::arg("ptrs"), py::arg("sizes"), "True for each page that every reader can see now.")
      .def("get", &PyClient::Get, py::arg("prefix"), py::arg("keys"), py::arg("ptrs"),
           py::arg("sizes"), py::arg("page_tokens") = PageTokens(0),
           "True for each page whose bytes are in place. page_tokens, for the hit ratio: tokens of "
           "a page, 0 when not known; None: other calls count these pages.")
      .def("set_rows", &PyClient::SetRows, py::arg("prefix"), py::arg("tag"), py::arg("keys"),
           py::arg("map"), py::arg("rows"), py::arg("count"),
           "set() of the pages whose rows are the `count` int64 at address `rows`; None, and "
           "nothing was done, when they are not pages of the map or a key is not 64 hex digits.")
      .def("get_rows", &PyClient::GetRows, py::arg("prefix"), py::arg("keys"), py::arg("map"),
           py::arg("rows"), py::arg("count"), py::arg("page_tokens") = PageTokens(0),
           "get(), as set_rows().")
      .def("exists", &PyClient::Exists, py::arg("prefix"), py::arg("keys"),
           py::arg("page_tokens") = PageTokens(0),
           "Length of the leading run of keys that can be read now.")
      .def("presence", &PyClient::Presence, py::arg("prefixes"), py::arg("keys"),
           "For each prefix a bytes object with 1 for each key that can be read now, else 0; None, "
           "and nothing was asked, when a key is not 64 hex digits or the node is of a release "
           "that only counts leading runs.")
      .def(
          "set_prefill", &PyClient::SetPrefill, py::arg("tokens_per_second"),
          "How many tokens' KV the engine computes in a second; 0: not known. What takes longer to "
          "bring is a miss.")
      .def("clear", &PyClient::Clear, py::arg("tag"),
           "Drops the pages set under tag: \"\" or why not.")
      .def("asynchronous", &PyClient::Asynchronous, py::arg("window") = AsyncOptions{}.window,
           py::arg("max_pending") = AsyncOptions{}.max_pending,
           "The same calls, submitted now and awaited later; None when the client is closed.")
      .def("stats", &PyClient::Stats)
      .def("close", &PyClient::Close);
}

}  // namespace peercache::bindings
