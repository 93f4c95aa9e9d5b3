#include "node/report/http.h"

#include <fmt/format.h>
#include <microhttpd.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <iterator>
#include <list>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/thread.h"
#include "node/report/asker.h"
#include "node/report/crowding.h"
#include "node/report/web_files.h"
#include "transport/tcp/gate.h"
#include "transport/tcp/socket.h"

namespace peercache {
namespace {

using std::chrono::seconds;

// Connections; and those that were dropped, which libmicrohttpd has yet to close. It takes ten new
// ones between two rounds, each of which closes what was dropped before.
constexpr size_t kMaxGuests = 256;
constexpr unsigned kMaxDropped = 64;
// Of a connection: its request and the head of its answer.
constexpr size_t kMemory = 8 << 10;
// What the kernel takes of an answer, and so what is copied at once; it doubles that.
constexpr int kSendBuffer = 64 << 10;
// From the connect to the last byte of the answer: as long as Prometheus waits for one.
constexpr Duration kPatience = seconds(10);
constexpr Duration kSweep = seconds(1);
// Different texts that somebody has yet to read to the end.
constexpr size_t kMaxTexts = 8;

constexpr char kPlain[] = "text/plain; charset=utf-8";
constexpr char kIndex[] =
    "PeerCache node\n"
    "/           the dashboard\n"
    "/healthz    is the process able to work\n"
    "/readyz     has it joined, does it serve engines\n"
    "/metrics    Prometheus\n"
    "/v1/status  JSON: node, members, pool, engines, counters\n"
    "/v1/history JSON: the last hour\n";

// What a browser may do with any answer: nothing but show the dashboard, whose every part comes
// from here. Names of members and engines are foreign.
constexpr std::pair<const char*, const char*> kGuards[] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {MHD_HTTP_HEADER_CACHE_CONTROL, "no-store"},
    {MHD_HTTP_HEADER_CONNECTION, "close"},
};

using Response = std::shared_ptr<MHD_Response>;

// Null without memory. `lasts`: the body is part of the program. Otherwise it is copied.
Response MakeResponse(std::string_view body, const char* type, bool lasts = false) {
  // The library does not write to it.
  Response response(
      MHD_create_response_from_buffer(body.size(), const_cast<char*>(body.data()),
                                      lasts ? MHD_RESPMEM_PERSISTENT : MHD_RESPMEM_MUST_COPY),
      MHD_destroy_response);
  if (response == nullptr) return response;
  MHD_add_response_header(response.get(), MHD_HTTP_HEADER_CONTENT_TYPE, type);
  for (const auto& [name, value] : kGuards) MHD_add_response_header(response.get(), name, value);
  return response;
}

// MHD_NO, which closes the connection, without a response.
MHD_Result Answer(MHD_Connection* connection, unsigned status, const Response& response) {
  return response == nullptr ? MHD_NO : MHD_queue_response(connection, status, response.get());
}

MHD_Result Answer(MHD_Connection* connection, const Status& status) {
  return status.ok() ? Answer(connection, MHD_HTTP_OK, MakeResponse("ok\n", kPlain))
                     : Answer(connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                              MakeResponse(status.message() + "\n", kPlain));
}

}  // namespace

// Two threads. One runs the library, which reads, answers and closes; the other makes the long
// texts, while those who wait for them are suspended, and drops who stays too long.
//
// The library's own thread would sometimes sleep through a call of it: libmicrohttpd 0.9.75 looks
// for 128 events at a time, and sleeps again when it has just had as many, whatever they said.
class Http::Impl {
 public:
  Impl(Listener listener, HttpHandlers handlers)
      : port_(listener.port),
        listener_(std::move(listener.fd)),
        healthy_(std::move(handlers.healthy)),
        ready_(std::move(handlers.ready)),
        status_(std::move(handlers.status)),
        texts_{
            {{"/metrics", "text/plain; version=0.0.4; charset=utf-8", std::move(handlers.metrics)},
             {"/v1/status", "application/json", [this] { return status_(Asker::kOwnMachine); },
              /*own_machine=*/true},
             {"/v1/status", "application/json", [this] { return status_(Asker::kStranger); }},
             {"/v1/history", "application/json", std::move(handlers.history)}}} {}

