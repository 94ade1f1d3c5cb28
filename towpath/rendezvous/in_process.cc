#include <utility>

#include <towpath/core/format.h>
#include <towpath/rendezvous/in_process.h>

namespace towpath::rendezvous {

void Directory::report_others(const Mailbox* from, const Change& change) {
  for (Mailbox* mailbox : mailboxes_) {
    if (mailbox == from || !mailbox->watching) continue;
    mailbox->changes.insert_or_assign(change.name, change);
    mailbox->waker->wake();
  }
}

// Each is reported by its own name: of a part that a mailbox holds as published, the word that it
// is gone must take that place.
std::size_t Directory::remove(const Mailbox* owner, const MetadataName* name) {
  std::size_t count = 0;
  for (auto each = metadata_.begin(); each != metadata_.end();) {
    const auto current = each++;
    const auto& [its_name, entry] = *current;
    if (entry.owner != owner || (name != nullptr && !covers(*name, its_name))) continue;
    report_others(owner, {.name = its_name, .metadata = std::nullopt});
    metadata_.erase(current);
    ++count;
  }
  return count;
}

Result<std::unique_ptr<InProcess>> InProcess::open(std::shared_ptr<Directory> directory) {
  TOWPATH_TRY(auto waker, run::Waker::open());
  return std::unique_ptr<InProcess>(new InProcess(std::move(directory), std::move(waker)));
}

InProcess::InProcess(std::shared_ptr<Directory> directory, std::unique_ptr<run::Waker> waker)
    : directory_(std::move(directory)) {
  mailbox_.waker = std::move(waker);
  const run::MutexLock lock(directory_->mutex_);
  directory_->mailboxes_.insert(&mailbox_);
}

InProcess::~InProcess() {
  const run::MutexLock lock(directory_->mutex_);
  directory_->mailboxes_.erase(&mailbox_);
  (void)directory_->remove(&mailbox_, nullptr);
}

Status InProcess::publish(const MetadataName& name, ConstByteSpan metadata) {
  TOWPATH_TRY(check_name(name));
  TOWPATH_TRY(check_metadata(metadata));
  Change change{.name = name, .metadata = Bytes(metadata.begin(), metadata.end())};
  const run::MutexLock lock(directory_->mutex_);
  directory_->metadata_.insert_or_assign(change.name,
                                         Directory::Entry{*change.metadata, &mailbox_});
  directory_->report_others(&mailbox_, change);
  return {};
}

Status InProcess::withdraw(const MetadataName& name) {
  const run::MutexLock lock(directory_->mutex_);
  if (directory_->remove(&mailbox_, &name) > 0) return {};
  return error(Code::not_found, cat(to_string(name), " was not published from here"));
}

Result<Bytes> InProcess::look_up(const MetadataName& name) {
  const run::MutexLock lock(directory_->mutex_);
  const auto entry = directory_->metadata_.find(name);
  if (entry != directory_->metadata_.end()) return entry->second.metadata;
  return error(Code::not_found, cat("nobody has published ", to_string(name)),
               "start that agent, or check the name");
}

Result<FetchId> InProcess::fetch(const MetadataName& name, run::Deadline, FetchDone done) {
  TOWPATH_TRY(check_name(name));
  const FetchId id = next_fetch_++;
  answers_.emplace(id, Answer{std::move(done), look_up(name)});
  mailbox_.waker->wake();
  return id;
}

void InProcess::cancel(FetchId fetch) { answers_.erase(fetch); }

void InProcess::watch(ChangeSeen seen) {
  seen_ = std::move(seen);
  const run::MutexLock lock(directory_->mutex_);
  mailbox_.watching = static_cast<bool>(seen_);
  mailbox_.changes.clear();  // they were made before
}

std::size_t InProcess::progress() {
  mailbox_.waker->clear();
  std::map<MetadataName, Change> changes;
  {
    const run::MutexLock lock(directory_->mutex_);
    changes.swap(mailbox_.changes);
  }
  std::size_t called = 0;
  for (const auto& [name, change] : changes) {
    const ChangeSeen seen = seen_;  // a copy: the callback may replace itself by watch()
    if (!seen) break;
    seen(change);
    ++called;
  }
  // Only what is there now: a callback that fetches again is answered by the next call.
  for (const FetchId end = next_fetch_; !answers_.empty() && answers_.begin()->first < end;) {
    auto answer = answers_.extract(answers_.begin());
    answer.mapped().done(std::move(answer.mapped().metadata));
    ++called;
  }
  return called;
}

}  // namespace towpath::rendezvous
