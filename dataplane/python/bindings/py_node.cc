#include "bindings/py_node.h"

#include <pybind11/stl.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "node/config/config.h"
#include "node/node.h"
#include "transport/rdma/verbs.h"

namespace py = pybind11;

namespace peercache::bindings {
namespace {

// Longest wait for the other members to take over this node's part of the directory: an engine that
// shuts down must not hang on its peers.
constexpr int64_t kLeaveLimitMs = 3000;

class PyNode {
 public:
  explicit PyNode(std::shared_ptr<Node> node) : node_(std::move(node)), socket_(node_->socket()) {}
  ~PyNode() {
    // Stopping joins threads, which must not happen with the GIL held.
    py::gil_scoped_release released;
    node_.reset();
  }
  PyNode(const PyNode&) = delete;
  PyNode& operator=(const PyNode&) = delete;

  const std::string& socket() const { return socket_; }
  bool ready() const {
    const auto node = this->node();
    return node && node->ready();
  }
  int peer_port() const {
    const auto node = this->node();
    return node ? node->peer_port() : 0;
  }
  int http_port() const {
    const auto node = this->node();
    return node ? node->http_port() : 0;
  }
  std::string Status() const {
    const auto node = this->node();
    py::gil_scoped_release released;
    return node ? node->StatusJson() : "{}";
  }
  void Close(int64_t limit_ms) {
    py::gil_scoped_release released;
    std::shared_ptr<Node> node;
    {
      std::lock_guard lock(mutex_);
      node.swap(node_);
    }
    if (node) node->Leave(milliseconds(limit_ms));
  }

 private:
  std::shared_ptr<Node> node() const {
    std::lock_guard lock(mutex_);
    return node_;
  }

  mutable std::mutex mutex_;
  std::shared_ptr<Node> node_;  // null once closed
  const std::string socket_;
};

py::tuple StartNode(const std::map<std::string, std::string>& options) {
  auto started = [&]() -> Result<std::unique_ptr<Node>> {
    py::gil_scoped_release released;
    auto config = ParseConfig(options);
    if (!config.ok()) return config.status();
    // After a fault pages cannot be trusted (base/crash_mark.h). Of the process of an engine nobody
    // notices each: it has handlers of its own, and code that writes wherever it likes.
    if (!config->pool_file.empty()) {
      return InvalidArgument(
          "pool-file: a node inside an engine's process keeps no pages for the next one, because "
          "after a fault of the engine they might be wrong; run peercached beside the engine, and "
          "give that one the pool-file");
    }
    // An engine starts processes, and may do so with its pool registered. Whether the library is
    // there is for the node to say.
    if (config->transport != "tcp") (void)rdma::Verbs::Load(rdma::Verbs::Process::kMayFork);
    return Node::Start(std::move(config.value()));
  }();
  if (!started.ok()) return py::make_tuple(py::none(), started.status().message());
  return py::make_tuple(std::make_unique<PyNode>(std::move(started.value())), "");
}

}  // namespace

void BindNode(py::module_* module) {
  module->def("start_node", &StartNode, py::arg("options"),
              "Starts a node from peercached's options: (Node, \"\") or (None, reason).");
  py::class_<PyNode>(*module, "Node")
      .def_property_readonly("socket", &PyNode::socket)
      .def_property_readonly("ready", &PyNode::ready)
      .def_property_readonly("peer_port", &PyNode::peer_port)
      .def_property_readonly("http_port", &PyNode::http_port)
      .def("status", &PyNode::Status, "The JSON of /v1/status.")
      .def("close", &PyNode::Close, py::arg("limit_ms") = kLeaveLimitMs,
           "Leaves the membership, waiting at most limit_ms, and stops.");
}

}  // namespace peercache::bindings
