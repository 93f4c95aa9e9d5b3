#include "transport/rdma/connection_attributes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "transport/rdma/sysfs_testing.h"

namespace peercache::rdma {
namespace {

using peercache::testing::FakeSysfs;
using peercache::testing::Ip;

constexpr uint8_t kPort = 2;
constexpr uint32_t kFlow = 0xabcde;

// Port 2 of an adapter, as a rail sees it.
RailAddress Look(const FakeSysfs& sysfs, uint8_t mtu) {
  const Device device = ReadDevice(sysfs.Sources(), "mlx5_0");
  EXPECT_EQ(device.ports.size(), 1u);
  RailLook look = LookAt(device.ports.front(), {}, nullptr);
  EXPECT_TRUE(look.address.ok()) << look.address.status().ToString();
  look.address->mtu = mtu;
  return *look.address;
}

RailAddress InfiniBand(const std::string& lid, const std::string& gid, uint8_t mtu) {
  FakeSysfs sysfs;
  const std::string device = sysfs.AddDevice("mlx5_0", sysfs.AddPci("0000:3b:00.0", 0));
  sysfs.AddGid(sysfs.AddPort(device, kPort, "InfiniBand", "4: ACTIVE", lid), 0, gid, "IB/RoCE v1",
               "");
  return Look(sysfs, mtu);
}

RailAddress Roce(int index, const std::string& address, uint8_t mtu) {
  FakeSysfs sysfs;
  const std::string pci = sysfs.AddPci("0000:3b:00.0", 0);
  sysfs.AddGid(sysfs.AddPort(sysfs.AddDevice("mlx5_0", pci), kPort, "Ethernet"), index, address,
               "RoCE v2", "eth0");
  sysfs.AddInterface("eth0", 9000, pci, {Ip(address)}, 120);
  return Look(sysfs, mtu);
}

// One of its queue pairs, as it tells its peer.
QueueAddress QueueOf(const RailAddress& port) {
  QueueAddress queue = port.ForPeers();
  queue.queue = 0x123456;
  queue.sequence = 0xff654321;  // of which 24 bits count
  return queue;
}

LinkOptions Options() {
  return {.traffic_class = 104, .service_level = 3, .timeout = 13, .retries = 6, .pkey_index = 5};
}

TEST(ConnectionAttributesTest, PortsOfOneInfiniBandSubnetAreAddressedByLid) {
  const RailAddress here = InfiniBand("0x1f", "fe80::506b:4b03:c1:2a3c", IBV_MTU_4096);
  const RailAddress there = InfiniBand("0x2e", "fe80::506b:4b03:c1:2a3d", IBV_MTU_2048);
  const ModifyQp change = ToReceive(Options(), kPort, here, QueueOf(there), 16, kFlow);
  const ibv_qp_attr& to = change.attributes;
  EXPECT_EQ(to.ah_attr.is_global, 0);
  EXPECT_EQ(to.ah_attr.dlid, 0x2e) << "the peer's, not the own";
  EXPECT_EQ(to.ah_attr.sl, 3);
  EXPECT_EQ(to.ah_attr.src_path_bits, 0) << "the port's base LID";
  EXPECT_EQ(to.ah_attr.static_rate, 0) << "the port's rate";
  EXPECT_EQ(to.ah_attr.port_num, kPort);
  EXPECT_EQ(to.path_mtu, IBV_MTU_2048) << "of the smaller port";
  EXPECT_EQ(to.ah_attr.grh.hop_limit, 0) << "no header that names it";
}

TEST(ConnectionAttributesTest, AnotherInfiniBandSubnetIsAddressedByGidToo) {
  const RailAddress here = InfiniBand("0x1f", "fec0:0:0:1:506b:4b03:c1:2a3c", IBV_MTU_4096);
  const RailAddress there = InfiniBand("0x2e", "fec0:0:0:2:506b:4b03:c1:2a3d", IBV_MTU_4096);
  const ModifyQp change = ToReceive(Options(), kPort, here, QueueOf(there), 16, kFlow);
  const ibv_ah_attr& to = change.attributes.ah_attr;
  EXPECT_EQ(to.is_global, 1);
  EXPECT_TRUE(std::equal(there.gid.address.begin(), there.gid.address.end(), to.grh.dgid.raw));
  EXPECT_EQ(to.grh.sgid_index, 0);
  EXPECT_EQ(to.grh.flow_label, 0u) << "InfiniBand's switches have no use for it";
  EXPECT_EQ(to.grh.hop_limit, 64);
  EXPECT_EQ(to.dlid, 0x2e);
  EXPECT_EQ(to.sl, 3);
  EXPECT_EQ(to.port_num, kPort);
}

TEST(ConnectionAttributesTest, RoceIsAddressedByGidAlsoWithinANetwork) {
  const RailAddress here = Roce(5, "10.1.2.3", IBV_MTU_4096);
  const RailAddress there = Roce(9, "10.1.2.4", IBV_MTU_4096);
  EXPECT_EQ(here.network, there.network);
  LinkOptions options = Options();
  options.mtu = 1024;
  const ModifyQp change = ToReceive(options, kPort, here, QueueOf(there), 16, kFlow);
  const ibv_ah_attr& to = change.attributes.ah_attr;
  EXPECT_EQ(to.is_global, 1);
  EXPECT_TRUE(std::equal(there.gid.address.begin(), there.gid.address.end(), to.grh.dgid.raw));
  EXPECT_EQ(to.grh.sgid_index, 5) << "of the own table";
  EXPECT_EQ(to.grh.hop_limit, 64);
  EXPECT_EQ(to.grh.traffic_class, 104);
  EXPECT_EQ(to.grh.flow_label, kFlow);
  EXPECT_EQ(to.dlid, 0);
  EXPECT_EQ(to.port_num, kPort);
  EXPECT_EQ(change.attributes.path_mtu, IBV_MTU_1024) << "as configured";
}

TEST(ConnectionAttributesTest, WhatAPeerIsConnectedToIsWhatItSaid) {
  const RailAddress port = InfiniBand("0x1f", "fe80::506b:4b03:c1:2a3c", IBV_MTU_4096);
  const ModifyQp change = ToReceive(Options(), kPort, port, QueueOf(port), 16, kFlow);
  EXPECT_EQ(change.attributes.qp_state, IBV_QPS_RTR);
  EXPECT_EQ(change.attributes.dest_qp_num, 0x123456u);
  EXPECT_EQ(change.attributes.rq_psn, 0x654321u);
  EXPECT_EQ(change.attributes.max_dest_rd_atomic, 16);
  EXPECT_GT(change.attributes.min_rnr_timer, 0) << "0 would be 655 ms";
  EXPECT_EQ(change.mask, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
      << "what RTR of an RC queue pair requires, and nothing else";
}

TEST(ConnectionAttributesTest, AQueuePairBelongsToAPortAndAPartition) {
  const ModifyQp change = ToInit(Options(), kPort, IBV_ACCESS_REMOTE_READ);
  EXPECT_EQ(change.attributes.qp_state, IBV_QPS_INIT);
  EXPECT_EQ(change.attributes.port_num, kPort);
  EXPECT_EQ(change.attributes.pkey_index, 5);
  EXPECT_EQ(change.attributes.qp_access_flags, static_cast<unsigned>(IBV_ACCESS_REMOTE_READ));
  EXPECT_EQ(change.mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

TEST(ConnectionAttributesTest, ASenderWaitsAndTriesAgainAsConfigured) {
  const ModifyQp change = ToSend(Options(), 0xff000007, 4, false);
  EXPECT_EQ(change.attributes.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(change.attributes.sq_psn, 7u);
  EXPECT_EQ(change.attributes.timeout, 13);
  EXPECT_EQ(change.attributes.retry_cnt, 6);
  EXPECT_EQ(change.attributes.rnr_retry, 6);
  EXPECT_EQ(change.attributes.max_rd_atomic, 4);
  EXPECT_EQ(change.mask, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                             IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

TEST(ConnectionAttributesTest, ADeviceThatIsAProgramWaitsAsLongAsAnyOtherMay) {
  EXPECT_EQ(ToSend(Options(), 7, 4, true).attributes.timeout, 15);
  EXPECT_EQ(AckTimeout(SoftwareTimeout(13)), kAckTimeoutSpread * AckTimeout(13));
  EXPECT_EQ(SoftwareTimeout(0), 0) << "that is for ever";
  EXPECT_EQ(SoftwareTimeout(31), 31) << "five bits";
}

TEST(PathMtuTest, IsTheSmallestOfBothPortsAndTheConfigured) {
  EXPECT_EQ(PathMtu(IBV_MTU_4096, IBV_MTU_1024, 0), IBV_MTU_1024);
  EXPECT_EQ(PathMtu(IBV_MTU_1024, IBV_MTU_4096, 0), IBV_MTU_1024);
  EXPECT_EQ(PathMtu(IBV_MTU_4096, IBV_MTU_4096, 2048), IBV_MTU_2048);
  EXPECT_EQ(PathMtu(IBV_MTU_4096, IBV_MTU_4096, 1500), IBV_MTU_1024);
  EXPECT_EQ(PathMtu(IBV_MTU_4096, IBV_MTU_4096, 1), IBV_MTU_256);
  EXPECT_EQ(PathMtu(0, 200, 0), IBV_MTU_256) << "what a peer says may be nonsense";
}

}  // namespace
}  // namespace peercache::rdma
