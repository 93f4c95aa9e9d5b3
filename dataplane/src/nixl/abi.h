// What a NIXL agent and its plugins have in common: the classes of NIXL's backend interface, plugin
// API version 1, as far as a plugin for local objects needs them. NIXL's wheels come without
// headers, and its own need Abseil's.
//
// The order of virtual functions and of members is NIXL's. tests/engines/test_nixl.py compares the
// functions with the wheels that the project supports, from their ELF files alone.
//
// Names are NIXL's, so that its documentation applies. Everything here is hidden in the plugin:
// classes of the same name in the agent's process stay apart.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

enum nixl_mem_t { DRAM_SEG, VRAM_SEG, BLK_SEG, OBJ_SEG, FILE_SEG };
enum nixl_xfer_op_t { NIXL_READ, NIXL_WRITE };
enum nixl_status_t {
  NIXL_IN_PROG = 1,
  NIXL_SUCCESS = 0,
  NIXL_ERR_INVALID_PARAM = -2,
  NIXL_ERR_BACKEND = -3,
  NIXL_ERR_NOT_FOUND = -4,
  NIXL_ERR_REPOST_ACTIVE = -7,
  NIXL_ERR_NOT_SUPPORTED = -9,
};
enum class nixl_thread_sync_t;
enum class nixl_cost_t;

using nixl_mem_list_t = std::vector<nixl_mem_t>;
using nixl_b_params_t = std::unordered_map<std::string, std::string>;
using nixl_query_resp_t = std::optional<nixl_b_params_t>;
using nixlMemViewH = void*;
using notif_list_t = std::vector<std::pair<std::string, std::string>>;
struct nixlAgentOptionalArgs;
struct nixlBackendOptionalArgs;

struct nixlBasicDesc {
  uintptr_t addr;  // in memory, or in the object
  size_t len;
  uint64_t devId;
};
struct nixlBlobDesc : nixlBasicDesc {
  std::string metaInfo;
};

class nixlBackendMD {
 public:
  explicit nixlBackendMD(bool is_private) : isPrivateMD(is_private) {}
  virtual ~nixlBackendMD() = default;

 protected:
  bool isPrivateMD;
};
struct nixlMetaDesc : nixlBasicDesc {
  nixlBackendMD* metadataP;
};
struct nixlRemoteMetaDesc : nixlMetaDesc {
  std::string remoteAgent;
};

// Made by the agent alone, so its virtual functions are its own.
template <typename T>
class nixlDescList {
 public:
  nixlDescList() = delete;
  size_t count() const { return descs.size(); }
  const T& operator[](size_t i) const { return descs[i]; }

 protected:
  virtual ~nixlDescList();
  nixl_mem_t type;
  std::vector<T> descs;
};
using nixl_meta_dlist_t = nixlDescList<nixlMetaDesc>;
using nixl_remote_meta_dlist_t = nixlDescList<nixlRemoteMetaDesc>;
using nixl_reg_dlist_t = nixlDescList<nixlBlobDesc>;

class nixlBackendReqH {
 public:
  virtual ~nixlBackendReqH() = default;
};

struct nixlBackendInitParams {
  std::string localAgent;
  std::string type;
  nixl_b_params_t* customParams;
  bool enableProgTh;
  uint64_t pthrDelay;
  nixl_thread_sync_t syncMode;
  bool enableTelemetry_;
};

class nixlBackendEngine {
  struct TelemetryEvent {
    uint32_t type;
    uint64_t value;
  };
  [[maybe_unused]] std::string backendType;  // the agent reads these
  nixl_b_params_t customParams;
  [[maybe_unused]] std::vector<TelemetryEvent> telemetryEvents_;
  [[maybe_unused]] std::mutex telemetryEventsMutex_;

 protected:
  bool initErr = false;
  const std::string localAgent;
  const bool enableTelemetry_;

 public:
  explicit nixlBackendEngine(const nixlBackendInitParams* init)
      : backendType(init->type),
        customParams(*init->customParams),
        localAgent(init->localAgent),
        enableTelemetry_(init->enableTelemetry_) {}
  nixlBackendEngine(const nixlBackendEngine&) = delete;
  nixlBackendEngine& operator=(const nixlBackendEngine&) = delete;

