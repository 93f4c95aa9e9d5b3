#include "transport/tcp/tls.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <spdlog/spdlog.h>

#include <ctime>
#include <vector>

namespace peercache {
namespace {

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using X509Ptr = std::unique_ptr<X509, Freed<X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using BioPtr = std::unique_ptr<BIO, Freed<BIO_free>>;
using CheckPtr = std::unique_ptr<X509_STORE_CTX, Freed<X509_STORE_CTX_free>>;

// What a peer may send as its certificates, before it is known. Four of RSA 4096 are 8 KiB.
constexpr long kMaxChainBytes = 32 << 10;
// AES first: processors have it. Of its two, the faster; 128 bits are not what breaks.
constexpr char kCiphers[] =
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";

// Encrypted keys: nobody is there to be asked, and OpenSSL would read from the terminal.
int NoPassphrase(char*, int, int, void*) { return 0; }

BioPtr Over(const std::string& text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// All certificates of a PEM text.
Result<std::vector<X509Ptr>> Certificates(const std::string& pem) {
  ERR_clear_error();
  std::vector<X509Ptr> all;
  const BioPtr bio = Over(pem);
  for (;;) {
    X509Ptr one(PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, nullptr));
    if (one) {
      all.push_back(std::move(one));
      continue;
    }
    // The end of the text is reported as a missing start line.
    const bool end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
    if (!end || all.empty()) {
      return InvalidArgument(fmt::format("no PEM certificates ({})", LastTlsError()));
    }
    ERR_clear_error();
    return all;
  }
}

Result<Tls::WallTime> Expiry(const X509* certificate) {
  std::tm time{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &time) != 1)
    return InvalidArgument("a certificate without a time of expiry");
  return std::chrono::system_clock::from_time_t(timegm(&time));
}

// Why peers with the same files would refuse this certificate; empty: they take it.
std::string WhyRefused(SSL_CTX* context, X509* certificate) {
  STACK_OF(X509)* chain = nullptr;
  SSL_CTX_get0_chain_certs(context, &chain);
  for (const char* purpose : {"ssl_server", "ssl_client"}) {
    const CheckPtr check(X509_STORE_CTX_new());
    if (!check ||
        X509_STORE_CTX_init(check.get(), SSL_CTX_get_cert_store(context), certificate, chain) !=
            1 ||
        X509_STORE_CTX_set_default(check.get(), purpose) != 1 ||
        X509_VERIFY_PARAM_set1(X509_STORE_CTX_get0_param(check.get()),
                               SSL_CTX_get0_param(context)) != 1) {
      return LastTlsError();
    }
    if (X509_verify_cert(check.get()) != 1) {
      ERR_clear_error();
      return X509_verify_cert_error_string(X509_STORE_CTX_get_error(check.get()));
    }
  }
  return {};
}

}  // namespace

