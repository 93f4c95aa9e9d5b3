#include "node/http.h"

#include <fmt/format.h>
#include <httplib.h>

#include <thread>

namespace peercache {
namespace {

constexpr char kText[] = "text/plain; charset=utf-8";
constexpr char kIndex[] =
    "PeerCache node\n"
    "/healthz    is the process able to work\n"
    "/readyz     has it joined, does it serve engines\n"
    "/metrics    Prometheus\n"
    "/v1/status  JSON: node, members, pool, engines, counters\n";

httplib::Server::Handler Probe(std::function<Status()> check) {
  return [check = std::move(check)](const httplib::Request&, httplib::Response& response) {
    const Status status = check();
    response.status = status.ok() ? 200 : 503;
    response.set_content(status.ok() ? "ok\n" : status.message() + "\n", kText);
  };
}

}  // namespace

class Http::Impl {
 public:
  explicit Impl(HttpHandlers handlers) {
    // Two threads, small requests, short patience: nobody who floods this port can hold much.
    server_.new_task_queue = [] { return new httplib::ThreadPool(2); };
    server_.set_payload_max_length(4096);
    server_.set_read_timeout(5);
    server_.set_write_timeout(5);
    server_.set_keep_alive_timeout(5);
    // Each range of a request adds its part to the answer: a header of them makes megabytes of
    // kilobytes.
    server_.set_pre_routing_handler(
        [](const httplib::Request& request, httplib::Response& response) {
          if (request.ranges.size() <= 1) return httplib::Server::HandlerResponse::Unhandled;
          response.status = 416;
          return httplib::Server::HandlerResponse::Handled;
        });
    server_.Get("/", [](const httplib::Request&, httplib::Response& response) {
      response.set_content(kIndex, kText);
    });
    server_.Get("/healthz", Probe(std::move(handlers.healthy)));
    server_.Get("/readyz", Probe(std::move(handlers.ready)));
    server_.Get("/metrics", [text = std::move(handlers.metrics)](const httplib::Request&,
                                                                 httplib::Response& response) {
      response.set_content(text(), "text/plain; version=0.0.4; charset=utf-8");
    });
    server_.Get("/v1/status", [json = std::move(handlers.status)](const httplib::Request&,
                                                                  httplib::Response& response) {
      response.set_content(json(), "application/json");
    });
  }
  ~Impl() {
    server_.stop();
    if (thread_.joinable()) thread_.join();
  }

  Status Bind(const std::string& host, uint16_t port) {
    // The library would share a taken port (SO_REUSEPORT); an error is what people expect.
    server_.set_socket_options([](socket_t socket) {
      const int on = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    });
    const int bound = port == 0                          ? server_.bind_to_any_port(host)
                      : server_.bind_to_port(host, port) ? port
                                                         : -1;
    if (bound <= 0) {
      return Unavailable(fmt::format(
          "--http-port: cannot listen at {}:{}; choose another port, or 0 for any", host, port));
    }
    port_ = static_cast<uint16_t>(bound);
    return {};
  }
  void Serve() {
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    // stop() before the loop has begun would be lost, and the thread never joined.
    while (!server_.is_running()) std::this_thread::yield();
  }
  uint16_t port() const { return port_; }

 private:
  httplib::Server server_;
  uint16_t port_ = 0;
  std::thread thread_;
};

Http::Http(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Http::~Http() = default;
uint16_t Http::port() const { return impl_->port(); }
void Http::Serve() { impl_->Serve(); }

Result<std::unique_ptr<Http>> Http::Bind(const std::string& host, uint16_t port,
                                         HttpHandlers handlers) {
  auto impl = std::make_unique<Impl>(std::move(handlers));
  if (Status s = impl->Bind(host, port); !s.ok()) return s;
  return std::unique_ptr<Http>(new Http(std::move(impl)));
}

}  // namespace peercache