  const nixl_b_params_t& getCustomParams() const { return customParams; }

  virtual ~nixlBackendEngine() = default;
  virtual bool supportsRemote() const = 0;
  virtual bool supportsLocal() const = 0;
  virtual bool supportsNotif() const = 0;
  virtual nixl_mem_list_t getSupportedMems() const = 0;
  virtual nixl_status_t registerMem(const nixlBlobDesc&, const nixl_mem_t&, nixlBackendMD*&) = 0;
  virtual nixl_status_t deregisterMem(nixlBackendMD*) = 0;
  virtual nixl_status_t connect(const std::string&) = 0;
  virtual nixl_status_t disconnect(const std::string&) = 0;
  virtual nixl_status_t unloadMD(nixlBackendMD*) = 0;
  virtual nixl_status_t prepXfer(const nixl_xfer_op_t&, const nixl_meta_dlist_t&,
                                 const nixl_meta_dlist_t&, const std::string&, nixlBackendReqH*&,
                                 const nixlBackendOptionalArgs*) const = 0;
  virtual nixl_status_t postXfer(const nixl_xfer_op_t&, const nixl_meta_dlist_t&,
                                 const nixl_meta_dlist_t&, const std::string&, nixlBackendReqH*&,
                                 const nixlBackendOptionalArgs*) const = 0;
  virtual nixl_status_t checkXfer(nixlBackendReqH*) const = 0;
  virtual nixl_status_t releaseReqH(nixlBackendReqH*) const = 0;
  virtual nixl_status_t prepMemView(const nixl_remote_meta_dlist_t&, nixlMemViewH&,
                                    const nixlBackendOptionalArgs*) const {
    return NIXL_ERR_NOT_SUPPORTED;
  }
  virtual nixl_status_t prepMemView(const nixl_meta_dlist_t&, nixlMemViewH&,
                                    const nixlBackendOptionalArgs*) const {
    return NIXL_ERR_NOT_SUPPORTED;
  }
  virtual void releaseMemView(nixlMemViewH) const {}
  virtual nixl_status_t getPublicData(const nixlBackendMD*, std::string&) const {
    return NIXL_ERR_BACKEND;
  }
  virtual nixl_status_t getConnInfo(std::string&) const { return NIXL_ERR_BACKEND; }
  virtual nixl_status_t loadRemoteConnInfo(const std::string&, const std::string&) {
    return NIXL_ERR_BACKEND;
  }
  virtual nixl_status_t loadRemoteMD(const nixlBlobDesc&, const nixl_mem_t&, const std::string&,
                                     nixlBackendMD*&) {
    return NIXL_ERR_BACKEND;
  }
  virtual nixl_status_t loadLocalMD(nixlBackendMD*, nixlBackendMD*&) { return NIXL_ERR_BACKEND; }
  virtual nixl_status_t getNotifs(notif_list_t&) { return NIXL_ERR_BACKEND; }
  virtual nixl_status_t genNotif(const std::string&, const std::string&) const {
    return NIXL_ERR_BACKEND;
  }
  virtual nixl_status_t queryMem(const nixl_reg_dlist_t&, std::vector<nixl_query_resp_t>&) const {
    return NIXL_ERR_NOT_SUPPORTED;
  }
  virtual nixl_status_t estimateXferCost(const nixl_xfer_op_t&, const nixl_meta_dlist_t&,
                                         const nixl_meta_dlist_t&, const std::string&,
                                         nixlBackendReqH* const&, std::chrono::microseconds&,
                                         std::chrono::microseconds&, nixl_cost_t&,
                                         const nixlAgentOptionalArgs*) const {
    return NIXL_ERR_NOT_SUPPORTED;
  }
};

struct nixlBackendPlugin {
  int api_version;
  nixlBackendEngine* (*create_engine)(const nixlBackendInitParams*);
  void (*destroy_engine)(nixlBackendEngine*);
  const char* (*get_plugin_name)();
  const char* (*get_plugin_version)();
  nixl_b_params_t (*get_backend_options)();
  nixl_mem_list_t (*get_backend_mems)();
};
