#include "node/disk/disk_holdings.h"

#include <vector>

#include "node/disk/disk_note.h"

namespace peercache {
namespace {

PublishedTo Without(PublishedTo noted, const PublishedTo& others) {
  if (others.everywhere) {  // perhaps without all of these, so they are told again
    noted = {};
    noted.everywhere = true;
  }
  for (int i = 0; i < others.count; ++i) noted.Remove(others.peers[i]);
  return noted;
}

}  // namespace

Record DiskHoldings::RecordOf(const disk::DiskPage& page) {
  Record record;
  record.generation = page.sequence;
  record.checksum = page.checksum;
  record.length = page.length;
  record.tier = Tier::kDisk;
  return record;
}

bool DiskHoldings::Next(uint64_t* at, std::vector<NotedPage>* pages) const {
  std::vector<disk::DiskPage> found;
  const bool more = tier_->Next(at, &found);
  pages->clear();
  for (const disk::DiskPage& page : found)
    if (!pool_->Contains(page.key))
      pages->push_back({{0, page.sequence, page.key}, FromNote(page.note)});
  return more;
}

Hold DiskHoldings::Take(const PageAt& at, Record* record) {
  disk::DiskPage page;
  tier_->Find(std::span(&at.key, 1), std::span(&page, 1));
  if (page.length == 0 || page.sequence != at.generation || pool_->Contains(at.key)) return {};
  *record = RecordOf(page);
  return Hold::OnDisk();
}

void DiskHoldings::Note(std::span<const PageAt> pages, uint16_t peer) {
  for (const PageAt& page : pages) {
    tier_->UpdateNote(page.key, page.generation, [peer](uint32_t note) {
      PublishedTo to = FromNote(note);
      to.Add(peer);
      return ToNote(to);
    });
  }
}

void DiskHoldings::Published(std::span<const HeldPage> pages) {
  std::vector<disk::DiskPage> gone;
  for (const HeldPage& page : pages) {
    if (tier_->Contains(page.key, page.record.generation)) continue;
    // Its notes went with it.
    gone.push_back({.key = page.key, .sequence = page.record.generation, .note = kEverywhereNote});
  }
  if (!gone.empty()) gone_(gone);
}

void DiskHoldings::Replaced(std::span<const Victim> by) {
  std::vector<Key> keys;
  keys.reserve(by.size());
  for (const Victim& victim : by) keys.push_back(victim.key);
  std::vector<disk::DiskPage> pages(keys.size());
  tier_->Find(keys, pages);
  for (size_t i = 0; i < pages.size(); ++i) {
    if (pages[i].note == 0 || pages[i].sequence >= by[i].generation) continue;
    tier_->UpdateNote(keys[i], pages[i].sequence, [&](uint32_t note) {
      return ToNote(Without(FromNote(note), by[i].published_to));
    });
  }
}

bool DiskHoldings::Unnote(const PageAt& page, uint16_t peer) {
  tier_->UpdateNote(page.key, page.generation, [peer](uint32_t note) {
    PublishedTo to = FromNote(note);
    to.Remove(peer);
    return ToNote(to);
  });
  return true;
}

}  // namespace peercache
