#include <algorithm>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/rendezvous/file_rendezvous.h>
#include <towpath/rendezvous/frame.h>
#include <towpath/rendezvous/name_digest.h>

namespace towpath::rendezvous {
namespace {

constexpr std::string_view kSuffix = ".metadata";
constexpr std::size_t kMaxFileName = 200;  // of 255, with its suffix
constexpr int kTouchesPerLease = 3;
constexpr int kLeasesOfTheDead = 10;
constexpr Duration kLongestLease = std::chrono::hours(24);

std::string file_of(const MetadataName& name) {
  // ',' is never in a path_safe name, and '=' neither.
  std::string file = path_safe(name.agent);
  if (!name.label.empty()) file += cat(',', path_safe(name.label));
  if (file.size() > kMaxFileName) file = cat('=', hex(digest_of(file)), '-', file.size());
  return file.append(kSuffix);
}

Result<Change> change_in(ConstByteSpan bytes) {
  TOWPATH_TRY(const wire::Message message, wire::open(bytes, frame_limits(kMaxMetadataBytes)));
  TOWPATH_TRY(Frame frame, decode_frame(message.payload));
  if (frame.kind != FrameKind::publish) return error(Code::corrupt, "the file holds no metadata");
  return Change{std::move(frame.name), std::move(frame.metadata)};
}

Status too_many(std::size_t examined) {
  return error(Code::exhausted,
               cat("there are more than the ", examined, " metadata that are watched"),
               "give each job a directory of its own");
}

}  // namespace

Result<std::unique_ptr<FileRendezvous>> FileRendezvous::open(FileRendezvousOptions options,
                                                             const Clock& clock) {
  if (options.lease < std::chrono::seconds(1))
    return error(Code::invalid_argument, "a lease of less than a second",
                 "file systems report the age of a file no finer: use ttl=1 or more");
  if (options.lease > kLongestLease)
    return error(Code::invalid_argument,
                 cat("a lease of ", options.lease / std::chrono::seconds(1), " s"),
                 "use 1 second to a day");
  TOWPATH_TRY(sys::SharedDirectory directory, sys::SharedDirectory::open(options.directory));
  TOWPATH_TRY(run::Poller poller, run::Poller::open());
  TOWPATH_TRY(run::TimerFd timer, run::TimerFd::open());
  TOWPATH_TRY(poller.add(timer.fd(), 0));
  std::unique_ptr<FileRendezvous> made(new FileRendezvous(
      std::move(options), clock, std::move(directory), std::move(poller), std::move(timer)));
  made->sweep();
  made->keep_at_ = clock.now() + made->options_.lease / kTouchesPerLease;
  made->arm_timer();
  return made;
}

FileRendezvous::~FileRendezvous() {
  if (fork_mark_.is_inherited()) return;
  for (const auto& [name, own] : own_)
    if (is_ours(name, own)) (void)directory_.remove(file_of(name));
}

// One that was only slow brings its metadata again.
void FileRendezvous::sweep() {
  const auto files = directory_.list();
  if (!files.ok()) return;
  for (const std::string& file : *files)
    if (is_of_the_dead(file)) (void)directory_.remove(file);
}

// Others may keep files here too.
bool FileRendezvous::is_of_the_dead(const std::string& file) {
  const bool is_own = sys::is_own_file(file);
  if (!is_own && !file.ends_with(kSuffix)) return false;
  const auto found =
      directory_.read(file, wire::kHeaderBytes, sys::SharedDirectory::Part::beginning);
  if (!found.ok() || found->age <= kLeasesOfTheDead * options_.lease) return false;
  return is_own || wire::read_header(found->bytes, frame_limits(kMaxMetadataBytes)).ok();
}

// ---- what is published from here ----

Status FileRendezvous::publish(const MetadataName& name, ConstByteSpan metadata) {
  TOWPATH_TRY(check_name(name));
  TOWPATH_TRY(check_metadata(metadata));
  Own own{.file = encode({.kind = FrameKind::publish,
                          .name = name,
                          .metadata = Bytes(metadata.begin(), metadata.end())})};
  TOWPATH_TRY(directory_.replace(file_of(name), own.file));
  own_.insert_or_assign(name, std::move(own));
  return {};
}

Status FileRendezvous::withdraw(const MetadataName& name) {
  std::size_t count = 0;
  Status status;
  for (auto each = own_.begin(); each != own_.end();) {
    const auto current = each++;
    if (!covers(name, current->first)) continue;
    ++count;
    if (is_ours(current->first, current->second)) {
      const Status removed = directory_.remove(file_of(current->first));
      if (!removed.ok() && removed.code() != Code::not_found) status = removed;
    }
    own_.erase(current);
  }
  if (count > 0) return status;
  return error(Code::not_found, cat(to_string(name), " was not published from here"));
}

bool FileRendezvous::is_ours(const MetadataName& name, const Own& own) {
  const auto there =
      directory_.read(file_of(name), wire::kHeaderBytes, sys::SharedDirectory::Part::beginning);
  return there.ok() &&
         std::ranges::equal(there->bytes, ConstByteSpan(own.file).first(wire::kHeaderBytes));
}

void FileRendezvous::keep() {
  const Instant now = clock_->now();
  if (now < keep_at_) return;
  keep_at_ = now + options_.lease / kTouchesPerLease;
  trouble_ = directory_.keep_clock();
  for (auto& [name, own] : own_) keep_one(name, own);
}

void FileRendezvous::keep_one(const MetadataName& name, Own& own) {
  const std::string file = file_of(name);
  if (is_ours(name, own)) {
    own.taken = false;
    if (const Status kept = directory_.touch(file); !kept.ok()) trouble_ = kept;
    return;
  }
  // What may not be read was published by another user. One that has died gives the name back.
  const auto age = directory_.age(file);
  own.taken = age.ok() && *age <= options_.lease;
  if (own.taken) {
    trouble_ = taken_by_another(name);
    return;
  }
  if (const Status brought = directory_.replace(file, own.file); !brought.ok()) trouble_ = brought;
}

// ---- what others publish ----

Result<FileRendezvous::Left> FileRendezvous::read_metadata(const std::string& file) {
  constexpr std::size_t kMost =
      kMaxMetadataBytes + kMaxAgentName + kMaxLabel + 4096;  // and the envelope
  TOWPATH_TRY(const sys::SharedDirectory::Found found, directory_.read(file, kMost));
  TOWPATH_TRY(Change change, change_in(found.bytes));
  return Left{std::move(change), found.age};
}

Result<Bytes> FileRendezvous::look_up(const MetadataName& name) {
  auto left = read_metadata(file_of(name));
  if (!left.ok() && left.code() != Code::not_found) return left.status();
  if (!left.ok() || left->change.name != name)
    return error(Code::not_found, cat("nobody has published ", to_string(name)),
                 "start that agent, or check the name");
  if (left->age <= options_.lease) return *std::move(left->change.metadata);
  return error(
      Code::not_found,
      cat("the metadata of ", to_string(name), " was left by one who has not been heard of for ",
          left->age / std::chrono::seconds(1), " s"),
      "start that agent again");
}

Result<FetchId> FileRendezvous::fetch(const MetadataName& name, run::Deadline, FetchDone done) {
  TOWPATH_TRY(check_name(name));
  if (fetches_.size() >= options_.max_fetches)
    return error(Code::exhausted, cat(fetches_.size(), " fetches wait"), "call progress()");
  const FetchId id = next_fetch_++;
  fetches_.emplace(id, Fetch{name, std::move(done)});
  arm_timer();
  return id;
}

void FileRendezvous::watch(ChangeSeen seen) {
  seen_ = std::move(seen);
  known_.clear();
  has_looked_ = false;
  look_at_ = Instant::never();
  if (seen_) {
    const int changes = directory_.watch();
    if (changes >= 0) (void)poller_.add(changes, 1);  // or it is there already
    (void)look_around();
  }
  arm_timer();
}

std::size_t FileRendezvous::look_around() {
  look_at_ = clock_->now() + options_.poll_every;
  directory_.take_changes();
  auto files = directory_.list();
  if (!files.ok()) {
    trouble_ = files.status();
    return 0;
  }
  // What is known keeps its place: what has none counts as withdrawn.
  std::ranges::partition(*files, [&](const std::string& file) { return known_.contains(file); });
  std::map<std::string, Known> now;
  std::size_t reported = 0;
  for (const std::string& file : *files) {
    if (!file.ends_with(kSuffix) || file.starts_with(sys::kOwnFilePrefix)) continue;
    if (now.size() >= options_.max_metadata) {
      trouble_ = too_many(options_.max_metadata);
      break;
    }
    reported += look_at(file, now);
  }
  std::swap(known_, now);
  for (const auto& [file, before] : now)
    if (!known_.contains(file)) reported += report({before.name, std::nullopt});
  has_looked_ = true;
  return reported;
}

std::size_t FileRendezvous::look_at(const std::string& file, std::map<std::string, Known>& now) {
  const auto found =
      directory_.read(file, wire::kHeaderBytes, sys::SharedDirectory::Part::beginning);
  if (!found.ok()) return miss(file, found.status(), now);
  if (found->age > options_.lease || found->bytes.size() != wire::kHeaderBytes) return 0;
  Known known{.lives_until = clock_->now() + (options_.lease - found->age)};
  std::ranges::copy(found->bytes, known.header.begin());
  const auto before = known_.find(file);
  if (before != known_.end() && before->second.header == known.header) {
    known.name = before->second.name;
    now.emplace(file, std::move(known));
    return 0;
  }
  const auto left = read_metadata(file);
  if (!left.ok()) return miss(file, left.status(), now);
  const Change& change = left->change;
  if (file_of(change.name) != file) return 0;  // a copy, say, which nobody would fetch either
  const auto own = own_.find(change.name);
  if (own != own_.end() && is_ours(change.name, own->second)) {
    known_.erase(file);  // what it took the place of was not withdrawn
    return 0;
  }
  known.name = change.name;
  now.emplace(file, known);
  return has_looked_ ? report(change) : 0;
}

// What cannot be read was not withdrawn, until it is as old as what is not touched.
std::size_t FileRendezvous::miss(const std::string& file, const Status& why,
                                 std::map<std::string, Known>& now) {
  const auto before = known_.find(file);
  if (before == known_.end() || why.code() == Code::not_found) return 0;
  trouble_ = why;
  if (clock_->now() <= before->second.lives_until) now.insert(*before);
  return 0;
}

std::size_t FileRendezvous::report(const Change& change) {
  const ChangeSeen seen = seen_;  // a copy: the callback may replace itself by watch()
  if (!seen) return 0;
  seen(change);
  return 1;
}

std::size_t FileRendezvous::progress() {
  timer_.clear();
  keep();
  std::size_t called = 0;
  const bool changed = seen_ && !poller_.wait(Duration::zero()).empty();
  if (seen_ && (changed || clock_->now() >= look_at_)) called += look_around();
  // Only what is there now: a callback that fetches again is answered by the next call.
  for (const FetchId end = next_fetch_; !fetches_.empty() && fetches_.begin()->first < end;) {
    auto fetch = fetches_.extract(fetches_.begin());
    fetch.mapped().done(look_up(fetch.mapped().name));
    ++called;
  }
  arm_timer();
  return called;
}

void FileRendezvous::arm_timer() {
  timer_.arm(!fetches_.empty() ? Instant{0} : std::min(keep_at_, look_at_));
}

}  // namespace towpath::rendezvous
