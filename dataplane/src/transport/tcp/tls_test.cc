// Channel and TcpServer over TLS: all sizes, every way in which a certificate can be wrong, and
// files that change under traffic.
#include "transport/tcp/tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <ostream>
#include <thread>

#include "base/copy.h"
#include "base/wrong_bytes.h"
#include "transport/tcp/tcp_testing.h"
#include "transport/tcp/tls_testing.h"

namespace peercache {
namespace {

using namespace std::chrono_literals;
using namespace peercache::testing;
using ::testing::HasSubstr;

class TlsTest : public ::testing::Test {
 protected:
  std::unique_ptr<Tls> Member(const std::string& name, const TestSubject& subject = {},
                              const std::string& peer_name = "") {
    return LoadTls(WriteTls(dir_, name, ca_.Issue(subject), ca_.pem(), peer_name));
  }

  TempDir dir_;
  TestCa ca_;
  std::unique_ptr<Tls> tls_ = Member("node");
};

TEST_F(TlsTest, PagesOfAllSizesArriveInPiecesAndInOrder) {
  Fixture f({.tls = tls_.get()});
  Channel channel = f.NewChannel();
  uint8_t fill = 0;
  for (const size_t size : {1, 31, 16383, 16384, 16385, 100'000, 1 << 20, 3 << 20}) {
    const size_t count = size > 100'000 ? 2 : 20;
    std::vector<ReadItem> items;
    for (size_t i = 0; i < count; ++i) items.push_back(f.service.Add(++fill, size));
    BufferSink sink(count * size);
    FrameWriter request = ReadOf(items, fill);
    ASSERT_TRUE(RunOne(&channel, &request, &sink).ok()) << channel.status().ToString();
    for (size_t i = 0; i < count; ++i) {
      ASSERT_EQ(sink.lengths[i], size);
      const std::vector<std::byte> want(size, static_cast<std::byte>(fill - count + 1 + i));
      const auto page = std::span(sink.buffer).subspan(i * size, size);
      ASSERT_TRUE(HasRightBytes("page " + std::to_string(i), page, want));
    }
  }
  FrameWriter nothing = ReadOf({}, 1000);
  BufferSink sink(0);
  EXPECT_TRUE(RunOne(&channel, &nothing, &sink).ok()) << channel.status().ToString();
  EXPECT_EQ(f.server->stats().accepted, 1u);
}

TEST_F(TlsTest, ManyConnectionsWorkAtOnce) {
  Fixture f({.tls = tls_.get()});
  std::vector<ReadItem> items;
  for (int i = 1; i <= 40; ++i) items.push_back(f.service.Add(static_cast<uint8_t>(i), 50'000));
  std::vector<Channel> channels;
  for (int i = 0; i < 16; ++i) channels.push_back(f.NewChannel());
  for (uint64_t round = 1; round <= 3; ++round) {
    FrameWriter request = ReadOf(items, round);
    const auto bytes = request.Finish();
    std::vector<std::unique_ptr<BufferSink>> sinks;
    std::vector<Channel*> running;
    for (Channel& channel : channels) {
      sinks.push_back(std::make_unique<BufferSink>(2 << 20));
      channel.Begin(bytes, sinks.back().get(), Clock::now());
      running.push_back(&channel);
    }
    RunAll(running, {kEndsAHang, Clock::now() + kEndsAHang});
    for (size_t c = 0; c < channels.size(); ++c) {
      ASSERT_TRUE(channels[c].status().ok()) << channels[c].status().ToString();
      for (size_t i = 0; i < items.size(); ++i) {
        const auto page = std::span(sinks[c]->buffer).subspan(i * 50'000, 50'000);
        const std::vector<std::byte> want(50'000, std::byte(i + 1));
        ASSERT_TRUE(HasRightBytes("page " + std::to_string(i), page, want));
      }
    }
  }
}

// More than the buffers between the two hold: sending waits, again and again.
TEST_F(TlsTest, LargeRequestsArriveWhole) {
  Fixture f({.tls = tls_.get()});
  Channel channel = f.NewChannel();
  for (const size_t size : {2u << 20, 100'000u, 1u}) {
    FrameWriter request;
    request.Start(MessageType::kExists, size);
    const std::vector<uint8_t> body(size);
    request.PutSpan(std::span<const uint8_t>(body));
    channel.Begin(request.Finish(), nullptr, Clock::now());
    const int least = 1;  // still in its handshake: what TLS has taken does not fit at once
    setsockopt(channel.fd(), SOL_SOCKET, SO_SNDBUF, &least, sizeof(least));
    Channel* const running[] = {&channel};
    RunAll(running, {kEndsAHang, Clock::now() + kEndsAHang});
    ASSERT_TRUE(channel.status().ok()) << channel.status().ToString();
    EXPECT_EQ(channel.answer().body_length, kLargeAnswer);
  }
  EXPECT_EQ(f.service.large_answers, 3u);
  EXPECT_EQ(f.server->stats().accepted, 1u);
}

// ---- a peer of raw bytes

// What a stream comes to when it may take its time.
template <typename Step>
Moved Await(int fd, Step step) {
  for (;;) {
    const Moved moved = step();
    if (moved.io != Io::kWantsRead && moved.io != Io::kWantsWrite) return moved;
    const short events = moved.io == Io::kWantsRead ? POLLIN : POLLOUT;
    const auto ready = WaitFor(fd, events, Clock::now() + kEndsAHang);
    if (!ready.ok() || !*ready) return {Io::kFailed};
  }
}

struct RawTls {
  RawTls(uint16_t port, const Tls& tls)
      : fd(RawConnect(port)), stream(fd.get(), tls.Connecting(fd.get())) {}
  bool Handshake() {
    return Await(fd.get(), [&] { return stream.Handshake(); }).io == Io::kMoved;
  }
  bool Send(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
      const Moved moved = Await(fd.get(), [&] {
        return stream.Send({&part, 1}, Stream::More::kLast);
      });
      if (moved.io != Io::kMoved) return false;
      bytes = bytes.subspan(moved.bytes);
    }
    return Await(fd.get(), [&] { return stream.Flush(); }).io == Io::kMoved;
  }
  bool Receive(std::span<std::byte> bytes) {
    while (!bytes.empty()) {
      const Moved moved = Await(fd.get(), [&] { return stream.Receive(bytes); });
      if (moved.io != Io::kMoved) return false;
      bytes = bytes.subspan(moved.bytes);
    }
    return true;
  }
  UniqueFd fd;
  Stream stream;
};

// What who connects sends first.
std::vector<std::byte> Greeting(const Tls& tls) {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd ours(ends[0]), theirs(ends[1]);
  Stream stream(ours.get(), tls.Connecting(ours.get()));
  EXPECT_EQ(stream.Handshake().io, Io::kWantsRead);
  std::vector<std::byte> bytes(16384);
  const ssize_t sent = read(theirs.get(), bytes.data(), bytes.size());
  EXPECT_GT(sent, 0);
  bytes.resize(static_cast<size_t>(std::max<ssize_t>(sent, 0)));
  return bytes;
}

TEST_F(TlsTest, RequestsThatComeTogetherAreAllAnsweredInOrder) {
  Fixture f({.tls = tls_.get()});
  RawTls peer(f.server->port(), *tls_);
  ASSERT_TRUE(peer.Handshake());
  const ReadItem item = f.service.Add(7, 100);
  std::vector<std::byte> all = HelloFrame("test");
  constexpr uint64_t kRequests = 2000;
  for (uint64_t i = 1; i <= kRequests; ++i) {
    FrameWriter request = ReadOf({&item, 1}, i);
    const auto bytes = request.Finish();
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  ASSERT_TRUE(peer.Send(all));
  for (uint64_t i = 0; i <= kRequests; ++i) {
    FrameHeader header;
    ASSERT_TRUE(peer.Receive(std::as_writable_bytes(std::span(&header, 1)))) << i;
    ASSERT_EQ(header.request_id, i);
    std::vector<std::byte> rest(header.body_length + header.payload_length);
    ASSERT_TRUE(peer.Receive(rest));
    if (i > 0) {
      ASSERT_EQ(header.payload_length, 100u);
      ASSERT_EQ(rest.back(), std::byte{7});
    }
  }
}

TEST_F(TlsTest, AnswersThatNobodyTakesEndTheConnection) {
  Fixture f({.write_stall = 1s, .tls = tls_.get()});
  RawTls peer(f.server->port(), *tls_);
  ASSERT_TRUE(peer.Handshake());
  std::vector<ReadItem> items;
  for (int i = 1; i <= 100; ++i) items.push_back(f.service.Add(static_cast<uint8_t>(i), 100'000));
  FrameWriter request = ReadOf(items, 1);
  ASSERT_TRUE(peer.Send(HelloFrame("test")) && peer.Send(request.Finish()));
  ASSERT_TRUE(Eventually([&] { return f.server->stats().bytes_sent > 100'000; }));
  EXPECT_TRUE(Eventually([&] { return f.server->stats().connections == 0; }));
}

// Ciphertext that was damaged on the way: nothing of it counts, others do not suffer.
TEST_F(TlsTest, BrokenRecordsEndTheConnection) {
  Fixture f({.tls = tls_.get()});
  const std::string all[] = {std::string("\x17\x03\x03\x00\x20", 5), "\x17\x03\x03\xff\xff",
                             std::string("\x16\x03\x03\x00\x05", 5), "PCW1 in the clear"};
  for (const std::string& broken : all) {
    RawTls peer(f.server->port(), *tls_);
    ASSERT_TRUE(peer.Handshake());
    ASSERT_TRUE(peer.Send(HelloFrame("test")));
    std::vector<std::byte> ok(sizeof(FrameHeader));
    ASSERT_TRUE(peer.Receive(ok));
    const std::string bytes = broken + std::string(100, '!');
    SendAll(peer.fd.get(), std::as_bytes(std::span(bytes)));
    EXPECT_TRUE(Eventually([&] { return f.server->stats().connections == 0; })) << broken;
  }
  ExpectServes(&f);
}

TEST_F(TlsTest, GarbageAndTruncatedHandshakesAreRefused) {
  Fixture f({.tls = tls_.get()});
  // A record of type handshake that holds no ClientHello, one that ends early, and other protocols.
  const std::string garbage[] = {std::string("\x16\x03\x01\x00\x10\x01\x00\x00\x0cgarbagegarb", 21),
                                 "GET / HTTP/1.1\r\nHost: somebody\r\n\r\n",
                                 std::string(1000, '\xff'), std::string(100, '\0')};
  for (const std::string& bytes : garbage) {
    UniqueFd fd = RawConnect(f.server->port());
    SendAll(fd.get(), std::as_bytes(std::span(bytes)));
    DrainUntilClosed(fd.get());
  }
  {
    UniqueFd fd = RawConnect(f.server->port());
    SendAll(fd.get(), std::as_bytes(std::span("\x16\x03\x01\x02\x00\x01\x00", 7)));
  }
  EXPECT_TRUE(Eventually([&] {
    const auto stats = f.server->stats();
    return stats.accepted == std::size(garbage) + 1 && stats.connections == 0;
  }));
  EXPECT_EQ(f.server->stats().gate.failures, std::size(garbage)) << "breaking off is no failure";
  EXPECT_EQ(f.server->stats().strangers, 0u);
  ExpectServes(&f);
}

TEST_F(TlsTest, AHandshakeThatNeverEndsIsCutOff) {
  Fixture f({.hello_timeout = 1500ms, .tls = tls_.get()});
  UniqueFd begun = RawConnect(f.server->port());
  SendAll(begun.get(), std::as_bytes(std::span("\x16\x03\x01\x02\x00\x01\x00", 7)));
  RawTls no_hello(f.server->port(), *tls_);
  ASSERT_TRUE(no_hello.Handshake());
  EXPECT_TRUE(Eventually([&] { return ServerClosed(begun.get()); }));
  EXPECT_TRUE(Eventually([&] { return ServerClosed(no_hello.fd.get()); }));
  EXPECT_EQ(f.server->stats().too_slow, 2u);
  EXPECT_TRUE(Eventually([&] { return f.server->stats().connections == 0; }));
}

// Who leaves when it has the answer, which is what costs.
TEST_F(TlsTest, HandshakesThatAreLeftCountAndTheNextOnesOfTheirSourceWait) {
  constexpr uint64_t kBurst = 5;
  Fixture f({.gate = {.failures = {500ms, kBurst}}, .tls = tls_.get()});
  const std::vector<std::byte> hello = Greeting(*tls_);
  const TimePoint start = Clock::now();
  for (uint64_t i = 0; i < 2 * kBurst; ++i) {
    const UniqueFd left = RawConnect(f.server->port());
    SendAll(left.get(), hello);
    ASSERT_TRUE(*WaitFor(left.get(), POLLIN, Clock::now() + kEndsAHang)) << i;
  }
  EXPECT_GE(Clock::now() - start, kBurst * 500ms) << "each after the first waits for its turn";
  EXPECT_TRUE(Eventually([&] { return f.server->stats().gate.failures == 2 * kBurst; }));
  ExpectServes(&f);  // last
}

TEST_F(TlsTest, HandshakesThatEndWellCostNoTurn) {
  Fixture f({.gate = {.failures = {kEndsAHang, 1}}, .tls = tls_.get()});
  for (int i = 0; i < 3; ++i) ExpectServes(&f);
  { const UniqueFd nothing = RawConnect(f.server->port()); }  // as by who looks for open ports
  EXPECT_TRUE(Eventually([&] { return f.server->stats().accepted == 4; }));
  ExpectServes(&f);
  EXPECT_EQ(f.server->stats().gate.failures, 0u);
}

// ---- certificates

size_t Failures(const Tls& tls, TlsProblem problem) {
  return tls.stats().failures[static_cast<size_t>(problem)];
}

// A node that connects to one that accepts, one of which has something wrong. Both sides name it,
// neither waits, and the breaker takes it for an unreachable peer.
struct WrongCase {
  const char* name;
  TestSubject connects{}, accepts{};
  bool other_ca = false;
  const char *connects_wants = "", *accepts_wants = "";  // peer names
  TlsProblem seen_by_connecting = TlsProblem::kRejected;
  TlsProblem seen_by_accepting = TlsProblem::kRejected;
  const char* text = "";  // in what the connecting side says
};

void PrintTo(const WrongCase& c, std::ostream* out) { *out << c.name; }

class WrongCertificateTest : public TlsTest, public ::testing::WithParamInterface<WrongCase> {};

TEST_P(WrongCertificateTest, IsRefusedAtOnceAndNamed) {
  const WrongCase& c = GetParam();
  const auto accepts = Member("accepts", c.accepts, c.accepts_wants);
  const TestCa other("other CA");
  const TestCa& ca = c.other_ca ? other : ca_;
  // The connecting side trusts both, so that it is the accepting side that refuses.
  const auto connects = LoadTls(
      WriteTls(dir_, "connects", ca.Issue(c.connects), ca_.pem() + other.pem(), c.connects_wants));
  Fixture f({.tls = accepts.get()}, connects.get());
  Channel channel = f.NewChannel();
  FrameWriter request = ReadOf({}, 1);
  const Status s = RunOne(&channel, &request, nullptr);
  EXPECT_EQ(s.code(), Code::kUnavailable) << s.ToString();
  EXPECT_THAT(s.message(), HasSubstr(c.text));
  EXPECT_EQ(Failures(*connects, c.seen_by_connecting), 1u);
  EXPECT_TRUE(Eventually([&] { return f.server->stats().gate.failures == 1; }));
  EXPECT_EQ(Failures(*accepts, c.seen_by_accepting), 1u);
  EXPECT_FALSE(channel.stale());
}

INSTANTIATE_TEST_SUITE_P(All, WrongCertificateTest,
                         ::testing::Values(WrongCase{.name = "ExpiredConnecting",
                                                     .connects = {.from = -2h, .until = -1h},
                                                     .seen_by_accepting = TlsProblem::kExpired,
                                                     .text = "certificate expired"},
                                           WrongCase{.name = "ExpiredAccepting",
                                                     .accepts = {.from = -2h, .until = -1h},
                                                     .seen_by_connecting = TlsProblem::kExpired,
                                                     .text = "certificate has expired"},
                                           WrongCase{.name = "NotYetValid",
                                                     .accepts = {.from = 1h, .until = 2h},
                                                     .seen_by_connecting = TlsProblem::kExpired,
                                                     .text = "not yet valid"},
                                           WrongCase{.name = "AnotherCa",
                                                     .other_ca = true,
                                                     .seen_by_accepting = TlsProblem::kUntrusted,
                                                     .text = "unknown ca"},
                                           WrongCase{.name = "OnlyForServers",
                                                     .connects = {.usage = "serverAuth"},
                                                     .seen_by_accepting = TlsProblem::kUntrusted,
                                                     .text = "unsupported certificate"},
                                           WrongCase{.name = "OnlyForClients",
                                                     .accepts = {.usage = "clientAuth"},
                                                     .seen_by_connecting = TlsProblem::kUntrusted,
                                                     .text = "server and client authentication"},
                                           WrongCase{
                                               .name = "NameOfAccepting",
                                               .accepts = {.names = {"other.example", "*.example"}},
                                               .connects_wants = "cache.kv.example",
                                               .seen_by_connecting = TlsProblem::kName,
                                               .text = "tls-peer-name"},
                                           WrongCase{.name = "NameOfConnecting",
                                                     .connects = {.names = {"other.example"}},
                                                     .accepts_wants = "cache.example",
                                                     .seen_by_accepting = TlsProblem::kName,
                                                     .text = "bad certificate"}),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_F(TlsTest, TheRightNameIsTakenOnBothSides) {
  const TestSubject named{.names = {"other.example", "cache.example"}};
  const auto a = Member("a", named, "cache.example");
  const auto b = Member("b", named, "cache.example");
  Fixture f({.tls = a.get()}, b.get());
  ExpectServes(&f);
}

TEST_F(TlsTest, APeerWithoutCertificateIsRefused) {
  Fixture f({.tls = tls_.get()});
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  TlsMeters meters;
  UniqueFd fd = RawConnect(f.server->port());
  Stream stream(fd.get(), std::make_unique<TlsSession>(context.get(), TlsSession::Side::kConnects,
                                                       fd.get(), &meters));
  ASSERT_EQ(Await(fd.get(), [&] { return stream.Handshake(); }).io, Io::kMoved)
      << "of TLS 1.3 it ends before the other side has decided";
  std::byte byte;
  EXPECT_EQ(Await(fd.get(), [&] { return stream.Receive({&byte, 1}); }).io, Io::kFailed);
  EXPECT_THAT(stream.Failure("peer").message(), HasSubstr("certificate required"));
  EXPECT_TRUE(Eventually([&] { return f.server->stats().gate.failures == 1; }));
  EXPECT_EQ(Failures(*tls_, TlsProblem::kAbsent), 1u);
}

TEST_F(TlsTest, OlderVersionsAreRefused) {
  Fixture f({.tls = tls_.get()});
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  SSL_CTX_set_max_proto_version(context.get(), TLS1_2_VERSION);
  TlsMeters meters;
  UniqueFd fd = RawConnect(f.server->port());
  Stream stream(fd.get(), std::make_unique<TlsSession>(context.get(), TlsSession::Side::kConnects,
                                                       fd.get(), &meters));
  EXPECT_EQ(Await(fd.get(), [&] { return stream.Handshake(); }).io, Io::kFailed);
  EXPECT_THAT(stream.Failure("peer").message(), HasSubstr("protocol version"));
  EXPECT_TRUE(Eventually([&] { return Failures(*tls_, TlsProblem::kProtocol) == 1; }));
}

TEST_F(TlsTest, APlainPeerIsToldThatTlsIsNeeded) {
  Fixture f({.hello_timeout = kEndsAHang, .tls = tls_.get()});
  Channel plain({"127.0.0.1", f.server->port()}, Hello{"test", "", 1, 1});
  FrameWriter request = ReadOf({}, 1);
  const TimePoint start = Clock::now();
  const Status s = RunOne(&plain, &request, nullptr);
  EXPECT_LT(Clock::now() - start, kEndsAHang / 2) << "it waited for a time-out";
  EXPECT_THAT(s.message(), HasSubstr("this node speaks TLS: set tls-cert-file"));
  EXPECT_EQ(Failures(*tls_, TlsProblem::kNoTls), 1u);
  EXPECT_EQ(f.server->stats().gate.failures, 1u);
}

TEST_F(TlsTest, APlainServerIsNamedByTheTlsPeerAndTheReverse) {
  Fixture f({.hello_timeout = kEndsAHang}, tls_.get());
  Channel channel = f.NewChannel();
  FrameWriter request = ReadOf({}, 1);
  const TimePoint start = Clock::now();
  const Status s = RunOne(&channel, &request, nullptr);
  EXPECT_LT(Clock::now() - start, kEndsAHang / 2) << "it waited for a time-out";
  EXPECT_EQ(s.code(), Code::kUnavailable);
  EXPECT_THAT(s.message(), HasSubstr("does not speak TLS"));
  EXPECT_EQ(Failures(*tls_, TlsProblem::kNoTls), 1u);
  EXPECT_EQ(f.server->stats().gate.failures, 1u) << "and the server has counted and logged it";
  // The rest of it was no frame of ours either, but it was recognized.
  UniqueFd fd = RawConnect(f.server->port());
  SendAll(fd.get(), std::as_bytes(std::span("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 and so "
                                            "on to the end of a header",
                                            40)));
  EXPECT_THAT(DrainUntilClosed(fd.get()), HasSubstr("the peer speaks TLS, this node does not"));
}

// ---- files

struct BadFiles {
  const char* name;
  std::function<void(TlsFiles*, const TempDir&, const TestCa&)> spoil;
  const char *option, *text;
};

void PrintTo(const BadFiles& c, std::ostream* out) { *out << c.name; }

class BadFilesTest : public TlsTest, public ::testing::WithParamInterface<BadFiles> {};

TEST_P(BadFilesTest, AreRefusedWithTheOptionAndTheReason) {
  TlsFiles files = WriteTls(dir_, "bad", ca_.Issue({}), ca_.pem());
  GetParam().spoil(&files, dir_, ca_);
  const auto tls = Tls::Load(files, 1s);
  ASSERT_FALSE(tls.ok());
  EXPECT_EQ(tls.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(tls.status().message(), HasSubstr(GetParam().option));
  EXPECT_THAT(tls.status().message(), HasSubstr(GetParam().text));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadFilesTest,
    ::testing::Values(
        BadFiles{"NoCertificate", [](auto* f, auto&, auto&) { f->cert = "/does/not/exist"; },
                 "tls-cert-file", "/does/not/exist"},
        BadFiles{"EmptyCertificate", [](auto*, auto& dir, auto&) { dir.Write("bad.crt", ""); },
                 "tls-cert-file", "no PEM certificates"},
        BadFiles{"HalfACertificate",
                 [](auto*, auto& dir, auto& ca) {
                   dir.Write("bad.crt", ca.pem().substr(0, ca.pem().size() / 2));
                 },
                 "tls-cert-file", "no PEM certificates"},
        BadFiles{"KeyOfAnother",
                 [](auto*, auto& dir, auto& ca) { dir.Write("bad.key", ca.Issue({}).key); },
                 "tls-key-file", "not the key of the certificate"},
        BadFiles{"EncryptedKey",
                 [](auto*, auto& dir, auto& ca) {
                   const TestCertificate made = ca.Issue({});
                   dir.Write("bad.crt", made.cert);
                   dir.Write("bad.key", TestCa::Encrypted(made.key));
                 },
                 "tls-key-file", "without a passphrase"},
        BadFiles{"CertificateForKey",
                 [](auto*, auto& dir, auto& ca) { dir.Write("bad.key", ca.pem()); }, "tls-key-file",
                 "no PEM private key"},
        BadFiles{"NoCa", [](auto*, auto& dir, auto&) { dir.Write("bad.ca", "none"); },
                 "tls-ca-file", "no PEM certificates"},
        BadFiles{
            "Huge",
            [](auto*, auto& dir, auto&) { dir.Write("bad.ca", std::string((1 << 20) + 1, 'x')); },
            "tls-ca-file", "larger than"}),
    [](const auto& each) { return std::string(each.param.name); });

TEST_F(TlsTest, FilesThatDoNotFitTogetherChangeNothing) {
  const TlsFiles files = WriteTls(dir_, "a", ca_.Issue({.until = 1h}), ca_.pem());
  const auto tls = LoadTls(files);
  Fixture f({.tls = tls.get()}, tls_.get());
  const TestCertificate next = ca_.Issue({.until = 48h});
  const auto before = tls->stats().expires;
  dir_.Write("a.crt", next.cert);
  ASSERT_TRUE(Eventually([&] { return tls->stats().refused_reloads == 1; }));
  EXPECT_EQ(tls->stats().expires, before);
  ExpectServes(&f);
  dir_.Write("a.key", next.key);
  ASSERT_TRUE(Eventually([&] { return tls->stats().reloads == 1; }));
  EXPECT_EQ(tls->stats().refused_reloads, 1u);
  EXPECT_GT(tls->stats().expires, before + 40h);
  ExpectServes(&f);
}

// The CA is replaced step by step on two nodes, one after the other, while connections old and new
// carry pages both ways.
TEST_F(TlsTest, CertificatesAndCasAreReplacedUnderTraffic) {
  const TestCa next("next CA");
  struct Node {
    explicit Node(std::unique_ptr<Tls> t) : tls(std::move(t)) {}
    std::unique_ptr<Tls> tls;
    std::unique_ptr<Fixture> server;
  } a(Member("a")), b(Member("b"));
  a.server = std::make_unique<Fixture>(TcpServerOptions{.tls = a.tls.get()}, b.tls.get());
  b.server = std::make_unique<Fixture>(TcpServerOptions{.tls = b.tls.get()}, a.tls.get());
  std::atomic<bool> stop{false};
  std::atomic<size_t> reads{0};
  const auto traffic = [&](Fixture* f) {
    const ReadItem item = f->service.Add(9, 30'000);
    Channel lasting = f->NewChannel();
    while (!stop) {
      Channel fresh = f->NewChannel();
      for (Channel* channel : {&lasting, &fresh}) {
        BufferSink sink(30'000);
        FrameWriter request = ReadOf({&item, 1}, 1);
        const Status s = RunOne(channel, &request, &sink);
        ASSERT_TRUE(s.ok()) << s.ToString();
        ASSERT_EQ(sink.buffer.back(), std::byte{9});
        ++reads;
      }
    }
  };
  std::thread to_a(traffic, a.server.get()), to_b(traffic, b.server.get());
  const auto change = [&](const std::string& name, Node* node,
                          const std::function<void(const std::string&)>& write) {
    const uint64_t reloads = node->tls->stats().reloads;
    const size_t before = reads;
    write(name);
    EXPECT_TRUE(Eventually([&] { return node->tls->stats().reloads > reloads; }));
    EXPECT_TRUE(Eventually([&] { return reads >= before + 20; }));
  };
  const auto trust = [&](const std::string& cas) {
    return [&, cas](const std::string& name) { dir_.Write(name + ".ca", cas); };
  };
  const auto renew = [&](const std::string& name) {
    const TestCertificate made = next.Issue({});
    // Of a mounted Secret the three change at once; here at least the key is first.
    dir_.Write(name + ".key", made.key);
    dir_.Write(name + ".crt", made.cert);
  };
  for (const auto& step : {std::function<void(const std::string&)>(trust(ca_.pem() + next.pem())),
                           std::function<void(const std::string&)>(renew),
                           std::function<void(const std::string&)>(trust(next.pem()))}) {
    change("a", &a, step);
    change("b", &b, step);
  }
  stop = true;
  to_a.join();
  to_b.join();
  // Those of the old CA are members no more.
  Channel old({"127.0.0.1", a.server->server->port()}, Hello{"test", "", 1, 1}, tls_.get());
  FrameWriter request = ReadOf({}, 1);
  EXPECT_FALSE(RunOne(&old, &request, nullptr).ok());
}

// ---- memory that is taken away

// Destinations in a file that is cut short while the page arrives.
class VanishingSink : public PayloadSink {
 public:
  explicit VanishingSink(size_t size) : size_(size), fd_(memfd_create("vanishing", MFD_CLOEXEC)) {
    EXPECT_EQ(ftruncate(fd_.get(), static_cast<off_t>(size)), 0);
    base_ = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    EXPECT_NE(base_, MAP_FAILED);
  }
  ~VanishingSink() override { munmap(base_, size_); }
  Status Accept(FrameReader, uint64_t payload_length, std::vector<iovec>* destinations) override {
    EXPECT_EQ(payload_length, size_);
    EXPECT_EQ(ftruncate(fd_.get(), 4096), 0);
    destinations->push_back({base_, size_});
    return {};
  }

 private:
  const size_t size_;
  UniqueFd fd_;
  void* base_ = nullptr;
};

TEST_F(TlsTest, ADestinationThatVanishesFailsTheExchangeNotTheProcess) {
  InstallCopyGuard();
  for (const Tls* tls : {static_cast<const Tls*>(nullptr), static_cast<const Tls*>(tls_.get())}) {
    Fixture f({.tls = tls});
    const ReadItem item = f.service.Add(5, 1 << 20);
    Channel channel = f.NewChannel();
    VanishingSink sink(1 << 20);
    FrameWriter request = ReadOf({&item, 1}, 1);
    const Status s = RunOne(&channel, &request, &sink);
    EXPECT_EQ(s.code(), Code::kInvalidArgument) << s.ToString();
    EXPECT_THAT(s.message(), HasSubstr("not mapped any more"));
    ExpectServes(&f);
  }
}

}  // namespace
}  // namespace peercache
