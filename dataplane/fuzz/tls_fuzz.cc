// TLS between two peers, with somebody on the wire between them, who sees no plaintext but can do
// to the bytes what he likes.
//
// A script of operations:
//   0  the client says the bytes                1  the server says them
//   2  the bytes as edits of what is on its way to the server; 3  to the client
//   4  the bytes are put before what is on its way to the server; 5  to the client
//   6  so much as there are bytes (times `argument`) of what is on its way to the server is lost
//   7  the client hangs up                      8  what is on its way arrives
// What one side gets is what the other has said, from the beginning, whatever happens; if nobody
// touched the bytes, it is all of it. Records, their lengths and the handshake are OpenSSL's; the
// buffers before and behind them are ours.

#include <fcntl.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/temp_dir_testing.h"
#include "fuzz.h"
#include "transport/tcp/tls.h"

namespace peercache::fuzz {
namespace {

Reached handshakes("handshakes"), messages("messages received"), refused("connections refused"),
    whole("conversations that nobody touched");

// One certificate that vouches for itself, for both sides.
std::unique_ptr<Tls> Load(const testing::TempDir& dir) {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), X509_free);
  X509* c = certificate.get();
  X509_set_version(c, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(c), 1);
  X509_gmtime_adj(X509_getm_notBefore(c), -3600);
  X509_gmtime_adj(X509_getm_notAfter(c), 10L * 365 * 24 * 3600);
  X509_set_pubkey(c, key.get());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(c), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("fuzz"), -1, -1, 0);
  X509_set_issuer_name(c, X509_get_subject_name(c));
  Require(X509_sign(c, key.get(), EVP_sha256()) > 0, "the certificate is signed");
  const auto pem = [](const auto& write) {
    const std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new(BIO_s_mem()), BIO_free);
    write(bio.get());
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio.get(), &data);
    return std::string(data, static_cast<size_t>(size));
  };
  const std::string text = pem([c](BIO* bio) { PEM_write_bio_X509(bio, c); });
  const std::string secret = pem([&](BIO* bio) {
    PEM_write_bio_PKCS8PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
  auto tls =
      Tls::Load({dir.Write("crt", text), dir.Write("key", secret), dir.Write("ca", text), ""},
                std::chrono::hours(1));
  Require(tls.ok(), "the files are in order");
  return std::move(*tls);
}

const Tls& Member() {
  static const testing::TempDir dir;
  static const std::unique_ptr<Tls> tls = Load(dir);
  return *tls;
}

using Bytes = std::vector<std::byte>;

// One side of the connection.
class Side {
 public:
  Side(UniqueFd fd, std::unique_ptr<TlsSession> session)
      : fd_(std::move(fd)), session_(std::move(session)) {}

  void Say(Input bytes) {
    const auto more = AsBytes(bytes);
    said_.insert(said_.end(), more.begin(), more.end());
  }
  void HangUp() { shutdown(fd_.get(), SHUT_WR); }
  // All that can be done now.
  void Work() {
    if (over_) return;
    if (!shaken_ && Goes(session_->Handshake())) {
      shaken_ = true;
      handshakes.Hit();
    }
    while (shaken_ && !over_ && taken_ < said_.size()) {
      const iovec part{said_.data() + taken_, said_.size() - taken_};
      const Moved sent = session_->Send({&part, 1}, false);
      if (!Goes(sent)) break;
      taken_ += sent.bytes;
    }
    if (shaken_ && !over_) (void)Goes(session_->Flush());
    while (shaken_ && !over_) {
      std::byte first[7], rest[1000];
      const iovec parts[] = {{first, sizeof(first)}, {rest, sizeof(rest)}};
      // As pages are received, and as everything else is.
      pages_ = !pages_;
      const Moved got = pages_ ? session_->ReceiveInto(parts) : session_->Receive(rest);
      if (!Goes(got)) break;
      Require(got.bytes > 0 && got.bytes <= sizeof(first) + sizeof(rest), "no more than fits");
      const size_t in_first = pages_ ? std::min(got.bytes, sizeof(first)) : 0;
      heard_.insert(heard_.end(), first, first + in_first);
      heard_.insert(heard_.end(), rest, rest + (got.bytes - in_first));
      messages.Hit();
    }
  }

  int fd() const { return fd_.get(); }
  bool over() const { return over_; }
  bool shaken() const { return shaken_; }
  const Bytes& said() const { return said_; }
  const Bytes& heard() const { return heard_; }

 private:
  bool Goes(const Moved& moved) {
    if (moved.io == Io::kClosed || moved.io == Io::kFailed) {
      over_ = true;
      if (session_->failure() != nullptr) refused.Hit();
    }
    return moved.io == Io::kMoved;
  }

  const UniqueFd fd_;
  const std::unique_ptr<TlsSession> session_;
  bool shaken_ = false, over_ = false, pages_ = false;
  size_t taken_ = 0;
  Bytes said_, heard_;
};

struct Ends {
  UniqueFd inner, outer;  // of a side, and of the wire
};
Ends NewEnds() {
  int fds[2];
  Require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0, "a socket");
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// The bytes between the two.
class Wire {
 public:
  explicit Wire(int fd) : fd_(fd) {}
  void Take(Bytes* on_its_way) const {
    std::byte buffer[4096];
    for (ssize_t n = 0; (n = recv(fd_, buffer, sizeof(buffer), 0)) > 0;)
      on_its_way->insert(on_its_way->end(), buffer, buffer + n);
  }
  void Give(Bytes* on_its_way) const {
    if (!on_its_way->empty()) (void)send(fd_, on_its_way->data(), on_its_way->size(), MSG_NOSIGNAL);
    on_its_way->clear();
  }

 private:
  const int fd_;
};

bool IsBeginOf(const Bytes& heard, const Bytes& said) {
  return heard.size() <= said.size() && std::equal(heard.begin(), heard.end(), said.begin());
}

}  // namespace
}  // namespace peercache::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace peercache::fuzz;
  SetUp();
  Ends of_client = NewEnds(), of_server = NewEnds();
  const int client_fd = of_client.inner.get(), server_fd = of_server.inner.get();
  Side client(std::move(of_client.inner), Member().Connecting(client_fd));
  Side server(std::move(of_server.inner), Member().Accepting(server_fd));
  const Wire client_wire(of_client.outer.get()), server_wire(of_server.outer.get());
  Bytes to_server, to_client;
  bool touched = false;
  const auto work = [&] {
    client.Work();
    server.Work();
    client_wire.Take(&to_server);
    server_wire.Take(&to_client);
  };
  const auto arrive = [&] {
    server_wire.Give(&to_server);
    client_wire.Give(&to_client);
  };
  Script script({data, size});
  Step step;
  for (int steps = 0; steps < 32 && script.Next(&step); ++steps) {
    work();
    const auto bytes = AsBytes(step.bytes);
    const uint8_t operation = step.operation % 9;
    if (operation >= 2 && operation <= 7) touched = true;
    Bytes& way = operation % 2 == 0 ? to_server : to_client;
    switch (operation) {
      case 0: client.Say(step.bytes); break;
      case 1: server.Say(step.bytes); break;
      case 2:
      case 3: ApplyEdits(step.bytes, way); break;
      case 4:
      case 5: way.insert(way.begin(), bytes.begin(), bytes.end()); break;
      case 6:
        way.erase(way.end() - std::min(way.size(), bytes.size() * step.argument), way.end());
        break;
      case 7: client.HangUp(); break;
      case 8: arrive(); break;
    }
  }
  // What is said is small against the buffers, so these turns are enough for all of it.
  for (int turn = 0; turn < 8; ++turn) {
    work();
    arrive();
  }
  work();
  Require(IsBeginOf(server.heard(), client.said()), "the server hears what the client has said");
  Require(IsBeginOf(client.heard(), server.said()), "the client hears what the server has said");
  if (!touched) {
    Require(client.shaken() && server.shaken() && !client.over() && !server.over(), "they talk");
    Require(server.heard().size() == client.said().size(), "all of it arrives at the server");
    Require(client.heard().size() == server.said().size(), "all of it arrives at the client");
    whole.Hit();
  }
  return 0;
}
