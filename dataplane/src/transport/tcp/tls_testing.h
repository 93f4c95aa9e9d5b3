// A certificate authority for tests, and the files that it makes members of.
//
//   TestCa ca;
//   TempDir dir;
//   auto tls = Tls::Load(WriteTls(dir, "a", ca.Issue({}), ca.pem()), 10ms);
#pragma once

#include <gtest/gtest.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/temp_dir_testing.h"
#include "transport/tcp/tls.h"

namespace peercache::testing {

struct TestCertificate {
  std::string cert, key;  // PEM
};

struct TestSubject {
  std::vector<std::string> names{};                    // DNS, of the subjectAltName
  std::chrono::seconds from{-3600}, until{24 * 3600};  // from now
  const char* usage = "serverAuth,clientAuth";
};

class TestCa {
 public:
  explicit TestCa(const std::string& name = "test CA") : key_(NewKey()) {
    certificate_ = NewCertificate(name, key_.get(), {});
    Extend(certificate_.get(), NID_basic_constraints, "critical,CA:TRUE");
    X509_set_issuer_name(certificate_.get(), X509_get_subject_name(certificate_.get()));
    X509_sign(certificate_.get(), key_.get(), EVP_sha256());
    pem_ = Pem(certificate_.get());
  }
  const std::string& pem() const { return pem_; }

  TestCertificate Issue(const TestSubject& subject) const {
    const Key key = NewKey();
    const Certificate leaf = NewCertificate("member", key.get(), subject);
    X509_set_issuer_name(leaf.get(), X509_get_subject_name(certificate_.get()));
    Extend(leaf.get(), NID_ext_key_usage, subject.usage);
    std::string names;
    for (const std::string& name : subject.names)
      names += (names.empty() ? "DNS:" : ",DNS:") + name;
    if (!names.empty()) Extend(leaf.get(), NID_subject_alt_name, names.c_str());
    EXPECT_GT(X509_sign(leaf.get(), key_.get(), EVP_sha256()), 0);
    return {Pem(leaf.get()), Pem(key.get(), "")};
  }
  // The same key in a file that asks for a passphrase.
  static std::string Encrypted(const std::string& key_pem) {
    BIO* bio = BIO_new_mem_buf(key_pem.data(), static_cast<int>(key_pem.size()));
    const Key key(PEM_read_bio_PrivateKey(bio, nullptr, nullptr, nullptr), EVP_PKEY_free);
    BIO_free(bio);
    return Pem(key.get(), "passphrase");
  }

 private:
  using Key = std::shared_ptr<EVP_PKEY>;
  using Certificate = std::shared_ptr<X509>;

  static Key NewKey() { return {EVP_EC_gen("P-256"), EVP_PKEY_free}; }
  static Certificate NewCertificate(const std::string& name, EVP_PKEY* key,
                                    const TestSubject& subject) {
    static std::atomic<long> serial{1};
    Certificate c(X509_new(), X509_free);
    X509_set_version(c.get(), X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(c.get()), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(c.get()), subject.from.count());
    X509_gmtime_adj(X509_getm_notAfter(c.get()), subject.until.count());
    X509_set_pubkey(c.get(), key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(c.get()), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    return c;
  }
  static void Extend(X509* c, int extension, const char* value) {
    X509_EXTENSION* made = X509V3_EXT_conf_nid(nullptr, nullptr, extension, value);
    ASSERT_NE(made, nullptr) << value;
    X509_add_ext(c, made, -1);
    X509_EXTENSION_free(made);
  }
  static std::string Text(BIO* bio) {
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio, &data);
    std::string text(data, static_cast<size_t>(size));
    BIO_free(bio);
    return text;
  }
  static std::string Pem(X509* c) {
    BIO* bio = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(bio, c);
    return Text(bio);
  }
  static std::string Pem(EVP_PKEY* key, const std::string& passphrase) {
    BIO* bio = BIO_new(BIO_s_mem());
    PEM_write_bio_PKCS8PrivateKey(bio, key, passphrase.empty() ? nullptr : EVP_aes_256_cbc(),
                                  passphrase.data(), static_cast<int>(passphrase.size()), nullptr,
                                  nullptr);
    return Text(bio);
  }

  Key key_;
  Certificate certificate_;
  std::string pem_;
};

// Files `name`.crt, .key and .ca.
inline TlsFiles WriteTls(const TempDir& dir, const std::string& name,
                         const TestCertificate& certificate, const std::string& ca,
                         const std::string& peer_name = "") {
  return {dir.Write(name + ".crt", certificate.cert), dir.Write(name + ".key", certificate.key),
          dir.Write(name + ".ca", ca), peer_name};
}

inline std::unique_ptr<Tls> LoadTls(const TlsFiles& files,
                                    Duration look_every = std::chrono::milliseconds(10)) {
  auto tls = Tls::Load(files, look_every);
  EXPECT_TRUE(tls.ok()) << tls.status().ToString();
  return tls.ok() ? std::move(*tls) : nullptr;
}

}  // namespace peercache::testing
