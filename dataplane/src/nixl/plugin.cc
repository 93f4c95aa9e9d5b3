// libplugin_PEERCACHE.so: what a NIXL agent loads from NIXL_PLUGIN_DIR.
#include <cstdio>
#include <exception>

#include "nixl/engine.h"

namespace {

using peercache::nixl::Engine;

constexpr int kApiVersion = 1;

nixlBackendEngine* Create(const nixlBackendInitParams* init) {
  try {
    return new Engine(init);
  } catch (const std::exception& error) {
    fprintf(stderr, "NIXL backend PEERCACHE: %s\n", error.what());
    return nullptr;
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) nixlBackendPlugin* nixl_plugin_init() {
  static nixlBackendPlugin plugin{
      kApiVersion,
      Create,
      [](nixlBackendEngine* engine) { delete engine; },
      [] { return "PEERCACHE"; },
      pc_version,
      Engine::Options,
      []() -> nixl_mem_list_t {
        return {OBJ_SEG, DRAM_SEG};
      },
  };
  return &plugin;
}
extern "C" __attribute__((visibility("default"))) void nixl_plugin_fini() {}
