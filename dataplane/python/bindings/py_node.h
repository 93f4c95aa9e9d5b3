// PyNode: a Node inside this process, for engines on bare metal. Built when the extension links the
// node (_peercache.has_node).
//
// The GIL is released while the node starts, reports or leaves. Thread-safe.
#pragma once

#include <pybind11/pybind11.h>

namespace peercache::bindings {

// Adds start_node(options) -> (Node | None, reason) and the class Node.
void BindNode(pybind11::module_* module);

}  // namespace peercache::bindings
