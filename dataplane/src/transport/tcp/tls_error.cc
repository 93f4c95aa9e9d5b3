#include "transport/tcp/tls_error.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <string_view>

namespace peercache {
namespace {

// The first error that TLS itself has reported: what came before it is the detail of a certificate,
// what comes after it only says where. 0: none.
unsigned long TakeError() {
  unsigned long first = 0, of_tls = 0;
  while (const unsigned long error = ERR_get_error()) {
    if (first == 0) first = error;
    if (of_tls == 0 && ERR_GET_LIB(error) == ERR_LIB_SSL) of_tls = error;
  }
  return of_tls != 0 ? of_tls : first;
}

std::string TextOf(unsigned long error) {
  const char* text = ERR_reason_error_string(error);
  return text != nullptr ? text : "an error without a name";
}

// "certificate expired" of "sslv3 alert certificate expired".
std::string AlertOf(unsigned long error) {
  const std::string text = TextOf(error);
  constexpr std::string_view kAlert = "alert ";
  const size_t at = text.find(kAlert);
  return at == text.npos ? text : text.substr(at + kAlert.size());
}

TlsFailure OfCertificate(long result) {
  const char* text = X509_verify_cert_error_string(result);
  switch (result) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return {TlsProblem::kExpired,
              fmt::format("the peer's certificate is not valid now ({}): renew the files of its "
                          "tls-cert-file and tls-key-file, and compare the clocks",
                          text)};
    case X509_V_ERR_HOSTNAME_MISMATCH:
      return {TlsProblem::kName,
              fmt::format("the peer's certificate is not for the DNS name that tls-peer-name "
                          "asks for ({}): add it to the certificate's subjectAltName",
                          text)};
    default:
      return {TlsProblem::kUntrusted,
              fmt::format("the peer's certificate is not trusted ({}): it must be of a CA in "
                          "tls-ca-file, and good for server and client authentication",
                          text)};
  }
}

}  // namespace

TlsFailure ExplainTls(const ssl_st* ssl) {
  const unsigned long error = TakeError();
  const int reason = ERR_GET_REASON(error);
  if (error == 0 || ERR_GET_LIB(error) != ERR_LIB_SSL)
    return {TlsProblem::kProtocol, error == 0 ? "it failed" : TextOf(error)};
  switch (reason) {
    case SSL_R_CERTIFICATE_VERIFY_FAILED: return OfCertificate(SSL_get_verify_result(ssl));
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
      return {TlsProblem::kAbsent,
              "the peer sent no certificate: give it tls-cert-file and tls-key-file"};
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
      return {TlsProblem::kNoTls,
              fmt::format("the peer does not speak TLS ({}): give all nodes of the cluster "
                          "tls-cert-file, tls-key-file and tls-ca-file, or none",
                          TextOf(error))};
    default: break;
  }
  if (reason > SSL_AD_REASON_OFFSET && reason <= SSL_AD_REASON_OFFSET + 255) {
    return {TlsProblem::kRejected,
            fmt::format("the peer refuses this node's certificate or terms ({}): see its log, "
                        "and renew the files of tls-cert-file and tls-key-file if they are at "
                        "fault",
                        AlertOf(error))};
  }
  return {TlsProblem::kProtocol, TextOf(error)};
}

std::string LastTlsError() {
  const unsigned long error = ERR_peek_error();
  std::string text = error == 0 ? "no reason given" : TextOf(error);
  ERR_clear_error();
  return text;
}

}  // namespace peercache
