// peercache-perf: one measurement, one JSON object on standard output. peercache-bench starts
// nodes, runs this and shows the results; use it alone to look at one number.
//
//   peercache-perf memcpy|tcp|pingpong [options]            the bare limits
//   peercache-perf tcp-serve --port P [options]             the sender of tcp, for another host
//   peercache-perf set|get|exists|presence --socket S       engines on the node behind a socket
//   peercache-perf turns --socket S                         gets, so many at a time as stdin says
//   peercache-perf async --socket S [options]               single requests, alone or together
//   peercache-perf clear --socket S                         drop what set has stored
//   peercache-perf rdma-read --devices D [--host H]         READs alone, as ib_read_bw does them
//   peercache-perf rpc-latency|rpc-rate --port P [options]  small requests to a node
//
// With --repeat, memcpy, tcp, set, get, exists and presence measure once for each line of standard
// input.
#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "async.h"
#include "bare.h"
#include "load.h"
#include "rdma.h"
#include "rpc.h"
#include "transport/tcp/socket.h"
#include "version.h"

using namespace peercache;
using namespace peercache::perf;

namespace {

Result<Measurement> Tcp(const Shape& shape, const std::string& sender) {
  if (sender.empty()) return TcpPages(shape, {});
  const auto from = ParseHostPorts(sender);
  if (!from.ok()) return from.status().Annotate("--from");
  return TcpPages(shape, {from->front().host, from->front().port});
}

// What the process exits with.
int Report(const Status& status) {
  if (status.ok()) return 0;
  fmt::print(stderr, "peercache-perf: {}\n", status.ToString());
  return 1;
}

// Prints what is measured: once, or once for each line of standard input.
Status Print(const Measurement& measure, bool repeat) {
  std::string line;
  while (!repeat || std::getline(std::cin, line)) {
    const auto result = measure();
    if (!result.ok()) return result.status();
    fmt::print("{}\n", result->dump());
    std::fflush(stdout);
    if (!repeat) break;
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  spdlog::set_default_logger(spdlog::stderr_logger_mt("perf"));  // results alone go to stdout
  CLI::App app("Measures PeerCache's native data path, and the limits of this machine beside it.",
               "peercache-perf");
  app.set_version_flag("--version", kVersion);
  app.require_subcommand(1);
  Shape shape;
  std::string socket = "/run/peercache/default.sock", huge_pages = "off", op = "get",
              mode = "async";
  RpcTarget target;
  RdmaShape rdma;
  bool repeat = false;
  size_t message_bytes = 64, window = 256, async_window = 4;
  const auto with_shape = [&](CLI::App* sub) {
    sub->add_option("--page-bytes", shape.page_bytes, "bytes of a page")->capture_default_str();
    sub->add_option("--segments", shape.segments, "segments of a page in the host pool")
        ->capture_default_str();
    sub->add_option("--batch", shape.batch, "pages in one call")->capture_default_str();
    sub->add_option("--pages", shape.pages, "distinct pages, over all threads")
        ->capture_default_str();
    sub->add_option("--window", shape.window, "pages in the host pool")->capture_default_str();
    sub->add_option("--threads", shape.threads, "engine threads")->capture_default_str();
    sub->add_option("--first-key", shape.first_key, "number of the first key")
        ->capture_default_str();
    sub->add_flag("--shared", shape.shared,
                  "every thread is an engine, and works on all pages in the same order");
    sub->add_option("--seconds", shape.seconds, "0: one pass over the pages")
        ->capture_default_str();
    sub->add_option("--warmup", shape.warmup, "seconds before the measurement")
        ->capture_default_str();
    sub->add_option("--warm-pages", shape.warm_pages, "pages that only the warm-up works on")
        ->capture_default_str();
    sub->add_flag("--check", shape.check, "verify every byte");
    sub->add_option("--huge-pages", huge_pages, "of the host pool: auto, off, 2Mi, 1Gi")
        ->capture_default_str();
    sub->add_option("--cpu-of", shape.cpu_of, "process ids whose CPU time counts as well");
    return sub;
  };
  const auto engine = [&](const char* name, const char* help) {
    auto* sub = with_shape(app.add_subcommand(name, help));
    sub->add_option("--socket", socket, "of the node")->capture_default_str();
    return sub;
  };
  const auto rpc = [&](const char* name, const char* help) {
    auto* sub = app.add_subcommand(name, help);
    sub->add_option("--host", target.host, "of the node")->capture_default_str();
    sub->add_option("--port", target.port, "its peer port")->capture_default_str();
    sub->add_option("--cluster", target.cluster, "its cluster")->capture_default_str();
    auto* cert = sub->add_option("--tls-cert-file", target.tls.cert, "for a node that speaks TLS");
    cert->needs(sub->add_option("--tls-key-file", target.tls.key, "of the certificate"));
    cert->needs(sub->add_option("--tls-ca-file", target.tls.ca, "CAs of the node's certificate"));
    sub->add_option("--tls-peer-name", target.tls.peer_name, "of the node's certificate");
    sub->add_option("--in-flight", window, "requests in flight (rpc-rate)")
        ->capture_default_str()
        ->check(CLI::PositiveNumber);
    sub->add_option("--seconds", shape.seconds)->capture_default_str();
    sub->add_option("--cpu-of", shape.cpu_of, "the node's process id");
    return sub;
  };
  auto* memcpy_sub = with_shape(app.add_subcommand("memcpy", "copy pages between two memories"));
  auto* tcp = with_shape(app.add_subcommand("tcp", "move pages over bare TCP connections"));
  std::string sender;
  tcp->add_option("--from", sender, "HOST:PORT of a tcp-serve on another host");
  auto* tcp_serve = with_shape(app.add_subcommand("tcp-serve", "send pages to whoever connects"));
  uint16_t serve_port = 0;
  tcp_serve->add_option("--port", serve_port, "0: any")->capture_default_str();
  auto* pingpong = app.add_subcommand("pingpong", "a message there and back over bare TCP");
  pingpong->add_option("--bytes", message_bytes)->capture_default_str();
  pingpong->add_option("--seconds", shape.seconds)->capture_default_str();
  auto* set = engine("set", "store pages");
  auto* get = engine("get", "read pages");
  auto* exists = engine("exists", "ask for pages");
  auto* presence = engine("presence", "ask for each page of a batch");
  auto* turns = engine("turns", "as many gets as each line of standard input says");
  turns->add_option("--host-pool", shape.host_pool,
                    "file of another engine's shared memory: the pages go there, at any place");
  std::string keys;
  turns->add_option("--keys", keys, "file with the 32 bytes of each page's key, set by another");
  auto* async = engine("async", "N single requests, N being --batch");
  async->add_option("--op", op, "what they ask for")
      ->check(CLI::IsMember({"get", "set"}))
      ->capture_default_str();
  async->add_option("--mode", mode, "sync, async or batch")->capture_default_str();
  async->add_option("--async-window", async_window, "of async: requests at work at once")
      ->check(CLI::Range(1, 32))
      ->capture_default_str();
  auto* clear = app.add_subcommand("clear", "drop what set has stored, on all nodes");
  clear->add_option("--socket", socket, "of the node")->capture_default_str();
  get->add_flag("--gpu", shape.gpu, "read the pages into memory of a GPU");
  for (auto* sub : {memcpy_sub, tcp, set, get, exists, presence}) {
    sub->add_flag("--repeat", repeat, "once for each line of standard input, in the same memory");
  }
  auto* latency = rpc("rpc-latency", "lookups, one in flight");
  rpc("rpc-rate", "lookups, many in flight");
  auto* rdma_read =
      app.add_subcommand("rdma-read", "READs over RDMA; without --host, what is read from");
  rdma_read->add_option("--devices", rdma.devices, "e.g. mlx5_0,mlx5_1 (default: all)");
  rdma_read->add_option("--host", rdma.host, "where the other one runs");
  rdma_read->add_option("--port", rdma.port)->capture_default_str();
  rdma_read->add_option("--bytes", rdma.bytes, "of one READ")->capture_default_str();
  rdma_read->add_option("--batch", rdma.batch, "READs that are begun together")
      ->capture_default_str();
  rdma_read->add_flag("--window", rdma.window, "so many READs at any time, without batches");
  rdma_read->add_option("--reads", rdma.reads)->capture_default_str();
  rdma_read->add_option("--spin-us", rdma.spin_us, "before sleeping until a completion comes")
      ->capture_default_str();
  rdma_read->add_option("--threads", rdma.threads, "each with a link of its own")
      ->capture_default_str();
  rdma_read
      ->add_option("--queues", rdma.link.queues, "queue pairs of a rail; 0: as a node has them")
      ->capture_default_str();
  rdma_read->add_option("--pool-bytes", rdma.pool_bytes, "slots at random of so much; 0: a batch")
      ->capture_default_str();
  rdma_read->add_option("--gid", rdma.gid, "as the node's option rdma-gid")->capture_default_str();
  rdma_read
      ->add_option("--traffic-class", rdma.link.traffic_class,
                   "as the node's option rdma-traffic-class")
      ->capture_default_str();
  rdma_read
      ->add_option("--relaxed-ordering", rdma.link.relaxed_ordering,
                   "as the node's option rdma-relaxed-ordering")
      ->capture_default_str();
  rdma_read->add_option("--ece", rdma.link.ece, "as the node's option rdma-ece")
      ->capture_default_str();
  rdma_read->add_option("--huge-pages", huge_pages, "auto | off | 2Mi | 1Gi")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  if (*turns) return Report(GetInTurns(socket, keys, shape));
  const auto huge = ParseHugePages(huge_pages);
  if (!huge.ok()) return Report(huge.status());
  shape.huge_pages = rdma.huge_pages = *huge;
  if (*tcp_serve) return Report(ServePages(shape, serve_port));
  const pid_t server = shape.cpu_of.empty() ? 0 : shape.cpu_of.front();
  const auto measurement = [&]() -> Result<Measurement> {
    if (*memcpy_sub) return Memcpy(shape);
    if (*tcp) return Tcp(shape, sender);
    if (*set) return Drive(socket, Op::kSet, shape);
    if (*get) return Drive(socket, Op::kGet, shape);
    if (*exists) return Drive(socket, Op::kExists, shape);
    if (*presence) return Drive(socket, Op::kPresence, shape);
    if (*pingpong) return Measurement([&] { return TcpPingPong(message_bytes, shape.seconds); });
    if (*async) {
      const auto parsed = ParseAsyncMode(mode);
      if (!parsed.ok()) return parsed.status();
      return Measurement([&, parsed = *parsed] {
        return Async(socket, op == "set" ? Op::kSet : Op::kGet, parsed, async_window, shape);
      });
    }
    if (*clear) return Measurement([&] { return Clear(socket); });
    if (*rdma_read)
      return Measurement([&] { return rdma.host.empty() ? RdmaServe(rdma) : RdmaRead(rdma); });
    if (*latency) return Measurement([&] { return RpcLatency(target, shape.seconds, server); });
    return Measurement([&] { return RpcRate(target, window, shape.seconds, server); });
  }();
  return Report(measurement.ok() ? Print(*measurement, repeat) : measurement.status());
}
