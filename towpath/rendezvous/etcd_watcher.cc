#include <algorithm>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/rendezvous/etcd_watcher.h>

namespace towpath::rendezvous::etcd {

namespace {

constexpr std::int64_t kKeysPerPage = 1000;

}  // namespace

void Watcher::start() {
  if (stage_ != Stage::off) return;
  stage_ = Stage::listing;
  revision_ = 0;
  listing_.clear();
  list_from(keys_.prefix());
}

void Watcher::stop() {
  client_.cancel(std::exchange(call_, 0));
  client_.cancel(std::exchange(reading_, 0));
  stage_ = Stage::off;
}

void Watcher::fail(const Status& why) {
  stop();
  ends_.failed(why);
}

Status Watcher::too_many() const {
  return error(
      Code::out_of_range,
      cat("more than ", ends_.most_keys, " metadata under ", printable(keys_.prefix(), 200)),
      "give each job a namespace of its own");
}

// All pages as they were at the revision of the first.
void Watcher::list_from(const std::string& key) {
  call_ = client_.call(range({.key = key,
                              .end = end_of_prefix(keys_.prefix()),
                              .revision = revision_,
                              .limit = kKeysPerPage,
                              .keys_only = true}),
                       [this](const Result<std::string>& body) { listed(body); });
}

void Watcher::listed(const Result<std::string>& body) {
  const auto page = body.ok() ? parse_range(*body) : body.status();
  if (!page.ok()) return fail(page.status());
  if (revision_ == 0) revision_ = page->revision;
  for (const KeyValue& pair : page->pairs) listing_.insert_or_assign(pair.key, known_of(pair));
  if (listing_.size() > ends_.most_keys) return fail(too_many());
  if (page->more && !page->pairs.empty()) return list_from(page->pairs.back().key + '\0');
  reconcile();
  open_stream(revision_ + 1);
  read_next();
}

void Watcher::reconcile() {
  const auto before = std::exchange(known_, std::exchange(listing_, {}));
  if (!std::exchange(has_listed_, true)) return;
  for (const auto& [key, known] : before)
    if (!known.mine && !known_.contains(key)) missing_.emplace(key, clock_.now() + ends_.grace);
  for (const auto& [key, known] : known_) {
    missing_.erase(key);
    const auto old = before.find(key);
    if (!known.mine && (old == before.end() || !old->second.is_same_as(known)))
      changed_.insert(key);
  }
}

void Watcher::report_losses(Instant now) {
  for (auto each = missing_.begin(); each != missing_.end();) {
    const auto current = each++;
    if (current->second > now) continue;
    report(current->first, std::nullopt);
    missing_.erase(current);
  }
}

Instant Watcher::next_loss() const {
  Instant first = Instant::never();
  for (const auto& [key, at] : missing_) first = std::min(first, at);
  return first;
}

void Watcher::open_stream(std::int64_t revision) {
  stage_ = Stage::streaming;
  call_ = client_.stream(
      watch({.key = keys_.prefix(), .end = end_of_prefix(keys_.prefix()), .revision = revision}),
      [this](std::string_view line) { return hear(line); },
      [this](const Result<std::string>& end) { fail(end.status()); });
}

Status Watcher::hear(std::string_view line) {
  TOWPATH_TRY(const WatchReply reply, parse_watch(line));
  for (const Event& event : reply.events) apply(event);
  if (known_.size() > ends_.most_keys) return too_many();
  if (!reply.ended) {
    ends_.answered();
    return {};
  }
  return error(Code::unavailable, cat("etcd ends the watch: ", printable(reply.why, 200)));
}

void Watcher::apply(const Event& event) {
  const std::string& key = event.pair.key;
  const auto known = known_.find(key);
  if (known != known_.end() && event.pair.mod_revision <= known->second.revision) return;
  changed_.erase(key);
  if (!event.removed) return take(event.pair);
  missing_.erase(key);
  const bool was_mine = known != known_.end() && known->second.mine;
  known_.erase(key);
  if (!was_mine) report(key, std::nullopt);
}

void Watcher::take(const KeyValue& pair) {
  const Known known = known_of(pair);
  missing_.erase(pair.key);
  known_.insert_or_assign(pair.key, known);
  if (!known.mine) report(pair.key, pair.value);
}

void Watcher::read_next() {
  if (reading_ != 0 || changed_.empty()) return;
  const std::string key = *changed_.begin();
  reading_ = client_.call(range({.key = key}),
                          [this, key](const Result<std::string>& body) { read(key, body); });
}

// A key stays in changed_ until its value is here, or an event that is newer than its listing.
void Watcher::read(const std::string& key, const Result<std::string>& body) {
  reading_ = 0;
  const auto reply = body.ok() ? parse_range(*body) : body.status();
  if (!reply.ok()) return fail(reply.status());
  if (changed_.erase(key) > 0 && !reply->pairs.empty()) take(reply->pairs.front());
  read_next();
}

void Watcher::report(const std::string& key, std::optional<Bytes> metadata) {
  if (auto name = keys_.name(key)) ends_.report({*std::move(name), std::move(metadata)});
}

}  // namespace towpath::rendezvous::etcd
