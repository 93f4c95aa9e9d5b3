// Tls: what a node needs to speak TLS with its peers: certificate, key and CAs from files that are
// followed when they change.
//
//   auto tls = Tls::Load({cert, key, ca, ""}, Tls::kLookEvery);   // errors name option and fix
//   Stream stream(fd, (*tls)->Connecting(fd));                    // or Accepting
//
// TLS 1.3 only. Both sides show a certificate and check the other's: it must be of one of the CAs,
// and valid now; with a peer name, carry that DNS name. The address of a peer is not checked: every
// certificate of the CAs is a member's, so let them sign nothing else, or use a peer name.
//
// New files count for new connections; those that exist stay as they are until they close. Files
// that do not load or do not fit together change nothing, with a warning. Since old and new
// certificates meet while a change spreads, CAs are replaced in three steps: both in the CA file
// everywhere, then the certificates, then the new CA alone.
//
// Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "base/file_watch.h"
#include "base/status.h"
#include "transport/tcp/tls_error.h"
#include "transport/tcp/tls_session.h"

namespace peercache {

struct TlsFiles {
  std::string cert;       // PEM: the certificate, then those between it and the CA
  std::string key;        // PEM, not encrypted
  std::string ca;         // PEM: one or more CAs
  std::string peer_name;  // empty: any certificate of the CAs

  // The files with the options that name them, in the order above.
  struct NamedFile {
    const char* option;
    const std::string* path;
  };
  std::array<NamedFile, 3> Named() const {
    return {{{"tls-cert-file", &cert}, {"tls-key-file", &key}, {"tls-ca-file", &ca}}};
  }
};

class TlsMeters {
 public:
  void Failed(TlsProblem problem) { ++failures_[static_cast<size_t>(problem)]; }
  uint64_t failures(TlsProblem problem) const { return failures_[static_cast<size_t>(problem)]; }

 private:
  std::array<std::atomic<uint64_t>, kTlsProblems> failures_{};
};

class Tls {
 public:
  using WallTime = std::chrono::system_clock::time_point;
  // Files are looked at this often and count after two looks.
  static constexpr milliseconds kLookEvery{1000};

  static Result<std::unique_ptr<Tls>> Load(TlsFiles files, Duration look_every);

  // Of a connection that this node has begun, and of one that it has accepted.
  std::unique_ptr<TlsSession> Connecting(int fd) const;
  std::unique_ptr<TlsSession> Accepting(int fd) const;

  struct Stats {
    WallTime expires{};  // this node's certificate
    uint64_t reloads = 0, refused_reloads = 0;
    std::array<uint64_t, kTlsProblems> failures{};  // of handshakes, by TlsProblem
  };
  Stats stats() const;
  const TlsFiles& files() const { return files_; }

 private:
  struct Material {
    std::shared_ptr<ssl_ctx_st> context;
    WallTime expires{};
    std::string warning;  // peers will refuse it, and why
  };
  explicit Tls(TlsFiles files) : files_(std::move(files)) {}
  // `contents`: of cert, key and ca.
  Result<Material> Parse(const Contents& contents) const;
  std::unique_ptr<TlsSession> Session(TlsSession::Side side, int fd) const;
  void Take(Material material);
  void OnChanged(const Contents& contents);

  const TlsFiles files_;
  mutable TlsMeters meters_;
  mutable std::mutex mutex_;
  Material material_;
  uint64_t reloads_ = 0, refused_reloads_ = 0;
  std::unique_ptr<FileWatch> watch_;  // last: it calls OnChanged
};

}  // namespace peercache