Result<Tls::Material> Tls::Parse(const Contents& contents) const {
  const auto [cert_file, key_file, ca_file] = files_.Named();
  const auto of = [](const TlsFiles::NamedFile& file, const std::string& what) {
    return InvalidArgument(fmt::format("{}: \"{}\": {}", file.option, *file.path, what));
  };
  ERR_clear_error();
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  if (!context) return Internal("TLS: " + LastTlsError());
  SSL_CTX* c = context.get();

  auto chain = Certificates(contents[0]);
  if (!chain.ok()) return of(cert_file, chain.status().message());
  X509* certificate = chain->front().get();
  if (SSL_CTX_use_certificate(c, certificate) != 1) return of(cert_file, LastTlsError());
  for (size_t i = 1; i < chain->size(); ++i) {
    if (SSL_CTX_add1_chain_cert(c, (*chain)[i].get()) != 1) return of(cert_file, LastTlsError());
  }
  auto expires = Expiry(certificate);
  if (!expires.ok()) return of(cert_file, expires.status().message());

  const BioPtr key_bio = Over(contents[1]);
  const KeyPtr key(PEM_read_bio_PrivateKey(key_bio.get(), nullptr, NoPassphrase, nullptr));
  if (!key) {
    return of(key_file,
              fmt::format("no PEM private key without a passphrase ({})", LastTlsError()));
  }
  if (X509_check_private_key(certificate, key.get()) != 1 ||
      SSL_CTX_use_PrivateKey(c, key.get()) != 1) {
    return of(key_file,
              fmt::format("this is not the key of the certificate in \"{}\" ({}); write the two "
                          "that belong together",
                          files_.cert, LastTlsError()));
  }

  auto cas = Certificates(contents[2]);
  if (!cas.ok()) return of(ca_file, cas.status().message());
  for (const X509Ptr& ca : *cas) {
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(c), ca.get()) != 1)
      return of(ca_file, LastTlsError());
  }

  X509_VERIFY_PARAM* checks = SSL_CTX_get0_param(c);
  // What is in the CA file is trusted, also when it is itself of a CA that is not in it.
  X509_VERIFY_PARAM_set_flags(checks, X509_V_FLAG_PARTIAL_CHAIN);
  if (!files_.peer_name.empty()) {
    X509_VERIFY_PARAM_set_hostflags(
        checks, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (X509_VERIFY_PARAM_set1_host(checks, files_.peer_name.c_str(), files_.peer_name.size()) != 1)
      return InvalidArgument(fmt::format("tls-peer-name: \"{}\"", files_.peer_name));
  }
  SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_max_cert_list(c, kMaxChainBytes);
  if (SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(c, kCiphers) != 1) {
    return Internal("TLS 1.3: " + LastTlsError());
  }
  // No resumption: a session would outlive the certificate that it was made with.
  SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(c, 0);
  // Frames say how long they are: an end without farewell cannot pass for a whole one.
  SSL_CTX_set_options(c, SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                          SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(c, 1);
  return Material{std::move(context), *expires, WhyRefused(c, certificate)};
}

Result<std::unique_ptr<Tls>> Tls::Load(TlsFiles files, Duration look_every) {
  auto tls = std::unique_ptr<Tls>(new Tls(std::move(files)));
  std::vector<std::string> paths;
  Contents contents;
  for (const auto& [option, path] : tls->files_.Named()) {
    auto read = ReadSmallFile(*path, FileWatch::kMaxBytes);
    if (!read.ok()) return InvalidArgument(fmt::format("{}: {}", option, read.status().message()));
    paths.push_back(*path);
    contents.push_back(std::move(*read));
  }
  auto material = tls->Parse(contents);
  if (!material.ok()) return material.status();
  tls->Take(std::move(*material));
  tls->watch_ = std::make_unique<FileWatch>(
      std::move(paths), std::move(contents), look_every,
      [self = tls.get()](const Contents& now) { self->OnChanged(now); });
  return tls;
}

void Tls::Take(Material material) {
  if (!material.warning.empty()) {
    spdlog::warn("tls-cert-file: peers will refuse the certificate in \"{}\": {}", files_.cert,
                 material.warning);
  }
  std::lock_guard lock(mutex_);
  material_ = std::move(material);
}

void Tls::OnChanged(const Contents& contents) {
  auto material = Parse(contents);
  if (!material.ok()) {
    spdlog::warn(
        "the TLS files have changed and could not be loaded: {}. Still using the previous files",
        material.status().message());
    std::lock_guard lock(mutex_);
    ++refused_reloads_;
    return;
  }
  spdlog::info(
      "the TLS files have changed: new connections use a certificate that expires {:%F %T} "
      "UTC",
      fmt::gmtime(std::chrono::system_clock::to_time_t(material->expires)));
  Take(std::move(*material));
  std::lock_guard lock(mutex_);
  ++reloads_;
}

std::unique_ptr<TlsSession> Tls::Session(TlsSession::Side side, int fd) const {
  std::shared_ptr<SSL_CTX> context;
  {
    std::lock_guard lock(mutex_);
    context = material_.context;
  }
  return std::make_unique<TlsSession>(context.get(), side, fd, &meters_);
}

std::unique_ptr<TlsSession> Tls::Connecting(int fd) const {
  return Session(TlsSession::Side::kConnects, fd);
}

std::unique_ptr<TlsSession> Tls::Accepting(int fd) const {
  return Session(TlsSession::Side::kAccepts, fd);
}

Tls::Stats Tls::stats() const {
  Stats stats;
  for (size_t i = 0; i < kTlsProblems; ++i)
    stats.failures[i] = meters_.failures(static_cast<TlsProblem>(i));
  std::lock_guard lock(mutex_);
  stats.expires = material_.expires;
  stats.reloads = reloads_;
  stats.refused_reloads = refused_reloads_;
  return stats;
}

}  // namespace peercache
