// The engine behind NIXL's backend PEERCACHE: objects are pages of a PeerCache member.
//
// One request of NIXL is one op of libpeercache.h, with a page for each object that it names
// (plan.h). It is planned when it is prepared: the agent posts it, also again, with the same lists.
// NIXL has no status for a descriptor: a READ of which one object is missing is NIXL_ERR_NOT_FOUND
// as a whole, and what its ranges hold then is undefined.
//
// Thread-safe: agents may be used by several threads.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "nixl/abi.h"
#include "nixl/plan.h"
#include "peercache/libpeercache.h"

namespace peercache::nixl {

class Engine : public nixlBackendEngine {
 public:
  // The parameters of Options(). initErr where the member's socket can be none.
  explicit Engine(const nixlBackendInitParams* init);
  ~Engine() override;

  static nixl_b_params_t Options();

  bool supportsRemote() const override { return false; }
  bool supportsLocal() const override { return true; }
  bool supportsNotif() const override { return false; }
  nixl_mem_list_t getSupportedMems() const override { return {OBJ_SEG, DRAM_SEG}; }
  nixl_status_t registerMem(const nixlBlobDesc& memory, const nixl_mem_t& kind,
                            nixlBackendMD*& out) override;
  nixl_status_t deregisterMem(nixlBackendMD* memory) override;
  nixl_status_t connect(const std::string&) override { return NIXL_SUCCESS; }
  nixl_status_t disconnect(const std::string&) override { return NIXL_SUCCESS; }
  nixl_status_t unloadMD(nixlBackendMD*) override { return NIXL_SUCCESS; }
  nixl_status_t loadLocalMD(nixlBackendMD* in, nixlBackendMD*& out) override {
    out = in;
    return NIXL_SUCCESS;
  }
  nixl_status_t prepXfer(const nixl_xfer_op_t& operation, const nixl_meta_dlist_t& local,
                         const nixl_meta_dlist_t& remote, const std::string& agent,
                         nixlBackendReqH*& handle,
                         const nixlBackendOptionalArgs* args) const override;
  nixl_status_t postXfer(const nixl_xfer_op_t& operation, const nixl_meta_dlist_t& local,
                         const nixl_meta_dlist_t& remote, const std::string& agent,
                         nixlBackendReqH*& handle,
                         const nixlBackendOptionalArgs* args) const override;
  nixl_status_t checkXfer(nixlBackendReqH* handle) const override;
  nixl_status_t releaseReqH(nixlBackendReqH* handle) const override;
  nixl_status_t queryMem(const nixl_reg_dlist_t& objects,
                         std::vector<nixl_query_resp_t>& found) const override;

 private:
  struct Object;
  struct Memory;
  // An op that is under way, or done.
  struct Op {
    uint64_t id = 0;
    bool under_way = false;
    std::vector<uint8_t> ok;  // of each page
  };
  struct Request;

  pc_key KeyOf(const nixlBlobDesc& object) const;
  // Fills in a request: a page for each object that the lists name.
  static nixl_status_t PlanPages(const nixl_meta_dlist_t& local, const nixl_meta_dlist_t& remote,
                                 Request* request);
  bool Submit(pc_op wanted, Op* op) const;
  bool UnderWay(const Op& op) const;
  void Await(const Op& op) const;

  pc_client* client_ = nullptr;
  pc_queue* queue_ = nullptr;
  pc_namespace space_{};
  mutable std::mutex mutex_;
  mutable uint64_t last_id_ = 0;
  mutable std::unordered_map<uint64_t, Op*> under_way_;
};

}  // namespace peercache::nixl