  ~Impl() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      wake_.notify_one();
    }
    WakeLibrary();
    for (std::thread* thread : {&maker_, &server_})
      if (thread->joinable()) thread->join();
    {
      // The library may not be stopped while it has suspended connections.
      std::lock_guard lock(mutex_);
      for (Guest& guest : guests_)
        if (guest.waits_for != nullptr) Resume(&guest);
    }
    if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
  }

  Status Serve() {
    wake_library_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    // The library closes the socket, also when it cannot start.
    daemon_ = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, nullptr, nullptr, OnRequest, this,
        MHD_OPTION_LISTEN_SOCKET, listener_.Release(), MHD_OPTION_NOTIFY_CONNECTION, OnConnection,
        this, MHD_OPTION_CONNECTION_LIMIT, static_cast<unsigned>(kMaxGuests) + kMaxDropped,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, kMemory, MHD_OPTION_END);
    if (!wake_library_ || daemon_ == nullptr) {
      return ResourceExhausted(
          "HTTP port: its server could not be started: raise the limit of descriptors (ulimit -n)");
    }
    for (const auto& [thread, work] :
         {std::pair(&maker_, &Impl::MakeTexts), std::pair(&server_, &Impl::RunLibrary)}) {
      auto started = StartThread(std::bind_front(work, this));
      if (!started.ok()) return started.status().Annotate("HTTP port");
      *thread = std::move(*started);
    }
    return {};
  }

  uint16_t port() const { return port_; }
  HttpStats stats() const {
    std::lock_guard lock(mutex_);
    HttpStats stats = stats_;
    stats.connections = guests_.size();
    return stats;
  }

 private:
  struct Text {
    const char* path;
    const char* type;
    std::function<std::string()> make;
    bool own_machine = false;  // only for those on it
  };
  // A connection.
  struct Guest {
    MHD_Connection* connection = nullptr;
    int fd = -1;
    Source source{};
    TimePoint arrived{};
    const Text* waits_for = nullptr;  // suspended until then
    bool in_turn = false;             // what it waits for is being made, since it asked
    Response takes;                   // one of the texts
    bool dropped = false;
    std::list<Guest>::iterator here;
  };

  void RunLibrary() {
    const int ready = MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    pollfd wakes[] = {{ready, POLLIN, 0}, {wake_library_.get(), POLLIN, 0}};
    while (!stopping_) {
      MHD_run(daemon_);
      MHD_UNSIGNED_LONG_LONG timeout = 0;  // ms
      const bool soon = MHD_get_timeout(daemon_, &timeout) == MHD_YES;
      (void)poll(wakes, std::size(wakes),
                 soon ? static_cast<int>(std::min<MHD_UNSIGNED_LONG_LONG>(timeout, 1000)) : -1);
      eventfd_t times = 0;
      (void)eventfd_read(wake_library_.get(), &times);
    }
  }

  void WakeLibrary() {
    if (wake_library_) (void)eventfd_write(wake_library_.get(), 1);
  }

  static int SocketOf(MHD_Connection* connection) {
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
  }

  static bool FromHere(MHD_Connection* connection) {
    bool forwarded = false;
    MHD_get_connection_values(
        connection, MHD_HEADER_KIND,
        [](void* found, MHD_ValueKind, const char* name, const char*) {
          *static_cast<bool*>(found) |= IsOfProxies(name);
          return MHD_YES;
        },
        &forwarded);
    const char* host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host");
    return FromOwnMachine(SocketOf(connection)) && AskedDirectly(host, forwarded);
  }

  static Guest* GuestOf(MHD_Connection* connection) {
    return static_cast<Guest*>(
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context);
  }

  // On the thread that runs the library; the socket is open.
  static void OnConnection(void* self, MHD_Connection* connection, void** context,
                           MHD_ConnectionNotificationCode code) {
    Impl* const impl = static_cast<Impl*>(self);
    std::lock_guard lock(impl->mutex_);
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
      *context = impl->Enter(connection);
    } else {
      impl->guests_.erase(static_cast<Guest*>(*context)->here);
    }
  }

  Guest* Enter(MHD_Connection* connection) {
    Guest& guest = guests_.emplace_back();
    guest.connection = connection;
    guest.fd = SocketOf(connection);
    guest.source = SourceOf(
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr);
    guest.arrived = Clock::now();
    guest.here = std::prev(guests_.end());
    const auto all = [](const Guest& g) { return !g.dropped; };
    if (static_cast<size_t>(std::count_if(guests_.begin(), guests_.end(), all)) > kMaxGuests)
      MakeRoom(all);
    return &guest;
  }

  // Of those that `concerns` is true for, at least one.
  template <typename Predicate>
  void MakeRoom(Predicate concerns) {
    std::vector<Guest*> guests;
    std::vector<Source> sources;
    for (Guest& guest : guests_) {
      if (!concerns(guest)) continue;
      guests.push_back(&guest);
      sources.push_back(guest.source);
    }
    Drop(guests[OldestOfTheMost(std::span<const Source>(sources))], &stats_.crowded_out);
  }

  // The library notices, and closes the connection in its next round.
  void Drop(Guest* guest, uint64_t* reason) {
    ++*reason;
    guest->dropped = true;
    guest->takes.reset();
    // What was sent and not read must not stay in the kernel.
    const linger reset{1, 0};
    setsockopt(guest->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    shutdown(guest->fd, SHUT_RDWR);
    if (guest->waits_for != nullptr) Resume(guest);
  }

  void Resume(Guest* guest) {
    guest->waits_for = nullptr;
    guest->in_turn = false;
    MHD_resume_connection(guest->connection);
    WakeLibrary();
  }

  static MHD_Result OnRequest(void* self, MHD_Connection* connection, const char* url,
                              const char* method, const char*, const char*, size_t*, void**) {
    return static_cast<Impl*>(self)->Request(connection, url, method);
  }

  MHD_Result Request(MHD_Connection* connection, std::string_view path, std::string_view method) {
    if (method != MHD_HTTP_METHOD_GET && method != MHD_HTTP_METHOD_HEAD) {
      const Response response = MakeResponse("", kPlain);
      if (response != nullptr)
        MHD_add_response_header(response.get(), MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
      return Answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, response);
    }
    if (path == "/healthz") return Answer(connection, healthy_());
    if (path == "/readyz") return Answer(connection, ready_());
    for (const WebFile& file : WebFiles())
      if (path == file.path)
        return Answer(connection, MHD_HTTP_OK,
                      MakeResponse(file.content, file.type, /*lasts=*/true));
    for (const Text& text : texts_) {
      if (path != text.path || (text.own_machine && !FromHere(connection))) continue;
      return Long(connection, &text);
    }
    return Answer(connection, MHD_HTTP_NOT_FOUND, MakeResponse(kIndex, kPlain));
  }

  // Comes here again when the text is made.
  MHD_Result Long(MHD_Connection* connection, const Text* text) {
    std::lock_guard lock(mutex_);
    Guest* const guest = GuestOf(connection);
    if (guest->dropped || stopping_) return MHD_NO;
    if (guest->takes != nullptr) return Answer(connection, MHD_HTTP_OK, guest->takes);
    MHD_suspend_connection(connection);
    guest->waits_for = text;
    wake_.notify_one();
    return MHD_YES;
  }

  void MakeTexts() {
    std::unique_lock lock(mutex_);
    TimePoint sweep = Clock::now() + kSweep;
    while (!stopping_) {
      bool idle = true;
      for (const Text& text : texts_) idle &= !MakeText(text, &lock);
      if (Clock::now() >= sweep) {
        sweep = Clock::now() + kSweep;
        DropTheSlow(Clock::now() - kPatience);
      }
      if (idle && !stopping_) wake_.wait_until(lock, sweep);
    }
  }

  // For all who wait for it now. False: nobody does.
  bool MakeText(const Text& text, std::unique_lock<std::mutex>* lock) {
    bool any = false;
    for (Guest& guest : guests_) any |= guest.in_turn = guest.waits_for == &text;
    if (!any || stopping_) return false;
    lock->unlock();
    const Response response = MakeResponse(text.make(), text.type);
    lock->lock();
    for (Guest& guest : guests_) {
      if (!guest.in_turn) continue;
      guest.takes = response;
      guest.dropped |= response == nullptr;
      Resume(&guest);
    }
    made_.push_back(response);
    while (TextsInUse() > kMaxTexts) MakeRoom([](const Guest& g) { return g.takes != nullptr; });
    return true;
  }

  size_t TextsInUse() {
    std::erase_if(made_, [](const auto& made) { return made.expired(); });
    return made_.size();
  }

  void DropTheSlow(TimePoint before) {
    for (Guest& guest : guests_)
      if (guest.arrived <= before && !guest.dropped) Drop(&guest, &stats_.too_slow);
  }

  const uint16_t port_;
  UniqueFd listener_;
  const std::function<Status()> healthy_, ready_;
  const std::function<std::string(Asker)> status_;
  const std::array<Text, 4> texts_;  // the first that fits is the one
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<bool> stopping_{false};  // set under the mutex
  std::list<Guest> guests_;            // the oldest first
  std::vector<std::weak_ptr<MHD_Response>> made_;
  HttpStats stats_;
  UniqueFd wake_library_;
  std::thread maker_, server_;
  MHD_Daemon* daemon_ = nullptr;
};

Http::Http(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Http::~Http() = default;
uint16_t Http::port() const { return impl_->port(); }
HttpStats Http::stats() const { return impl_->stats(); }
Status Http::Serve() { return impl_->Serve(); }

Result<std::unique_ptr<Http>> Http::Bind(const std::string& host, uint16_t port,
                                         HttpHandlers handlers) {
  auto listener = Listen(host, port);
  if (!listener.ok()) {
    return Unavailable(fmt::format(
        "--http-port: cannot listen at {}:{}; choose another port, or 0 for any", host, port));
  }
  // Connections inherit it.
  setsockopt(listener->fd.get(), SOL_SOCKET, SO_SNDBUF, &kSendBuffer, sizeof(kSendBuffer));
  return std::unique_ptr<Http>(
      new Http(std::make_unique<Impl>(std::move(*listener), std::move(handlers))));
}

}  // namespace peercache
