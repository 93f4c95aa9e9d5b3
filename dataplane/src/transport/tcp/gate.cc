#include "transport/tcp/gate.h"

#include <netinet/in.h>
#include <xxhash.h>

#include <cstring>

namespace peercache {
namespace {

// Looking through all accounts is for when they are full, and then at most this often.
constexpr milliseconds kPurgeEvery{1000};

}  // namespace

Source SourceOf(const sockaddr* address) {
  Source source{};
  if (address->sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, address, sizeof(v4));
    std::memcpy(source.data() + 4, &v4.sin_addr, 4);
  } else if (address->sa_family == AF_INET6) {
    sockaddr_in6 v6;
    std::memcpy(&v6, address, sizeof(v6));
    // ::ffff:a.b.c.d is a.b.c.d at a socket for both families.
    if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
      std::memcpy(source.data() + 4, v6.sin6_addr.s6_addr + 12, 4);
    } else {
      std::memcpy(source.data(), v6.sin6_addr.s6_addr, 8);
    }
  }
  return source;
}

size_t Gate::Hash::operator()(const Source& source) const {
  return XXH3_64bits(source.data(), source.size());
}

Gate::Visit Gate::Admit(const Source& source, TimePoint now) {
  std::lock_guard lock(mutex_);
  Account* account = AccountOf(source, now);
  ++account->strangers;
  return Visit(this, account);
}

bool Gate::Crowded(const Account* account) const {
  std::lock_guard lock(mutex_);
  return account->strangers > options_.strangers_per_source;
}

Gate::Account* Gate::AccountOf(const Source& source, TimePoint now) {
  if (const auto it = accounts_.find(source); it != accounts_.end()) return &it->second;
  if (accounts_.size() >= options_.max_sources && now >= next_purge_) {
    next_purge_ = now + kPurgeEvery;
    std::erase_if(accounts_, [now](const auto& item) {
      return item.second.strangers == 0 && item.second.failures.Empty(now);
    });
  }
  if (accounts_.size() >= options_.max_sources) return &shared_;
  return &accounts_[source];
}

void Gate::Leave(Visit* visit) {
  std::lock_guard lock(mutex_);
  --visit->account_->strangers;
  if (visit->begun_) ++stats_.failures;
}

bool Gate::Begin(Visit* visit, TimePoint now) {
  std::lock_guard lock(mutex_);
  if (visit->account_->failures.Full(options_.failures, now)) return false;
  visit->account_->failures.Add(options_.failures, now);
  visit->begun_ = true;
  return true;
}

void Gate::Done(Visit* visit) {
  std::lock_guard lock(mutex_);
  if (std::exchange(visit->begun_, false)) visit->account_->failures.Remove(options_.failures);
}

bool Gate::Fail(Visit* visit, TimePoint now) {
  std::lock_guard lock(mutex_);
  ++stats_.failures;
  if (std::exchange(visit->begun_, false)) return true;  // it is in the account
  Meter& failures = visit->account_->failures;
  if (failures.Full(options_.failures, now)) {
    ++stats_.unanswered;
    return false;
  }
  failures.Add(options_.failures, now);
  return true;
}

bool Gate::TakeLine(Account* account, TimePoint now) {
  std::lock_guard lock(mutex_);
  if (account->lines.Full(options_.lines, now)) return false;
  account->lines.Add(options_.lines, now);
  return true;
}

GateStats Gate::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

size_t Gate::sources() const {
  std::lock_guard lock(mutex_);
  return accounts_.size();
}

}  // namespace peercache
