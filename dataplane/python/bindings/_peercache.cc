// _peercache: the C++ side of the package peercache. See peercache/_peercache.pyi for its
// interface.
#include <pybind11/pybind11.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "bindings/page_map.h"
#include "bindings/py_async.h"
#include "bindings/py_client.h"
#ifdef PEERCACHE_HAS_NODE
#include "bindings/py_node.h"
#endif
#include "version.h"

PYBIND11_MODULE(_peercache, module) {
  // What a program prints is not for a library's log.
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "peercache", std::make_shared<spdlog::sinks::stderr_sink_mt>()));
  module.doc() = "Engine side of PeerCache: a client of the node, and the node itself.";
  module.attr("__version__") = peercache::kVersion;
  peercache::bindings::BindPageMap(&module);
  peercache::bindings::BindAsync(&module);
  peercache::bindings::BindClient(&module);
#ifdef PEERCACHE_HAS_NODE
  peercache::bindings::BindNode(&module);
  module.attr("has_node") = true;
#else
  module.attr("has_node") = false;
#endif
}
