// _peercache: the C++ side of the package peercache. See peercache/_peercache.pyi for its
// interface.
#include <pybind11/pybind11.h>

#include "bindings/page_map.h"
#include "bindings/py_async.h"
#include "bindings/py_client.h"
#ifdef PEERCACHE_HAS_NODE
#include "bindings/py_node.h"
#endif
#include "version.h"

PYBIND11_MODULE(_peercache, module) {
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
