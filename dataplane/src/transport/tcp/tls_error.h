// Why a TLS connection did not come about: a family for the metrics, and a text that names what to
// put right.
#pragma once

#include <cstdint>
#include <string>

struct ssl_st;  // OpenSSL's SSL

namespace peercache {

enum class TlsProblem : uint8_t {
  kExpired,    // the peer's certificate has expired, or is not valid yet
  kUntrusted,  // it is of another CA, or not good for what it is used for
  kName,       // it lacks the name that peers must have
  kAbsent,     // the peer sent none
  kRejected,   // the peer refuses our certificate or our terms
  kNoTls,      // what came is not TLS
  kProtocol,   // anything else: another TLS version, garbage, broken records
};
inline constexpr size_t kTlsProblems = 7;

struct TlsFailure {
  TlsProblem problem = TlsProblem::kProtocol;
  std::string text;
};

// Of the call on `ssl` that has just failed in this thread. Empties the thread's queue of errors.
TlsFailure ExplainTls(const ssl_st* ssl);
// What OpenSSL says of its last failure in this thread, e.g. "no start line". Empties the queue.
std::string LastTlsError();

}  // namespace peercache
